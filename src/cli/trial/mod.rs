//! `baton try`: the effect that handoffs would have had in the sessions of agents on this machine. Reads only.
//!
//! `places` finds the files, `files` and `databases` read them, `gather` reads all of them at once. `screen`,
//! `plot` and `detail` present what `baton_core::trial` makes of them.

mod detail;
mod files;
mod gather;
mod layout;
mod places;
mod plot;
mod screen;

use std::path::PathBuf;

use serde::Serialize;

use self::gather::Gathered;
use self::places::SessionFile;
use super::exit::{CliResult, CommandFailure, Exit};
use super::load_state;
use super::output::{Out, csv_text, shown, visible};
use super::state_args::{StateArgs, period_start};
use super::stored::only;
use baton_core::bill::PriceTable;
use baton_core::record::{LOCAL, WireId};
use baton_core::text::date::{PeriodStart, rfc3339_millis};
use baton_core::transcript::AgentKind;
use baton_core::trial::{
    self, DEFAULT_FOLLOW_SHARE, POLICIES, Reckoned, RecordedSession, TrialReport, TrialSettings,
};
use baton_state::clock::now_ms;
use baton_state::config::Config;
use baton_state::journal::JournalReader;
use baton_state::session::conversation_key;
use clap::Args as ClapArgs;

/// The output of `--json`; the names are API.
#[derive(Serialize)]
struct TriedJson<'a> {
    report: &'a TrialReport,
    rules: &'a [String],
    unread: &'a [String],
    sessions: &'a [Reckoned],
}

pub(super) fn run(args: &TryArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, &[])?;
    let prices = super::prices(args.prices.as_deref().or(config.bill.prices.as_deref()))?;
    let files = session_files(args)?;
    if files.is_empty() {
        return Err(nothing(args, &[]));
    }
    let mut gathered = gather::all(&files, &config.handoff.preamble_tags);
    let tried = tried(args, &mut gathered, &prices, &config)?;
    let columns = layout::columns(out.width());
    if let Some(id) = &args.session {
        let one = named(id, &tried)?;
        return match args.json {
            true => out.json(one),
            false => out.lines(detail::lines(one, &tried, &files, &config, columns)?),
        };
    }
    let report = TrialReport::new(&tried, args.follow_share);
    if let Some(file) = &args.plot {
        let written = std::fs::write(file, plot::svg(&report));
        written.map_err(|error| Exit::CANNOT_CREATE.failure(format!("{}: {error}", shown(file))))?;
    }
    if args.csv {
        return out.document(&csv(&tried));
    }
    // Programs read it in the report.
    if !args.json && tried.iter().all(|one| one.session.behind_baton) {
        return Err(nothing_without_baton(
            tried.iter().filter(|one| !one.session.is_subagent()).count(),
        ));
    }
    // Only now, because each draft reads the file of its session once more.
    let rules = detail::dropped(&tried, &report.verdict.best.arm, &files, &config)?;
    if args.json {
        return out.json(&TriedJson {
            report: &report,
            rules: &rules,
            unread: &gathered.unread,
            sessions: &tried,
        });
    }
    let screen = screen::Screen {
        report: &report,
        sessions: &tried,
        rules: &rules,
        gathered: &gathered,
        prices: &prices,
        columns,
    };
    out.lines(screen.lines())
}

fn session_files(args: &TryArgs) -> CliResult<Vec<SessionFile>> {
    match &args.from {
        None => Ok(places::files(args.agent)),
        Some(path) => {
            places::given(path).map_err(|error| Exit::NO_INPUT.failure(format!("{}: {error}", shown(path))))
        }
    }
}

/// Failure for a machine without sessions, with the directories that were searched.
fn nothing(args: &TryArgs, unread: &[String]) -> CommandFailure {
    let own = || places::directories(args.agent);
    let looked = args.from.clone().map_or_else(own, |path| vec![path]);
    let mut lines = vec!["no sessions with calls of a model; looked in".to_owned()];
    lines.extend(looked.iter().map(|path| format!("  {}", shown(path))));
    lines.extend(screen::unread(unread));
    let help = "name another place: baton try --from PATH; without any, begin with `baton demo` or `baton run AGENT`";
    Exit::NO_INPUT.failure(lines.join("\n")).help(help)
}

/// Failure if all sessions ran through baton, so that they show no costs without it.
fn nothing_without_baton(sessions: usize) -> CommandFailure {
    let count = screen::counted(sessions, "session");
    let message = format!("nothing to compare: {count}, and all ran through baton");
    Exit::NO_INPUT.with_help(message, "`baton savings` shows what their handoffs have saved")
}

/// Failure for a span without sessions, with the span of the existing ones.
fn nothing_since(from_ms: u64, ended_ms: &[u64]) -> CommandFailure {
    let day = |ms: u64| rfc3339_millis(ms)[..10].to_owned();
    let [first, last] =
        [ended_ms.iter().min(), ended_ms.iter().max()].map(|ms| day(ms.copied().unwrap_or_default()));
    let count = screen::counted(ended_ms.len(), "session");
    let message = format!(
        "no session since {} (UTC): {count} ended before that, from {first} to {last}",
        day(from_ms)
    );
    Exit::NO_INPUT.with_help(message, format!("baton try --since {last}"))
}

/// The requested sessions, each call counted once.
fn tried(
    args: &TryArgs,
    gathered: &mut Gathered,
    prices: &PriceTable,
    config: &Config,
) -> CliResult<Vec<Reckoned>> {
    let from = args.since.map_or(0, |since| since.at_ms(now_ms()));
    let mut sessions = trial::counted_once(std::mem::take(&mut gathered.sessions));
    sessions.retain(|session| args.agent.is_none_or(|name| session.agent() == name));
    if sessions.is_empty() {
        return Err(nothing(args, &gathered.unread));
    }
    // The period is applied after the agent, so that the failure can name when the agent's sessions ended.
    let ended = |session: &RecordedSession| session.calls.last().map_or(0, |call| call.at_ms);
    let ends = sessions.iter().filter(|one| !one.is_subagent());
    let ends: Vec<u64> = ends.map(ended).collect();
    sessions.retain(|session| ended(session) >= from);
    if sessions.is_empty() {
        return Err(nothing_since(from, &ends));
    }
    for session in sessions.iter_mut().filter(|_| args.subscription) {
        session.subscription.get_or_insert_default();
    }
    mark(&mut sessions, config)?;
    let settings = TrialSettings {
        prices,
        windows: &config.handoff.windows,
        follow_share: args.follow_share,
    };
    let reckoned = gather::in_parallel(&sessions, |_, session| {
        trial::reckon(session.clone(), &settings, &POLICIES)
    });
    Ok(reckoned.into_iter().flatten().collect())
}

/// Finds the session with this id, or the only one whose id begins with it.
///
/// The name of a subagent, or of its file, follows the session's id and a `/`, or stands for itself.
fn named<'t>(id: &str, tried: &'t [Reckoned]) -> CliResult<&'t Reckoned> {
    // Ids may be copied from a clipped line, and the file of a subagent is named `agent-ID`.
    let wanted = id.trim_end_matches('…').replace("/agent-", "/");
    let none = || {
        let message = format!("there is no session {}", visible(id));
        Exit::NO_INPUT.with_help(message, "`baton try --csv` lists them")
    };
    if let Some(exact) = tried.iter().find(|one| one.session.id == wanted) {
        return Ok(exact);
    }
    let (session, agent) = wanted.split_once('/').unwrap_or((&wanted, ""));
    let bare = wanted.strip_prefix("agent-").unwrap_or(&wanted);
    let is_named = |one: &&Reckoned| match one.session.id.split_once('/') {
        Some((_, name)) if agent.is_empty() => name == bare,
        Some((parent, name)) => parent.starts_with(session) && name.starts_with(agent),
        None => agent.is_empty() && one.session.id.starts_with(session),
    };
    only(tried.iter().filter(is_named), ["session", "the id"], id, none)
}

/// Renders a line for each session: the recorded cost, and the cost under each policy.
fn csv(all: &[Reckoned]) -> String {
    let arms = POLICIES.iter().map(|policy| policy.name).chain(["hindsight"]);
    let arms: String = arms.map(|name| format!(",{name}")).collect();
    let mut text = format!("id,agent,model,started,calls,longest,input,output,behind_baton,paid{arms}\n");
    for one in all {
        let [id, model] = [&one.session.id, &one.model].map(|text| csv_text(text));
        let (agent, at) = (one.session.agent(), rfc3339_millis(one.started_ms));
        let (input, output) = (one.tokens.whole_input(), one.tokens.output);
        let behind = one.session.behind_baton;
        let paid = one.paid.map_or(String::new(), |paid| format!("{paid:.6}"));
        let costs: String = one.arms.iter().map(|arm| format!(",{:.6}", arm.cost)).collect();
        let (calls, longest) = (one.calls, one.longest);
        text +=
            &format!("{id},{agent},{model},{at},{calls},{longest},{input},{output},{behind},{paid}{costs}\n");
    }
    text
}

/// Wires, and headers that name an agent's session.
const NAMED: [(WireId, &[&str]); 4] = [
    (WireId::Anthropic, &["x-claude-code-session-id"]),
    (WireId::OpenaiResponses, &["session-id", "thread-id"]),
    (WireId::OpenaiResponses, &["x-session-id"]),
    (WireId::OpenaiResponses, &["session_id"]),
];

/// Marks sessions that ran through baton, because their conversations are in the journal.
///
/// The reader has already marked those whose records contain handoffs. A subagent is marked like its session.
pub(super) fn mark(sessions: &mut [RecordedSession], config: &Config) -> CliResult {
    let Some(journal) = JournalReader::open(&config.state_dir)? else {
        return Ok(());
    };
    for session in sessions.iter_mut().filter(|session| !session.behind_baton) {
        let id = session.root().to_owned();
        for (wire, headers) in NAMED {
            // Agents send the id of their record in such a header, and the journal's key is made of it.
            let header = |name: &str| headers.contains(&name).then(|| id.clone());
            let key = conversation_key(LOCAL, wire, header, None, &String::new).key;
            session.behind_baton |= !journal.conversations(Some(&key), 1)?.is_empty();
        }
    }
    Ok(())
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Reads the sessions that your agents keep on this machine, and computes what they would have cost with handoffs: claude-code, \
codex, gemini-cli, qwen-code, pi, opencode, goose, cline. Sends nothing, and writes nothing except the file of --plot. \
docs/try.md explains what is counted, what is assumed, and what is hindsight.

Examples:
  baton try
  baton try --since 30d --agent codex
  baton try --session 3f2a          # where it would have been cut, what would have been carried, what a reader would miss
  baton try --from ~/old-sessions --plot saved.svg
  baton try --json | jq .report.verdict")]
pub(super) struct TryArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Read a session file, or a directory of them, in place of the agents' own
    #[arg(long, value_name = "PATH")]
    pub(super) from: Option<PathBuf>,
    /// Read only sessions since this age (12h, 30d) or date (2026-11-23)
    #[arg(long, value_name = "TIME", value_parser = period_start)]
    pub(super) since: Option<PeriodStart>,
    /// Read only this agent's sessions
    #[arg(long, value_name = "AGENT", value_parser = agent)]
    pub(super) agent: Option<&'static str>,
    /// Show this session in detail, by its id or a unique prefix of it (a subagent by ID/NAME)
    #[arg(long, value_name = "ID")]
    pub(super) session: Option<String>,
    /// Assume a subscription: report tokens, not dollars (detected only for Codex, which records it)
    #[arg(long)]
    pub(super) subscription: bool,
    /// Assume that the model hands off at this share of task ends and notices (0 to 1)
    #[arg(long, value_name = "SHARE", default_value_t = DEFAULT_FOLLOW_SHARE, value_parser = share)]
    pub(super) follow_share: f64,
    /// Use this price table (TOML) [bill.prices]
    #[arg(long, value_name = "FILE")]
    pub(super) prices: Option<PathBuf>,
    /// Write the plot as SVG
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV: a line for each session
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
}

/// Parses an agent's name, or the name of its program, as `baton run` accepts it.
fn agent(given: &str) -> Result<&'static str, String> {
    let mut names = AgentKind::ALL.map(AgentKind::name).into_iter();
    let is_named = |name: &&str| *name == given || name.split('-').next() == Some(given);
    names.find(is_named).ok_or_else(|| {
        let names = AgentKind::ALL.map(AgentKind::name);
        format!("it is not one of {}", names.join(", "))
    })
}

fn share(given: &str) -> Result<f64, String> {
    let share = given.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a number from 0 to 1".to_owned())
}

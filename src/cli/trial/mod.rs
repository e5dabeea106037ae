//! `baton try`: what handoffs would have done in the sessions that agents keep on this machine. Reads only.
//!
//! `places` finds the files, `files` and `databases` read them, `gather` reads all of them at once. `screen`, `plot` and `detail`
//! present what `baton_core::trial` makes of them.

mod databases;
mod detail;
mod files;
mod gather;
mod places;
mod plot;
mod rules;
mod screen;

use std::path::Path;

use serde::Serialize;

use self::gather::{Gathered, Unread};
use self::places::SessionFile;
use super::exit::{CommandFailure, Exit};
use super::load_state;
use super::output::{Out, visible};
use super::trial_args::TryArgs;
use crate::state::clock::now_ms;
use crate::state::config::Config;
use baton_core::bill::{Arm, PriceTable};
use baton_core::text::date::rfc3339_millis;
use baton_core::trial::{self, ARMS, Reckoned, SubscriptionUse, TrialReport};

/// The output of `--json`; the names are API.
#[derive(Serialize)]
struct TriedJson<'a> {
    report: &'a TrialReport,
    rules: &'a [String],
    unread: &'a [Unread],
    sessions: &'a [Reckoned],
}

pub(super) fn run(args: &TryArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let config = load_state(&args.state)?;
    let prices = super::prices(args.prices.as_deref().or(config.bill.prices.as_deref()))?;
    let files = session_files(args)?;
    if files.is_empty() {
        return Err(nothing(args, &[]));
    }
    let mut gathered = gather::all(&files, &config.handoff.preamble_tags);
    let tried = tried(args, &mut gathered, &prices)?;
    if let Some(id) = &args.session {
        return one(id, &tried, &files, &config, args, out);
    }
    let report = TrialReport::of(&tried);
    if let Some(file) = &args.plot {
        write_plot(file, &report)?;
    }
    let best = Arm::named(report.verdict.arm).unwrap_or(Arm::TaskEnds);
    if args.csv {
        return Ok(out.document(&csv(&tried))?);
    }
    let rules = rules::dropped(&tried, best, &files, &config)?;
    if args.json {
        out.json(&TriedJson {
            report: &report,
            rules: &rules,
            unread: &gathered.unread,
            sessions: &tried,
        })?;
        return Ok(());
    }
    let screen = screen::Screen {
        report: &report,
        sessions: &tried,
        rules: &rules,
        gathered: &gathered,
        prices: &prices,
        best,
    };
    Ok(out.lines(screen.lines())?)
}

fn session_files(args: &TryArgs) -> Result<Vec<SessionFile>, CommandFailure> {
    match &args.from {
        None => Ok(places::files(args.agent.as_deref(), args.since)),
        Some(path) => places::given(path, args.since).map_err(|error| {
            Exit::NO_INPUT.failure(format!("{}: {error}", visible(&path.display().to_string())))
        }),
    }
}

/// No session: where they were looked for, and what to do.
fn nothing(args: &TryArgs, unread: &[Unread]) -> CommandFailure {
    let looked: Vec<String> = match &args.from {
        Some(path) => vec![path.display().to_string()],
        None => places::folders(args.agent.as_deref())
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
    };
    let mut lines = vec!["no sessions with calls of a model; looked in".to_owned()];
    lines.extend(looked.iter().map(|path| format!("  {}", visible(path))));
    lines.extend(screen::unread(unread));
    let filtered = args.since.is_some() || args.agent.is_some();
    let help = match filtered {
        true => "try without --since and --agent, or name the place: baton try --from PATH",
        false => "name the place: baton try --from PATH; or begin with `baton demo`, and `baton run AGENT`",
    };
    Exit::NO_INPUT.failure(lines.join("\n")).help(help)
}

/// The sessions that are asked for, each call counted once.
fn tried(
    args: &TryArgs,
    gathered: &mut Gathered,
    prices: &PriceTable,
) -> Result<Vec<Reckoned>, CommandFailure> {
    let from = args.since.map_or(0, |since| {
        let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        now_ms().saturating_sub(since)
    });
    let mut sessions = trial::counted_once(std::mem::take(&mut gathered.sessions));
    let agent = args.agent.as_deref();
    sessions.retain(|session| agent.is_none_or(|name| session.agent() == name));
    for session in sessions.iter_mut().filter(|_| args.plan) {
        let named = || SubscriptionUse::of("a plan");
        session.subscription.get_or_insert_with(named);
    }
    let reckoned = gather::in_parallel(&sessions, |_, session| trial::reckon(session.clone(), prices));
    let mut all: Vec<Reckoned> = reckoned.into_iter().flatten().collect();
    all.retain(|one| one.ended_ms >= from);
    for arm in all.iter_mut().flat_map(|one| &mut one.arms) {
        arm.bill
            .after
            .truncate(if args.session.is_some() { usize::MAX } else { 0 });
    }
    match all.is_empty() {
        true => Err(nothing(args, &gathered.unread)),
        false => Ok(all),
    }
}

fn one(
    id: &str,
    tried: &[Reckoned],
    files: &[SessionFile],
    config: &Config,
    args: &TryArgs,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let is_named = |one: &&Reckoned| one.session.id.starts_with(id);
    let matching: Vec<&Reckoned> = tried.iter().filter(is_named).collect();
    let [one] = matching[..] else {
        let count = matching.len();
        let message = format!("{count} sessions have an id that begins with {}", visible(id));
        return Err(Exit::NO_INPUT.failure(message).help("baton try --csv lists them"));
    };
    if args.json {
        return Ok(out.json(one)?);
    }
    Ok(out.lines(detail::lines(one, files, config)?)?)
}

fn write_plot(file: &Path, report: &TrialReport) -> Result<(), CommandFailure> {
    std::fs::write(file, plot::svg(report)).map_err(|error| {
        let name = visible(&file.display().to_string());
        Exit::CANNOT_CREATE.failure(format!("{name}: {error}"))
    })
}

fn csv(all: &[Reckoned]) -> String {
    let saved = ARMS[1..].iter().map(|arm| format!("saved {}", arm.name()));
    let saved = saved.collect::<Vec<_>>().join(",");
    let mut text = format!("id,agent,model,started,calls,longest,input,output,plan,paid,none,{saved}\n");
    for one in all {
        let quoted = |value: &str| format!("\"{}\"", value.replace('"', "\"\""));
        let money = |amount: Option<f64>| amount.map_or(String::new(), |amount| format!("{amount:.6}"));
        let saved = (1..ARMS.len()).map(|at| money(one.arms.get(at).map(|arm| arm.saved)));
        let cells = [
            quoted(&one.session.id),
            one.session.agent().to_owned(),
            quoted(&one.model),
            rfc3339_millis(one.started_ms),
            one.calls.to_string(),
            one.longest.to_string(),
            one.tokens.whole_input().to_string(),
            one.tokens.output.to_string(),
            quoted(one.session.subscription.as_ref().map_or("", |used| &used.plan)),
            money(one.paid),
            money(one.arms.first().map(|none| none.bill.cost)),
        ];
        text.push_str(&cells.into_iter().chain(saved).collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

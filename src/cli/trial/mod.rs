//! `baton try`: what handoffs would have done in the sessions that agents keep on this machine. Reads only.
//!
//! `places` finds the files, `files` and `databases` read them, `gather` reads all of them at once. `screen`, `plot` and `detail`
//! present what `baton_core::trial` makes of them.

mod databases;
mod detail;
mod entries;
mod files;
mod gather;
mod places;
mod plot;
mod rules;
mod screen;
mod tried;

use std::path::Path;

use serde::Serialize;

use self::gather::{Gathered, Unread};
use self::places::SessionFile;
use self::tried::Tried;
use super::exit::{CommandFailure, Exit};
use super::load_state;
use super::output::{Out, visible};
use super::trial_args::TryArgs;
use crate::state::clock::now_ms;
use crate::state::config::Config;
use baton_core::bill::{Arm, PriceTable};
use baton_core::text::date::rfc3339_millis;
use baton_core::trial::{self, ARMS, Reckoned, RecordedSession, TrialReport};

/// The output of `--json`; the names are API.
#[derive(Serialize)]
struct TriedJson<'a> {
    report: &'a TrialReport,
    rules: &'a [String],
    unread: &'a [Unread],
    sessions: Vec<&'a Reckoned>,
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
    let reckoned: Vec<Reckoned> = tried.iter().map(|one| one.reckoned.clone()).collect();
    let report = TrialReport::of(&reckoned);
    if let Some(file) = &args.plot {
        write_plot(file, &report)?;
    }
    let best = Arm::named(report.verdict.arm).unwrap_or(Arm::TaskEnds);
    if args.csv {
        return out.document(&csv(&reckoned));
    }
    let rules = rules::dropped(&tried, best, &files, &config)?;
    if args.json {
        out.json(&TriedJson {
            report: &report,
            rules: &rules,
            unread: &gathered.unread,
            sessions: reckoned.iter().collect(),
        })?;
        return Ok(());
    }
    let screen = screen::Screen {
        report: &report,
        sessions: &reckoned,
        rules: &rules,
        gathered: &gathered,
        prices: &prices,
        best,
    };
    out.lines(screen.lines())
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
fn tried(args: &TryArgs, gathered: &mut Gathered, prices: &PriceTable) -> Result<Vec<Tried>, CommandFailure> {
    let from = args.since.map_or(0, |since| {
        let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        now_ms().saturating_sub(since)
    });
    let mut sessions = trial::counted_once(std::mem::take(&mut gathered.sessions));
    let ended = |session: &RecordedSession| session.calls.last().map_or(0, |call| call.at_ms);
    let agent = |session: &RecordedSession| session.agent.map(|agent| agent.name());
    sessions.retain(|session| {
        ended(session) >= from
            && args
                .agent
                .as_deref()
                .is_none_or(|name| agent(session) == Some(name))
    });
    let reckoned = gather::in_parallel(&sessions, |_, session| trial::reckon(session, prices));
    let mut all = Vec::new();
    for (session, reckoned) in sessions.into_iter().zip(reckoned) {
        let Some(mut reckoned) = reckoned else { continue };
        if args.plan && reckoned.plan.is_none() {
            reckoned.plan = Some("a plan".to_owned());
        }
        if args.session.is_none() {
            reckoned.arms.iter_mut().for_each(|arm| arm.bill.after.clear());
        }
        all.push(Tried { session, reckoned });
    }
    match all.is_empty() {
        true => Err(nothing(args, &gathered.unread)),
        false => Ok(all),
    }
}

fn one(
    id: &str,
    tried: &[Tried],
    files: &[SessionFile],
    config: &Config,
    args: &TryArgs,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let mut matching = tried.iter().filter(|one| one.reckoned.id.starts_with(id));
    let (Some(one), None) = (matching.next(), matching.next()) else {
        let count = tried.iter().filter(|one| one.reckoned.id.starts_with(id)).count();
        let message = format!("{count} sessions have an id that begins with {}", visible(id));
        return Err(Exit::NO_INPUT.failure(message).help("baton try --csv lists them"));
    };
    if args.json {
        return out.json(&one.reckoned);
    }
    out.lines(detail::lines(one, files, config)?)
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
            quoted(&one.id),
            one.agent.to_owned(),
            quoted(&one.model),
            rfc3339_millis(one.started_ms),
            one.calls.to_string(),
            one.longest.to_string(),
            one.tokens.whole_input().to_string(),
            one.tokens.output.to_string(),
            quoted(one.plan.as_deref().unwrap_or_default()),
            money(one.paid),
            money(one.arms.first().map(|none| none.bill.cost)),
        ];
        text.push_str(&cells.into_iter().chain(saved).collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

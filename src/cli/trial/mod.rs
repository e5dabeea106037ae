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

use std::path::{Path, PathBuf};

use serde::Serialize;

use self::gather::Gathered;
use self::places::SessionFile;
use super::exit::{CliResult, CommandFailure, Exit};
use super::load_state;
use super::output::{Out, visible};
use super::stored::only;
use super::trial_args::TryArgs;
use crate::state::clock::now_ms;
use crate::state::journal::KeptVerdict;
use baton_core::bill::PriceTable;
use baton_core::text::date::rfc3339_millis;
use baton_core::trial::{self, ARMS, Reckoned, TrialReport};

/// The output of `--json`; the names are API.
#[derive(Serialize)]
struct TriedJson<'a> {
    report: &'a TrialReport,
    rules: &'a [String],
    unread: &'a [String],
    sessions: &'a [Reckoned],
}

pub(super) fn run(args: &TryArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state)?;
    let prices = super::prices(args.prices.as_deref().or(config.bill.prices.as_deref()))?;
    let files = session_files(args)?;
    if files.is_empty() {
        return Err(nothing(args, &[]));
    }
    let mut gathered = gather::all(&files, &config.handoff.preamble_tags);
    let tried = tried(args, &mut gathered, &prices)?;
    if let Some(id) = &args.session {
        let one = named(id, &tried)?;
        return match args.json {
            true => out.json(one),
            false => out.lines(detail::lines(one, &files, &config)?),
        };
    }
    let report = TrialReport::new(&tried);
    if let Some(file) = &args.plot {
        written(file, std::fs::write(file, plot::svg(&report)))?;
    }
    if args.keep {
        let dir = &config.state_dir;
        written(dir, KeptVerdict::new(&report, now_ms()).keep(dir))?;
    }
    if args.csv {
        return out.document(&csv(&tried));
    }
    let rules = rules::dropped(&tried, report.best, &files, &config)?;
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
    };
    out.lines(screen.lines())
}

fn session_files(args: &TryArgs) -> CliResult<Vec<SessionFile>> {
    match &args.from {
        None => Ok(places::files(args.agent.as_deref(), args.since)),
        Some(path) => places::given(path, args.since).map_err(|error| {
            Exit::NO_INPUT.failure(format!("{}: {error}", visible(&path.display().to_string())))
        }),
    }
}

/// No session: where they were looked for, and what to do.
fn nothing(args: &TryArgs, unread: &[String]) -> CommandFailure {
    let own = || places::directories(args.agent.as_deref());
    let looked = args.from.clone().map_or_else(own, |path| vec![path]);
    let mut lines = vec!["no sessions with calls of a model; looked in".to_owned()];
    let shown = |path: &PathBuf| format!("  {}", visible(&path.display().to_string()));
    lines.extend(looked.iter().map(shown));
    lines.extend(screen::unread(unread));
    let help = "name another place: baton try --from PATH; without any, begin with `baton demo` or `baton run AGENT`";
    Exit::NO_INPUT.failure(lines.join("\n")).help(help)
}

/// The sessions that are asked for, each call counted once.
fn tried(args: &TryArgs, gathered: &mut Gathered, prices: &PriceTable) -> CliResult<Vec<Reckoned>> {
    let from = args.since.map_or(0, |since| since.at_ms(now_ms()));
    let mut sessions = trial::counted_once(std::mem::take(&mut gathered.sessions));
    let agent = args.agent.as_deref();
    sessions.retain(|session| agent.is_none_or(|name| session.agent() == name));
    for session in sessions.iter_mut().filter(|_| args.plan) {
        session.subscription.get_or_insert_default();
    }
    let reckoned = gather::in_parallel(&sessions, |_, session| {
        trial::reckon(session.clone(), prices, &ARMS)
    });
    let mut all: Vec<Reckoned> = reckoned.into_iter().flatten().collect();
    all.retain(|one| one.ended_ms >= from);
    match all.is_empty() {
        true => Err(nothing(args, &gathered.unread)),
        false => Ok(all),
    }
}

/// The one session whose id begins like this.
fn named<'t>(id: &str, tried: &'t [Reckoned]) -> CliResult<&'t Reckoned> {
    let matching = tried.iter().filter(|one| one.session.id.starts_with(id));
    only(matching, ["session", "the id"], id, || {
        let message = format!("there is no session {}", visible(id));
        Exit::NO_INPUT.with_help(message, "`baton try --csv` lists them")
    })
}

fn written(file: &Path, done: std::io::Result<()>) -> CliResult {
    done.map_err(|error| {
        let name = visible(&file.display().to_string());
        Exit::CANNOT_CREATE.failure(format!("{name}: {error}"))
    })
}

fn csv(all: &[Reckoned]) -> String {
    let arms: String = ARMS.iter().map(|arm| format!(",{}", arm.name())).collect();
    let mut text = format!("id,agent,model,started,calls,longest,input,output,paid{arms}\n");
    for one in all {
        let [id, model] = [&one.session.id, &one.model].map(|text| text.replace('"', "\"\""));
        let (agent, at) = (one.session.agent(), rfc3339_millis(one.started_ms));
        let (input, output) = (one.tokens.whole_input(), one.tokens.output);
        let paid = one.paid.map_or(String::new(), |paid| format!("{paid:.6}"));
        let costs = one.arms.iter().map(|arm| format!(",{:.6}", arm.bill.cost));
        let (costs, calls, longest) = (costs.collect::<String>(), one.calls, one.longest);
        text +=
            &format!("\"{id}\",{agent},\"{model}\",{at},{calls},{longest},{input},{output},{paid}{costs}\n");
    }
    text
}

//! The `baton handoffs resume` command: starts a new session of any agent with a handoff.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::args::ResumeArgs;
use super::lookup::only_stored;
use crate::cli::exit::CliResult;
use crate::cli::output::{Out, visible};
use crate::cli::run::AgentStart;
use crate::cli::shells::ShellSyntax;
use crate::cli::{STORE_SECRETS, agents, block_on, load_state, run, stored};
use baton_core::handoffs::yaml::Drift;
use baton_core::marker::sentinel;
use baton_core::record::{Handoff, HandoffStatus};
use baton_state::files::documents;
use baton_state::store::SharedStore;

/// Time limit for all git queries together.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) fn run(args: &ResumeArgs, out: &mut Out) -> CliResult {
    let agent = agents::find_or_generic(&args.with);
    // Any program may be an agent, but one to start has to exist before the handoff is made active for it.
    let is_checked = args.run || !(args.json || agent.is_known());
    if is_checked {
        run::must_exist(OsStr::new(&args.with))?;
    }
    let (handoff, drift) = wanted(args)?;
    let mut prompt = sentinel::opening(handoff.id);
    let more = args.prompt.as_deref().map(str::trim);
    if let Some(more) = more.filter(|more| !more.is_empty()) {
        prompt = format!("{prompt}\n{more}");
    }
    let first = agent.first_prompt(&prompt, args.headless);
    if !args.json {
        warn(&handoff, drift.as_ref(), agent.is_known(), args)?;
    }
    if args.run {
        let start = AgentStart {
            named: OsStr::new(&args.with),
            first: &first,
            own: &args.arguments,
            budget: None,
            topic: None,
            shadow: false,
            at_exit: super::at_exit::at_exit,
        };
        return run::agent(&start, &args.state);
    }
    let mut command = vec!["baton".to_owned(), "run".to_owned()];
    command.extend(args.state.words());
    command.extend(["--".to_owned(), args.with.clone()]);
    command.extend(first);
    command.extend(
        args.arguments
            .iter()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    if args.json {
        // These member names are public API. The drift is null if there is no document.
        return out.json(&json!({
            "id": handoff.id,
            "agent": if agent.is_known() { &agent.name } else { &args.with },
            "known": agent.is_known(),
            "archived": handoff.archived,
            "drifted": drift.as_ref().is_some_and(Drift::is_drift),
            "drift": drift.as_ref().map(Drift::line),
            "prompt": prompt,
            "command": command,
        }));
    }
    let shell = ShellSyntax::of_user();
    let words: Vec<_> = command.iter().map(|word| shell.quoted(word)).collect();
    out.line(words.join(" "))
}

/// Reads the handoff, and compares it with the repository. Only `--run` changes its status.
fn wanted(args: &ResumeArgs) -> CliResult<(Handoff, Option<Drift>)> {
    let config = load_state(&args.state, STORE_SECRETS)?;
    let store = stored::open(&config)?;
    block_on(async {
        let handoff = stored::wanted(&store, &args.id).await;
        let handoff = handoff.map_err(|failure| only_stored(&config, &args.id, failure))?;
        if args.run {
            activate(&store, &handoff).await?;
        }
        let dir = config.repository().map(Path::to_owned);
        let compared =
            documents::compare_with_repository(&store, &handoff.principal, handoff.id, dir, LIMIT).await;
        let compared = compared?;
        Ok((handoff, compared))
    })
}

/// Makes the handoff the active one of its work, and reports that on standard error.
async fn activate(store: &SharedStore, handoff: &Handoff) -> CliResult {
    let active = HandoffStatus::Active;
    let done = documents::set_status(store, &handoff.principal, handoff.id, active).await?;
    if let Some(done) = done.filter(|done| done.before != active) {
        let mut out = Out::stderr();
        out.line(format_args!(
            "baton: the handoff was {}; it is active again",
            done.before.name()
        ))?;
        for id in done.superseded {
            out.line(format_args!("baton: superseded: {id}"))?;
        }
    }
    Ok(())
}

/// Warns on standard error about facts that the user may not expect.
fn warn(handoff: &Handoff, drift: Option<&Drift>, known: bool, args: &ResumeArgs) -> CliResult {
    let mut out = Out::stderr();
    if let Some(drift) = drift.filter(|drift| drift.compared) {
        out.line(format_args!("baton: {}", visible(&drift.line())))?;
    }
    if handoff.archived {
        out.line("baton: this handoff is archived; it can still be resumed")?;
    }
    if !known && !args.run {
        let named = visible(&args.with);
        out.line(format_args!(
            "baton: {named} is not a known agent; the prompt is passed as an argument"
        ))?;
    }
    Ok(())
}

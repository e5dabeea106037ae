//! `baton resume`: starts a new session with a handoff, in any agent.

use std::ffi::OsStr;

use serde::Serialize;

use super::agent_args::ResumeArgs;
use super::exit::{Exit, Failure};
use super::output::Out;
use super::shells::Shell;
use super::{agents, env, load_state, packets, run, stored};
use crate::record::Handoff;

/// The output of `--json`. The names are API.
#[derive(Serialize)]
struct Record<'a> {
    id: String,
    agent: &'a str,
    known: bool,
    archived: bool,
    prompt: &'a str,
    command: &'a [String],
}

pub(super) fn run(args: &ResumeArgs, out: &mut Out) -> Result<(), Failure> {
    let handoff = wanted(args)?;
    let agent = agents::find_or_generic(&args.with);
    let mut prompt = stored::resume_line(&handoff);
    if let Some(more) = args
        .prompt
        .as_deref()
        .map(str::trim)
        .filter(|more| !more.is_empty())
    {
        prompt = format!("{prompt}\n{more}");
    }
    let first = agent.first_prompt(&prompt, args.headless);
    if !args.json {
        tell(&handoff, agent.is_known(), args)?;
    }
    if args.run {
        return run::agent(OsStr::new(&args.with), &first, &args.arguments, &args.state);
    }
    let mut command = vec!["baton".to_owned(), "run".to_owned()];
    command.extend(env::options(&args.state));
    command.extend(["--".to_owned(), args.with.clone()]);
    command.extend(first);
    command.extend(
        args.arguments
            .iter()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    if args.json {
        out.json(&Record {
            id: handoff.id.to_string(),
            agent: if agent.is_known() { agent.name } else { &args.with },
            known: agent.is_known(),
            archived: handoff.archived,
            prompt: &prompt,
            command: &command,
        })?;
        return Ok(());
    }
    let shell = Shell::of(std::env::var("SHELL").ok().as_deref());
    let words: Vec<_> = command.iter().map(|word| shell.quoted(word)).collect();
    out.line(format_args!("{}", words.join(" ")))?;
    Ok(())
}

fn wanted(args: &ResumeArgs) -> Result<Handoff, Failure> {
    let store = stored::open(&load_state(&args.state)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::SOFTWARE, error.to_string()))?;
    runtime.block_on(async {
        let handoff = stored::wanted(&store, &args.id).await?;
        packets::resume(&store, &handoff).await?;
        Ok(handoff)
    })
}

/// Writes to standard error what the person may not expect.
fn tell(handoff: &Handoff, known: bool, args: &ResumeArgs) -> Result<(), Failure> {
    let mut out = Out::stderr();
    if handoff.archived {
        out.line(format_args!(
            "baton: this handoff is archived; it can be resumed all the same"
        ))?;
    }
    if !known && !args.run {
        let named = super::output::visible(&args.with);
        out.line(format_args!(
            "baton: {named} is not a known agent; the prompt is passed as an argument"
        ))?;
    }
    Ok(())
}

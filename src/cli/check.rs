//! `baton check`: reports all problems of a config.

use serde::Serialize;

use super::args::CheckArgs;
use super::exit::{Exit, Failure};
use super::output::{Out, visible};
use super::{config_file, load};
use crate::config::{Config, Flags, Origin, Problem, ProblemKind, StoreKind};
use crate::store::{self, StoreError};

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    file: Option<String>,
    problems: &'a [Problem],
}

pub(super) fn run(args: &CheckArgs, out: &mut Out) -> Result<(), Failure> {
    let file = config_file(args.config.as_ref()).map(|path| path.display().to_string());
    let problems = match load(args.config.as_ref(), &Flags::default()) {
        Ok(config) => of_server(&config).into_iter().collect(),
        Err(problems) => problems,
    };
    if args.json {
        let ok = problems.is_empty();
        out.json(&Report {
            ok,
            file,
            problems: &problems,
        })?;
    } else {
        print(out, file.as_deref(), &problems)?;
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::silent(Exit::CONFIG)),
    }
}

/// What is wrong with the store's server, where the store has one.
fn of_server(config: &Config) -> Option<Problem> {
    if config.store.kind != StoreKind::Redis {
        return None;
    }
    let problem = |key: &str, message: String, help: &str| Problem {
        kind: ProblemKind::Conflict,
        origin: Origin::File("the store's server".to_owned()),
        key: key.to_owned(),
        message,
        help: Some(help.to_owned()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = store::open(&config.store, &config.state_dir).and_then(|store| {
        let runtime = runtime.map_err(|error| StoreError {
            message: error.to_string(),
        })?;
        runtime.block_on(store.unfit())
    });
    match asked {
        Ok(None) => None,
        Ok(Some(why)) => Some(problem(
            "store.durability",
            why,
            "mend the server's settings, or the key",
        )),
        Err(error) => Some(problem(
            "store.url",
            error.message,
            "start the server, or mend the URL",
        )),
    }
}

fn print(out: &mut Out, file: Option<&str>, problems: &[Problem]) -> Result<(), Failure> {
    let file = file.map_or_else(|| "the defaults, with the environment".to_owned(), visible);
    for problem in problems {
        out.line(format_args!("{}", visible(&problem.to_string())))?;
    }
    match problems.len() {
        0 => out.line(format_args!("{file}: no problems"))?,
        1 => out.line(format_args!("\n1 problem"))?,
        n => out.line(format_args!("\n{n} problems"))?,
    }
    Ok(())
}

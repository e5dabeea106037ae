//! `baton check`: reports all problems of a config.

use serde::Serialize;

use super::args::CheckArgs;
use super::exit::{Exit, Failure};
use super::output::{Out, visible};
use super::{config_file, load};
use crate::config::{Flags, Problem};

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    file: Option<String>,
    problems: &'a [Problem],
}

pub(super) fn run(args: &CheckArgs, out: &mut Out) -> Result<(), Failure> {
    let file = config_file(args.config.as_ref()).map(|path| path.display().to_string());
    let problems = load(args.config.as_ref(), &Flags::default())
        .err()
        .unwrap_or_default();
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

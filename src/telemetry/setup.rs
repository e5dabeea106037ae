//! Log setup.

use std::io::stderr;

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::EnvFilter;

use super::text_fields::PlainFields;
use crate::config::Log;

/// Installs the global log to standard error as configured; coloured only on a terminal.
///
/// # Errors
/// The filter is invalid (a checked config's is not), or this process already has a log.
pub fn start(log: &Log) -> Result<(), String> {
    let filter = EnvFilter::try_new(&log.level).map_err(|error| error.to_string())?;
    let colour = AutoStream::choice(&stderr()) != ColorChoice::Never;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(colour && !log.json);
    let started = match log.json {
        true => lines.json().flatten_event(true).try_init(),
        false if colour => lines.try_init(),
        false => lines.fmt_fields(PlainFields).try_init(),
    };
    started.map_err(|error| error.to_string())
}

//! Log setup.

use std::fmt;
use std::io::{self, Write, stderr};
use std::time::{SystemTime, UNIX_EPOCH};

use anstream::{AutoStream, ColorChoice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::config::Log;
use baton_core::text::{date, visible};

/// Formats the same time stamp as the library, at a fraction of the cost.
struct LogTime;

impl FormatTime for LogTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        writer.write_str(&date::rfc3339_micros(since))
    }
}

/// Standard error, with everything escaped that a terminal would interpret: values may come from models and
/// agents.
struct LogWriter {
    json: bool,
    /// Whether lines contain baton's styles. Otherwise every escape sequence is untrusted.
    colour: bool,
}

impl LogWriter {
    /// Escapes an event, which is one line: a line break in a value must not begin another one.
    fn shown(&self, line: &[u8]) -> String {
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let shown = match (self.json, self.colour) {
            (true, _) => visible::json(text),
            (false, true) => visible::styled(text),
            (false, false) => visible::visible(text),
        };
        format!("{}\n", shown.replace('\n', "\\n"))
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shown = self.shown(line);
        // A line that cannot be written is lost. Returning the error would make the library report it on
        // standard error, which panics as well.
        let _ = stderr().write_all(shown.as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = stderr().flush();
        Ok(())
    }
}

/// Installs the global log to standard error as configured. Colored only on a terminal.
///
/// # Errors
/// Returns an error if the level is invalid, which a checked config excludes, or if this process already has
/// a log.
pub fn start(log: &Log) -> Result<(), String> {
    let level = log.level.parse::<LevelFilter>();
    let level = level.map_err(|_| format!("{:?} is not a log level", log.level))?;
    let colour = AutoStream::choice(&stderr()) != ColorChoice::Never;
    let json = log.json;
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_timer(LogTime)
        .with_writer(move || LogWriter { json, colour })
        // Only colored lines need the library's pass over each value. `LogWriter` escapes any other line as a
        // whole.
        .with_ansi_sanitization(colour)
        .with_ansi(colour && !log.json);
    let started = match log.json {
        true => lines.json().flatten_event(true).try_init(),
        false => lines.try_init(),
    };
    started.map_err(|error| error.to_string())
}

/// Whether a line can be written without waiting. On a terminal that the user has stopped it cannot.
pub fn may_write() -> bool {
    let error = stderr();
    let mut asked = [PollFd::new(&error, PollFlags::OUT)];
    poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_its_values_hold() {
        let line = b"2026-11-29  INFO baton: version 1\x1b[31m\r\n2026-11-29  INFO baton: forged\n";
        for colour in [false, true] {
            let shown = LogWriter { json: false, colour }.shown(line);
            assert!(shown.ends_with("\\n2026-11-29  INFO baton: forged\n"), "{shown}");
            assert_eq!(shown.matches('\n').count(), 1, "{shown}");
        }
    }
}

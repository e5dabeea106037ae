//! Tells a person whose agent has no screen that a draft is being written: the agent prints its answer at its end.

use std::io::{self, BufRead, BufReader};
use std::thread;

use super::output::Out;
use super::readiness;
use super::running::Process;
use crate::state::config::Secret;

/// Writes a line to standard error whenever a model begins a draft for this run, until the process ends.
pub(super) fn tell(proxy: &Process, token: Option<&Secret>, run: &str) {
    let address = proxy.admin.trim_start_matches("http://");
    let token = token.map(|token| format!("authorization: Bearer {}\r\n", token.reveal()));
    let events = readiness::requested(address, "/api/events", &token.unwrap_or_default());
    // An older proxy that runs already may not report drafts, and the agent runs in any case.
    let Ok(events) = events else { return };
    let event = format!("data: {{\"run\":\"{run}\"}}");
    thread::spawn(move || -> io::Result<()> {
        for line in BufReader::new(events).lines() {
            if line? == event {
                Out::stderr().line("baton: a handoff is being written.")?;
            }
        }
        Ok(())
    });
}

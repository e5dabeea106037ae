//! Finds the recorded sessions that ran through baton, by the conversations in the journal.

use crate::cli::exit::CliResult;
use baton_core::record::{LOCAL, WireId};
use baton_core::trial::RecordedSession;
use baton_state::config::Config;
use baton_state::journal::JournalReader;
use baton_state::session::conversation_key;

/// Wires, and headers that name an agent's session.
const NAMED: [(WireId, &[&str]); 4] = [
    (WireId::Anthropic, &["x-claude-code-session-id"]),
    (WireId::OpenaiResponses, &["session-id", "thread-id"]),
    (WireId::OpenaiResponses, &["x-session-id"]),
    (WireId::OpenaiResponses, &["session_id"]),
];

/// Marks sessions that ran through baton, because their conversations are in the journal.
///
/// The reader has already marked those whose records contain handoffs. A subagent is marked like its session.
pub(super) fn mark(sessions: &mut [RecordedSession], config: &Config) -> CliResult {
    let Some(journal) = JournalReader::open(&config.state_dir)? else {
        return Ok(());
    };
    for session in sessions.iter_mut().filter(|session| !session.behind_baton) {
        let id = session.root().to_owned();
        for (wire, headers) in NAMED {
            // Agents send the id of their record in such a header, and the journal's key is made of it.
            let header = |name: &str| headers.contains(&name).then(|| id.clone());
            let key = conversation_key(LOCAL, wire, header, None, &String::new).key;
            session.behind_baton |= !journal.conversations(Some(&key), 1)?.is_empty();
        }
    }
    Ok(())
}

//! An entry of a session's ledger.

use super::model::HandoffFile;
use super::text::{listed, one_line, shortened};
use super::time::Time;

/// Bytes of a value, and items of a list.
const VALUE_BYTES: usize = 200;
const ITEMS: usize = 5;

/// The ledger's entry for a file written at `now` under this name.
pub fn entry(file: &HandoffFile, name: &str, automatic: bool, now: Time) -> String {
    let mode = if automatic { "auto" } else { "manual" };
    let mut text = format!("## {} ({mode})\n- file: {name}\n", now.rfc3339());
    let values = [
        ("status", file.status.clone()),
        ("outcome", file.outcome.clone()),
        ("goal", shortened(&one_line(&file.goal), VALUE_BYTES)),
        ("now", shortened(&one_line(&file.now), VALUE_BYTES)),
        ("test", shortened(&one_line(&file.test), VALUE_BYTES)),
        ("blockers", listed(&file.blockers, ITEMS, VALUE_BYTES)),
        ("next", listed(&file.next, ITEMS, VALUE_BYTES)),
    ];
    for (name, value) in values.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    text.push('\n');
    text
}

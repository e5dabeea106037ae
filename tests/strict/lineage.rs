//! Which tools each transcript was offered with: a request that continues an earlier one must have the same list.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::complaint::{Findings, Rule};
use super::dialect::Received;
use super::transcript::{Role, Turn};

type LineageHash = [u8; 32];

/// The transcripts seen so far, by hash, each with its tools.
#[derive(Default)]
pub(crate) struct TranscriptLineage(Mutex<LineageState>);

#[derive(Default)]
struct LineageState {
    known: HashMap<LineageHash, Arc<[String]>>,
    /// Every list of tools once: most transcripts have one of a few.
    lists: HashSet<Arc<[String]>>,
}

impl TranscriptLineage {
    /// Compares a request's tools with those of the longest earlier request whose transcript it begins with.
    pub(crate) fn check(&self, request: &Received, findings: &mut Findings<'_>) {
        let turns: Vec<Turn> = request.turns();
        let spoken: Vec<&Turn> = turns.iter().filter(|turn| turn.role != Role::System).collect();
        let tools: Arc<[String]> = request.tools().iter().map(|tool| format!("{tool:?}")).collect();
        let mut hasher = Sha256::new();
        let mut before = None;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, turn) in spoken.iter().enumerate() {
            // The earlier request ended where the model spoke.
            if at > 0 && turn.role == Role::Assistant {
                let so_far: LineageHash = hasher.clone().finalize().into();
                before = state.known.get(&so_far).or(before);
            }
            hasher.update(format!("{turn:?}"));
        }
        if let Some(before) = before.filter(|before| **before != tools && !are_loaded(before, &tools, &turns))
        {
            let message = difference(before, &tools);
            findings.add(Rule::ToolsChanged, message);
        }
        let tools = match state.lists.get(&tools) {
            Some(known) => Arc::clone(known),
            None => tools,
        };
        state.lists.insert(Arc::clone(&tools));
        state.known.insert(hasher.finalize().into(), tools);
    }
}

/// Tool by which Claude Code's model has deferred tools offered.
const LOADER: &str = "ToolSearch";

/// Whether a list of tools only has more tools than the one before, each of which the model has searched for.
fn are_loaded(before: &[String], tools: &[String], turns: &[Turn]) -> bool {
    let mut old = before.iter().peekable();
    let added: Vec<&String> = tools
        .iter()
        .filter(|tool| old.next_if_eq(tool).is_none())
        .collect();
    let calls = turns.iter().flat_map(|turn| &turn.calls);
    let searches: Vec<String> = calls
        .filter(|call| call.name == LOADER)
        .map(|call| call.arguments.to_string())
        .collect();
    let is_searched = |tool: &&String| searches.iter().any(|search| search.contains(name(tool)));
    old.peek().is_none() && added.iter().all(is_searched)
}

/// What is not the same in two lists of tools: their names, or the definitions of some.
fn difference(before: &[String], tools: &[String]) -> String {
    let names = |tools: &[String]| tools.iter().map(|tool| name(tool)).collect::<Vec<_>>().join(", ");
    let (was, now) = (names(before), names(tools));
    if was == now {
        let pairs = before.iter().zip(tools);
        let changed: Vec<String> = pairs
            .filter(|(was, now)| was != now)
            .map(|(_, now)| now.clone())
            .collect();
        return format!(
            "tools: another definition of [{}] than in the request that this one goes on from",
            names(&changed)
        );
    }
    format!("tools: [{now}], and [{was}] in the request that this one goes on from")
}

/// A tool's name, of its definition as text.
fn name(tool: &str) -> &str {
    tool.split('"').nth(1).unwrap_or(tool)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::transcript::ToolCall;

    #[test]
    fn a_tool_that_the_model_has_searched_for_may_be_added() {
        let tools = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("{name:?} of a schema")).collect()
        };
        let (before, now) = (tools(&["Bash", "Read"]), tools(&["Bash", "TaskCreate", "Read"]));
        let searched = |query: &str| {
            let call = ToolCall {
                id: "t".to_owned(),
                name: LOADER.to_owned(),
                arguments: json!({"query": query}),
            };
            Turn {
                role: Role::Assistant,
                texts: Vec::new(),
                calls: vec![call],
                results: Vec::new(),
            }
        };
        assert!(are_loaded(&before, &now, &[searched("select:TaskCreate")]));
        assert!(!are_loaded(&before, &now, &[searched("select:TaskUpdate")]));
        assert!(!are_loaded(&before, &now, &[]));
        assert!(
            !are_loaded(&now, &before, &[searched("select:TaskCreate")]),
            "one is gone"
        );
        let moved = tools(&["Read", "TaskCreate", "Bash"]);
        assert!(
            !are_loaded(&before, &moved, &[searched("select:TaskCreate")]),
            "another order"
        );
    }
}

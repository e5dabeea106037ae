//! The tools that were loaded by a search for tools (Anthropic's API: `tool_reference` in a result).

use std::collections::HashSet;

use memchr::memmem;

use super::part::TranscriptPartKind;
use super::{JsonText, Transcript};
use crate::text::json;

/// The most that are named: the newest ones.
const MOST: usize = 20;

impl Transcript<'_> {
    /// The names of tools that results refer to and that the request still has, the newest last.
    pub fn loaded_tools(&self) -> Vec<String> {
        let kind = memmem::Finder::new(b"\"tool_reference\"");
        let mut found = Vec::new();
        for turn in self.turns().rev().filter(|turn| kind.find(turn.raw()).is_some()) {
            let parts = turn.parts().into_iter().rev();
            for part in parts.filter(|part| matches!(part.kind, TranscriptPartKind::Result(_))) {
                let references = part.said[0].map_or(Vec::new(), |list| json::elements(turn.body, list));
                found.extend(references.into_iter().rev().filter_map(|block| {
                    let [of, name] = json::pick(turn.body, block, ["type", "tool_name"]);
                    let is_reference = JsonText::literal(turn.body, of?)? == *"tool_reference";
                    let name = JsonText::literal(turn.body, name?)?;
                    is_reference.then(|| name.get().into_owned())
                }));
            }
        }
        if found.is_empty() {
            return found;
        }
        let offered: HashSet<String> = self
            .tool_names()
            .iter()
            .map(|name| name.get().into_owned())
            .collect();
        let mut seen = HashSet::new();
        found.retain(|name| offered.contains(name) && seen.insert(name.clone()));
        found.truncate(MOST);
        found.reverse();
        found
    }
}

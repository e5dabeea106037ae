//! Tools of agents by which a model starts its own context again: of the same purpose as ours.

/// Tools by which a model starts its own context again, after which the agent omits earlier messages. They are those of
/// Codex with its token budget (openai/codex#43709), of pi plugins that follow it, of another pi plugin, and of Deep
/// Agents.
///
/// Not here: `new_task` of Cline, since Roo Code and Kilo Code delegate a part of the work by that name. Nor `handoff`,
/// which passes the conversation on to another agent in most frameworks.
const RESETS: [&str; 3] = [
    "new_context",
    "context_management_start_new_context",
    "compact_conversation",
];

/// Whether a model starts its context again by a tool of this name.
pub fn resets_context(name: &str) -> bool {
    RESETS.contains(&name)
}

/// The names of such tools.
pub fn context_resets() -> impl Iterator<Item = &'static str> {
    RESETS.into_iter()
}

//! Tools of agents with which a model starts a new context: the same purpose as ours.

/// Tools with which a model starts a new context, after which the agent omits earlier messages. They are those of Codex
/// with its token budget (openai/codex#43709), of pi plugins that follow it, of another pi plugin, and of Deep Agents.
///
/// Not here: `new_task` of Cline, since in Roo Code and Kilo Code a tool of that name delegates a part of the work. Nor
/// `handoff`, which passes the conversation on to another agent in most frameworks.
const RESETS: [&str; 3] = [
    "new_context",
    "context_management_start_new_context",
    "compact_conversation",
];

/// Whether a model starts a new context with a tool of this name.
pub fn resets_context(name: &str) -> bool {
    RESETS.contains(&name)
}

/// The names of such tools.
pub fn context_resets() -> impl Iterator<Item = &'static str> {
    RESETS.into_iter()
}

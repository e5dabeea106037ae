//! The words of the format.

/// The version of the format.
pub const VERSION: &str = "1.0";

/// The session of files that name none.
pub const GENERAL: &str = "general";

/// Values of `status`.
pub(super) const STATUS: [&str; 3] = ["complete", "partial", "blocked"];

/// Values of `outcome`.
pub(super) const OUTCOME: [&str; 4] = ["SUCCEEDED", "PARTIAL_PLUS", "PARTIAL_MINUS", "FAILED"];

/// Values of `agent_type`: Claude Code, Codex, Gemini CLI.
pub(super) const AGENT_TYPE: [&str; 3] = ["cc", "cod", "gmi"];

/// How Go writes a time that was never set.
pub(super) const NO_TIME: &str = "0001-01-01T00:00:00Z";

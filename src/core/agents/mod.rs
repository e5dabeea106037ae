//! Tables of facts about known agents.
//!
//! The tables cover the effects of tools, the wording of summaries and other user-role messages, and the
//! commands that test, build or change something. A new agent is a new row; long tables are in the `.toml`
//! files next to the code.
//!
//! This module depends only on names and text, not on wires, transcripts or policies. Anything that a table
//! lacks is unknown and never guessed, because users and models take the output of these tables as fact.

pub mod background;
mod command_table;
pub mod commands;
pub mod ending;
pub mod files;
pub mod goals;
pub mod outcomes;
pub mod reminders;
pub mod secret_files;
pub mod speakers;
pub mod surroundings;
mod targets;
pub mod todo;
pub mod tools;
pub mod user_shell;
pub mod wordings;

pub use self::tools::may_run_commands;

//! What is known of agents as tables: what their tools do, how they word summaries and what else is in a user's
//! place, which commands test, build or change something. Extended by a row, in the `.toml` files next to the code where a
//! table is long.
//!
//! Knows names and texts alone: no wire, no transcript, no policy. What a table does not have is unknown, and never
//! guessed: people and models take what is made from these tables for fact.

mod command_table;
pub mod commands;
pub mod ending;
pub mod files;
pub mod goals;
pub mod loaded_tools;
pub mod outcomes;
pub mod reminders;
pub mod secret_files;
mod shell_words;
pub mod speakers;
pub mod surroundings;
mod targets;
pub mod todo;
pub mod tools;
pub mod user_shell;
pub mod wordings;

pub use self::tools::may_run_commands;

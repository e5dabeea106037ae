//! Handoffs on disk: the documents of each handoff, YAML files, saved prompts, and the Git state of their
//! directory.

pub mod documents;
pub mod repository;
pub mod runs;
pub mod saved_prompts;
pub mod yaml_files;

//! Handoffs on disk: the documents of each handoff, YAML files, prompts, and the Git state of the directory they belong to.

pub mod documents;
pub mod repository;
pub mod runs;
pub mod saved_prompts;
pub mod yaml_files;

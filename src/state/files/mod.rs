//! Handoffs on disk: the documents of each handoff, YAML files, and the Git state of the folder they belong to.

pub mod documents;
pub(crate) mod repository;
pub mod yaml_files;

//! Handoffs on disk: documents beside each handoff, YAML files, and the Git state of the folder they belong to.

pub mod documents;
pub(crate) mod repository;
pub mod yaml_files;

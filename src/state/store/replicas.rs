//! The register of the processes that serve over one store: by it the inspector of each finds the others.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a silent process stays in the register. Until then it is listed as offline.
pub const KEPT: Duration = Duration::from_secs(60 * 60);

/// A process that serves over the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// The replica's name; two with the same name are one.
    pub name: String,
    /// URL of its admin listener; no trailing slash.
    pub url: String,
    pub version: String,
}

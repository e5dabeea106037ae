//! Programs whose output ends with known lines: `runners.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::agents::commands::CommandPurpose;
use crate::text::table;

/// A program with its closing lines: regular expressions over lines without colours, with single spaces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Runner {
    #[allow(dead_code, reason = "names the row; the tests hold one sample to each")]
    pub(super) name: &'static str,
    /// What it does where it passes.
    pub(super) purpose: CommandPurpose,
    /// The program closes each part of its work, so a failure counts even if later parts pass.
    #[serde(default)]
    pub(super) by_parts: bool,
    /// A line without which those of `passed` mean nothing.
    pub(super) opens: Option<&'static str>,
    /// Lines of a run that went well.
    #[serde(default)]
    pub(super) passed: Vec<&'static str>,
    /// Lines of a run that did not.
    #[serde(default)]
    pub(super) failed: Vec<&'static str>,
}

pub(super) static RUNNERS: LazyLock<Vec<Runner>> =
    LazyLock::new(|| table::rows(include_str!("runners.toml")));

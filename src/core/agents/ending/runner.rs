//! A program that closes its work with lines that are known.

use crate::agents::commands::CommandPurpose;

/// A program with its closing lines: regular expressions over lines without colours, with single spaces.
#[derive(Debug)]
pub(super) struct Runner {
    #[allow(dead_code, reason = "names the row; the tests hold one sample to each")]
    pub(super) name: &'static str,
    /// What it does where it passes.
    pub(super) purpose: CommandPurpose,
    /// It closes each part of its work, so that a failure counts whatever passes after it.
    pub(super) by_parts: bool,
    /// A line without which those of `passed` mean nothing.
    pub(super) opens: Option<&'static str>,
    /// Lines of a run that went well.
    pub(super) passed: &'static [&'static str],
    /// Lines of a run that did not.
    pub(super) failed: &'static [&'static str],
}

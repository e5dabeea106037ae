//! Reminders of the session's state that agents send to their model throughout a transcript:
//! `reminders.toml`.
//!
//! Agents state a fact once and expect the model to remember it until they state it anew or end it. This
//! module does not decide who wrote a reminder.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::table;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReminderRow {
    kind: &'static str,
    states: Vec<&'static str>,
    #[serde(default)]
    adds: Vec<&'static str>,
    #[serde(default)]
    ends: Vec<&'static str>,
    #[serde(default)]
    by_line: bool,
    #[serde(default)]
    plain: bool,
}

static ROWS: LazyLock<Vec<ReminderRow>> = LazyLock::new(|| table::rows(include_str!("reminders.toml")));

const WRAPPER: &str = "<system-reminder>";

/// Kind that an accepted plan ends.
const PLAN_MODE: &str = "plan mode";

/// Subject of a reminder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StateKind {
    name: &'static str,
    /// The first line, if each first line names another subject; otherwise empty.
    line: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StateEffect {
    /// Replaces all earlier statements of the kind.
    States,
    /// Adds to the earlier statements.
    Adds,
    /// Ends all earlier statements of the kind.
    Ends,
}

/// A message in which an agent states something about its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateReminder {
    effect: StateEffect,
    kind: StateKind,
    /// Whether the message quotes no file.
    pub is_plain: bool,
}

impl StateReminder {
    /// Recognizes a reminder by its first line.
    pub fn of_reminder(text: &str) -> Option<Self> {
        let text = text.trim_start();
        let inside = text.strip_prefix(WRAPPER).map_or(text, str::trim_start);
        let (row, effect) = row_of(inside)?;
        Some(Self {
            effect,
            kind: row.kind_of(inside),
            is_plain: row.plain,
        })
    }

    /// Splits a system message into its reminders, each with its range, if it begins with one. A reminder
    /// begins with a paragraph and reaches to the next one.
    pub fn in_system_text(text: &str) -> Vec<(Range<usize>, Self)> {
        let mut found: Vec<(Range<usize>, Self)> = Vec::new();
        let mut at = 0;
        for paragraph in text.split_inclusive("\n\n") {
            let from = at;
            at += paragraph.len();
            match (Self::of_reminder(paragraph), found.last_mut()) {
                (Some(reminder), _) => found.push((from..at, reminder)),
                (None, Some((range, _))) => range.end = at,
                // Text before the first reminder means that the message is not one of reminders.
                (None, None) => return Vec::new(),
            }
        }
        found
    }

    /// The end of plan mode, because the user has accepted a plan.
    pub fn plan_accepted() -> Self {
        Self {
            effect: StateEffect::Ends,
            kind: StateKind {
                name: PLAN_MODE,
                line: String::new(),
            },
            is_plain: true,
        }
    }
}

impl ReminderRow {
    fn kind_of(&self, text: &str) -> StateKind {
        let line = text.lines().next().filter(|_| self.by_line).unwrap_or_default();
        StateKind {
            name: self.kind,
            line: line.to_owned(),
        }
    }
}

fn row_of(text: &str) -> Option<(&'static ReminderRow, StateEffect)> {
    let begins = |all: &[&str]| all.iter().any(|begins| text.starts_with(begins));
    ROWS.iter().find_map(|row| {
        let effects = [
            (&row.states, StateEffect::States),
            (&row.adds, StateEffect::Adds),
            (&row.ends, StateEffect::Ends),
        ];
        let found = effects.into_iter().find(|(all, _)| begins(all))?;
        Some((row, found.1))
    })
}

/// Decides for each reminder of a transcript, in order, whether it still holds.
pub fn holding(all: &[StateReminder]) -> Vec<bool> {
    let mut replaced: HashSet<&StateKind> = HashSet::new();
    let mut holds = vec![false; all.len()];
    // Backwards: the newest statement or end of a kind replaces all earlier ones.
    for (reminder, holds) in all.iter().zip(&mut holds).rev() {
        *holds = reminder.effect != StateEffect::Ends && !replaced.contains(&reminder.kind);
        if reminder.effect != StateEffect::Adds {
            replaced.insert(&reminder.kind);
        }
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns those reminders of these texts that hold.
    fn held<'t>(texts: &[&'t str]) -> Vec<&'t str> {
        let read = |text: &&'t str| match text.starts_with('<') {
            true => vec![(*text, StateReminder::of_reminder(text).unwrap())],
            false => StateReminder::in_system_text(text)
                .into_iter()
                .map(|(range, reminder)| (text[range].trim_end(), reminder))
                .collect(),
        };
        let (texts, all): (Vec<_>, Vec<_>) = texts.iter().flat_map(read).unzip();
        let holds = holding(&all).into_iter().zip(texts);
        holds.filter_map(|(holds, text)| holds.then_some(text)).collect()
    }

    #[test]
    fn the_newest_state_of_each_kind_holds_with_its_changes() {
        let environment = "<system-reminder>\n# Environment\n - a\n</system-reminder>";
        let moved = "<system-reminder>\n# Environment update\n - b\n</system-reminder>";
        let [date, next] = [
            "Today's date is 1.",
            "The date has changed. Today's date is now 2.",
        ];
        let [sub, other] = ["Contents of /a/CLAUDE.md:\n\nx", "Contents of /b/CLAUDE.md:\n\nx"];
        let again = "Contents of /a/CLAUDE.md:\n\ny";
        assert_eq!(
            held(&[environment, date, sub, moved, other, next, again]),
            [environment, moved, other, next, again]
        );
        assert_eq!(held(&[environment, moved, environment]), [environment]);
        // An update has only what has changed.
        let shell = "<system-reminder>\n# Environment update\n - c\n</system-reminder>";
        assert_eq!(
            held(&[moved, environment, moved, shell]),
            [environment, moved, shell]
        );
    }

    #[test]
    fn an_ended_state_is_gone() {
        let plan = "Plan mode is active. The user indicated";
        let entered = "Entered plan mode. You should now focus on exploring.\n\nRemember: DO NOT edit.";
        let exited = "## Exited Plan Mode\n\nYou have exited plan mode.";
        assert_eq!(held(&[plan, exited]), [""; 0]);
        assert_eq!(held(&[plan, exited, plan]), [plan]);
        assert_eq!(held(&[plan, exited, entered]), [entered]);
        assert_eq!(held(&[entered, exited]), [""; 0]);
        let all = [
            StateReminder::of_reminder(plan).unwrap(),
            StateReminder::plan_accepted(),
        ];
        assert_eq!(holding(&all), [false, false]);
    }

    #[test]
    fn the_parts_of_a_system_message_are_reminders_of_their_own() {
        let environment = "# Environment\nYou are here:\n - Primary working directory: /w";
        let [old, new] = ["Old 4", "New 5"].map(|name| format!("You are powered by the model named {name}."));
        let types =
            "Available agent types for the Agent tool:\n- Plan\n\nWhen you launch several, do so at once.";
        let plan = "Plan mode is active. Do not edit.";
        let first = [environment, &old, types, plan].join("\n\n");
        assert_eq!(held(&[&first]), [environment, &old, types, plan]);
        assert_eq!(
            held(&[&first, &new, "## Exited Plan Mode\n\nYou may edit."]),
            [environment, types, &new]
        );
        assert!(StateReminder::in_system_text(&format!("Be brief.\n\n{old}")).is_empty());
    }

    #[test]
    fn other_texts_state_nothing() {
        for text in [
            "Mend it.",
            "<system-reminder>\nResult of calling the Read tool:\n1\t# Environment\n</system-reminder>",
            "<system-reminder>\nNote: /a was read before.\n\n# Environment\n</system-reminder>",
            "<system-reminder>\n<total_tokens>1 tokens left</total_tokens>\n</system-reminder>",
        ] {
            assert_eq!(StateReminder::of_reminder(text), None, "{text}");
        }
    }
}

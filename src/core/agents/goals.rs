//! The goal of an agent's session, which outlives its turns.
//!
//! Agents word in their own ways that a goal is set or dropped. `goals.toml` has their messages, and this
//! module their tools. The module also states the goal in a carry-over prompt.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::marker::tags;
use crate::text::cut::cut;
use crate::text::table;

/// Opening tag of the goal, which comes before a carry-over prompt.
pub const GOAL_BEGINS: &str = "<active-goal>\n";
/// Closing tag of the goal.
pub const GOAL_ENDS: &str = "\n</active-goal>\n\n";

/// Introduction that the model reads before the goal.
const STATES: &str = "The goal of this session, which is still pursued:\n";

/// Maximum bytes kept of a goal: twice as much as Claude Code allows.
const MAX_GOAL_BYTES: usize = 8 * 1024;

/// Codex's name for the goal in a result that answers no call.
const OBJECTIVE: &str = "goal_objective";

/// Codex's tools. Their results state the goal as JSON.
const CODEX_TOOLS: [&str; 3] = ["create_goal", "update_goal", "get_goal"];

/// Claude Code's tools for a goal.
const CLAUDE_TOOLS: [&str; 2] = ["SetGoal", "ProposeGoal"];
/// Beginning of their result if no approval was necessary.
const CLAUDE_SETS: &str = "The goal is set";

/// Beginning of Claude Code's report that a Stop hook was not satisfied. The goal's own hook has the goal as
/// its name.
const FEEDBACK: &str = "Stop hook feedback:\n[";

/// Statement about the goal in a message or a tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoalChange {
    /// A new goal. `silent` means that no later message reports when it is met.
    Set { goal: String, silent: bool },
    /// The goal is still pursued.
    Kept,
    /// No goal is pursued.
    Dropped,
}

impl GoalChange {
    fn set(goal: &str, silent: bool) -> Self {
        let goal = cut(goal.trim(), MAX_GOAL_BYTES).to_owned();
        Self::Set { goal, silent }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GoalRow {
    begins: String,
    opens: Option<String>,
    ends: Option<String>,
    #[serde(default)]
    drops: bool,
    #[serde(default)]
    silent: bool,
}

static ROWS: LazyLock<Vec<GoalRow>> = LazyLock::new(|| table::rows(include_str!("goals.toml")));

/// Reads a statement about the goal from a user-role message. `last` is the current goal.
pub fn in_text(text: &str, last: Option<&str>) -> Option<GoalChange> {
    let text = text.trim();
    let row = ROWS.iter().find(|row| text.starts_with(&row.begins));
    let Some(row) = row else {
        // Only the goal's own hook proves that it is still pursued. Other Stop hooks have other names.
        return is_feedback(text, last?).then_some(GoalChange::Kept);
    };
    if row.drops {
        return Some(GoalChange::Dropped);
    }
    let rest = &text[row.begins.len()..];
    let rest = match row.opens.as_deref() {
        None => rest,
        Some(opens) => match rest.split_once(opens) {
            Some((_, goal)) => goal,
            // A message of this form without the goal's own text leaves the goal as it is.
            None => return Some(GoalChange::Kept),
        },
    };
    let goal = row.ends.as_deref().and_then(|ends| rest.split_once(ends));
    Some(GoalChange::set(goal.map_or(rest, |(goal, _)| goal), row.silent))
}

fn is_feedback(text: &str, goal: &str) -> bool {
    let named = text.split_once(FEEDBACK).map(|(_, named)| named);
    named.is_some_and(|named| {
        let rest = named.strip_prefix(goal);
        rest.is_some_and(|rest| rest.starts_with("]: "))
    })
}

/// Whether results of this tool may state the goal.
pub fn is_goal_tool(name: &str) -> bool {
    CODEX_TOOLS.contains(&name) || CLAUDE_TOOLS.contains(&name)
}

/// Reads the goal from a result without a call. `name` is the result's name.
pub fn in_named_result(name: &str, text: &str) -> Option<GoalChange> {
    (name == OBJECTIVE).then(|| GoalChange::set(text, false))
}

/// Reads a statement about the goal from the result of a call with these arguments.
pub fn in_result(tool: &str, arguments: &str, text: &str) -> Option<GoalChange> {
    if CLAUDE_TOOLS.contains(&tool) {
        let arguments: Value = serde_json::from_str(arguments).ok()?;
        let goal = arguments["condition"].as_str();
        let goal = goal.filter(|_| text.starts_with(CLAUDE_SETS))?;
        return Some(GoalChange::set(goal, true));
    }
    let said: Value = serde_json::from_str(text).ok()?;
    let goal = said.as_object()?.get("goal")?;
    match (goal["objective"].as_str(), goal["status"].as_str()) {
        (Some(objective), Some("active")) => Some(GoalChange::set(objective, false)),
        // Any status but `active` ends the goal, such as `complete`.
        _ => Some(GoalChange::Dropped),
    }
}

/// Formats the goal for its place before a carry-over prompt.
pub fn stated(goal: &str) -> String {
    format!("{GOAL_BEGINS}{STATES}{}{GOAL_ENDS}", tags::break_up(goal))
}

/// Splits the goal of [`stated`] from the text after it.
pub fn split_stated(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix(GOAL_BEGINS)?.strip_prefix(STATES)?;
    inside.split_once(GOAL_ENDS)
}

/// Removes the goal before a carry-over prompt.
pub fn without_stated(text: &str) -> &str {
    split_stated(text).map_or(text, |(_, after)| after)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: &str = "A session-scoped Stop hook is now active with condition: \"The \"x\" tests pass.\". Briefly acknowledge the goal, then immediately start";

    #[test]
    fn texts_set_keep_and_drop_a_goal() {
        let set = |goal, silent| Some(GoalChange::set(goal, silent));
        for (text, change) in [
            (CLAUDE, set("The \"x\" tests pass.", true)),
            ("Goal set: Ship it.", set("Ship it.", true)),
            (
                "<local-command-stdout>Goal cleared: Ship it.</local-command-stdout>",
                Some(GoalChange::Dropped),
            ),
            (
                "<codex_internal_context source=\"goal\">\nContinue working toward the active thread goal.\n",
                Some(GoalChange::Kept),
            ),
            (
                "<codex_internal_context source=\"goal\">\nContinue working toward it.\n\n<objective>\nShip it.\n</objective>\n",
                set("Ship it.", false),
            ),
            (
                "<codex_internal_context source=\"goal\">\nThe active thread goal objective was edited by the user.\n\n<untrusted_objective>\nDo not ship it.\n</untrusted_objective>\n",
                set("Do not ship it.", false),
            ),
            (
                "<codex_internal_context source=\"goal\">\nThe active thread goal has reached its token budget.\n\n<objective>\nShip it.\n</objective>\n",
                Some(GoalChange::Dropped),
            ),
            (
                "<system-reminder>\nStop hook feedback:\n[Ship it.]: no tests\n</system-reminder>",
                Some(GoalChange::Kept),
            ),
            ("Stop hook feedback:\n[make lint]: failed", None),
            ("What is a session-scoped Stop hook?", None),
        ] {
            assert_eq!(in_text(text, Some("Ship it.")), change, "{text}");
        }
    }

    #[test]
    fn results_of_the_agents_goal_tools_state_it() {
        let active = r#"{"goal":{"objective":"Ship it.","status":"active"},"remainingTokens":null}"#;
        let done = active.replace("active", "complete");
        let set = Some(GoalChange::set("Ship it.", false));
        assert_eq!(in_result("create_goal", "{}", active), set);
        assert_eq!(in_result("update_goal", "{}", &done), Some(GoalChange::Dropped));
        assert_eq!(
            in_result("get_goal", "{}", r#"{"goal":null}"#),
            Some(GoalChange::Dropped)
        );
        assert_eq!(in_result("update_goal", "{}", "cannot update goal"), None);
        assert_eq!(in_named_result("goal_objective", "Ship it."), set);
        assert_eq!(in_named_result("other", "Ship it."), None);
        let asked = r#"{"condition":"Ship it."}"#;
        assert_eq!(
            in_result("SetGoal", asked, "The goal is set, without an approval dialog."),
            Some(GoalChange::set("Ship it.", true))
        );
        assert_eq!(
            in_result("SetGoal", asked, "Sent the goal proposal to the user"),
            None
        );
    }

    #[test]
    fn what_is_stated_is_found_again() {
        let text = format!("{}Go on.", stated("Ship it."));
        assert_eq!(split_stated(&text), Some(("Ship it.", "Go on.")));
        assert_eq!(split_stated("Go on."), None);
    }
}

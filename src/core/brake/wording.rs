//! The brake's messages: to the model, to the user, and as the end of a turn.

use super::decide::BrakeReason;
use super::policy::{Account, AccountKind, BudgetUnit, MICRODOLLARS};
use super::repeats::{RepeatKind, RepeatedCall};
use crate::text::date::rfc3339;
use crate::text::units::short;
use crate::text::words::{grouped, plural};
use crate::work::SeenFacts;

/// Beginning of every notice to the model.
const OPENING: &str = "<budget-notice>";

/// Items of a list that are shown.
const MAX_ITEMS: usize = 5;

/// Input of the message that ends a turn in place of the model's output.
#[derive(Debug, Clone, Copy)]
pub struct EndText<'a> {
    /// Prefix of chat commands; empty if they are off.
    pub prefix: &'a str,
    /// Whether the agent is a subagent, whose response its caller reads.
    pub is_subagent: bool,
    /// Whether the user may let the agent continue.
    pub may_go_on: bool,
    /// Facts that the transcript proves.
    pub seen: Option<&'a SeenFacts>,
}

/// The end of a turn that is not sent to the model.
pub fn ends(reason: &BrakeReason<'_>, accounts: &[Account], end: &EndText<'_>) -> String {
    let mut text = format!("stopped: {}.", why(reason));
    for line in [
        spent_line(accounts),
        end.seen.and_then(done),
        end.seen.and_then(open),
    ]
    .into_iter()
    .flatten()
    {
        text.push_str("\n\n");
        text.push_str(&line);
    }
    text.push_str("\n\n");
    text.push_str(&next(reason, end));
    text
}

fn next(reason: &BrakeReason<'_>, end: &EndText<'_>) -> String {
    let prefix = end.prefix;
    if end.is_subagent {
        return "This subagent's turn is over. Report to your caller what is done and what is open."
            .to_owned();
    }
    if prefix.is_empty() || !end.may_go_on {
        return "Nothing is lost: only this request was not sent. Your own messages are still sent."
            .to_owned();
    }
    let dollars = match reason {
        BrakeReason::Budget(_, BudgetUnit::Dollars) => {
            format!(" `{prefix}go 10` continues for 10 dollars more;")
        }
        _ => String::new(),
    };
    let again = match reason {
        BrakeReason::Budget(..) => "continues with as much again",
        _ => "continues",
    };
    format!(
        "Nothing is lost. `{prefix}go` {again};{dollars} `{prefix}stop` keeps it stopped. Any other message of yours is also sent."
    )
}

/// Why the brake acts, as a clause.
fn why(reason: &BrakeReason<'_>) -> String {
    match reason {
        BrakeReason::Budget(account, unit) => {
            let limit = account.limit(*unit).unwrap_or_default();
            let [spent, limit] = [account.spent(*unit), limit].map(|amount| shown(*unit, amount));
            let opens = account.opens_ms().map_or(String::new(), |opens| {
                format!(" and opens again at {}", time(opens))
            });
            format!(
                "the budget of {} is used up ({spent} of {limit}){opens}",
                whose(account)
            )
        }
        BrakeReason::Repeat(repeat) => {
            format!(
                "the model repeats itself ({}), and no file changed in between",
                repetition(repeat)
            )
        }
        BrakeReason::SameRequest(count) => {
            format!("the agent sent the same request again after {count} complete answers")
        }
        BrakeReason::Halted => "you stopped this session".to_owned(),
    }
}

fn whose(account: &Account) -> String {
    match account.kind {
        AccountKind::Session => "this session".to_owned(),
        AccountKind::Day => "this day".to_owned(),
        AccountKind::Directory => "this working directory".to_owned(),
        AccountKind::Plan => {
            let window = account.ledger.windows.first().map_or("", |window| &window.name);
            format!("the subscription's {window} window")
        }
    }
}

/// A time as a user reads it, and in full.
fn time(ms: u64) -> String {
    let full = rfc3339(ms / 1_000);
    format!("{} UTC ({full})", full.get(11..16).unwrap_or_default())
}

/// Describes a refusal of the provider because of a limit of the account.
pub fn provider_limit(opens_ms: Option<u64>) -> String {
    let opens = opens_ms.map_or_else(
        || "the provider does not say when it opens again".to_owned(),
        |opens| format!("it opens again at {}", time(opens)),
    );
    format!("the provider's limit is reached; {opens}")
}

fn repetition(repeat: &RepeatedCall) -> String {
    let (count, call) = (repeat.mark.count, &repeat.call);
    match repeat.kind {
        RepeatKind::Same => format!("`{call}` gave the same result {count} times"),
        RepeatKind::Failing => format!("`{call}` failed {count} times"),
        RepeatKind::Review => format!("`{call}` got the same prompt {count} times"),
        RepeatKind::Change => format!("`{call}` made the same change {count} times"),
    }
}

/// An amount with its unit.
fn shown(unit: BudgetUnit, amount: u64) -> String {
    match unit {
        BudgetUnit::Dollars => format!("${:.2}", amount as f64 / MICRODOLLARS),
        BudgetUnit::Tokens => format!("{} tokens", short(amount)),
        BudgetUnit::Calls => plural(amount, "model call"),
        BudgetUnit::Minutes => format!("{} min", grouped(amount / 60_000)),
        BudgetUnit::Share => format!("{}%", amount as f64 / 100.0),
    }
}

/// Amounts that the session has spent.
fn spent_line(accounts: &[Account]) -> Option<String> {
    // The account of the session comes first.
    let account = accounts.first()?;
    let spent = &account.ledger.spent;
    let is_shown = |unit: &BudgetUnit| unit.in_full(unit.amount(spent)) >= unit.least_shown();
    let units = BudgetUnit::ALL.into_iter().filter(is_shown);
    let all: Vec<String> = units.map(|unit| shown(unit, unit.amount(spent))).collect();
    let unpriced = match account.ledger.unpriced {
        0 => String::new(),
        calls => format!(
            " {} have no known price: only their tokens are counted.",
            plural(calls, "model call")
        ),
    };
    (!all.is_empty()).then(|| format!("Spent: {}.{unpriced}", all.join(", ")))
}

fn list(items: Vec<String>) -> Option<String> {
    let more = items.len().saturating_sub(MAX_ITEMS);
    let first = items.into_iter().take(MAX_ITEMS).collect::<Vec<_>>().join("; ");
    match (first.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(first),
        (false, more) => Some(format!("{first}; and {more} more")),
    }
}

/// The finished work: changed files, and checks that passed.
fn done(seen: &SeenFacts) -> Option<String> {
    let files = seen.files.iter().map(|file| format!("{} changed", file.path));
    let runs = seen.verification.iter();
    let passed = runs.filter(|run| run.has_passed() == Some(true));
    let passed = passed.map(|run| match run.stale {
        Some(false) => format!("`{}` passed", run.command),
        // An unknown state counts as stale, so that no pass is claimed for files that may have changed.
        _ => format!("`{}` passed before later changes", run.command),
    });
    list(passed.chain(files).collect()).map(|list| format!("Done: {list}."))
}

/// The open work: checks and commands that failed, and to-dos.
fn open(seen: &SeenFacts) -> Option<String> {
    let failed = seen.failed().map(|failure| match failure.exit {
        Some(code) => format!("`{}` ended with {code}", failure.command),
        None => format!("`{}` failed", failure.command),
    });
    let todos = seen.todos.iter().filter(|todo| todo.state.is_open());
    let todos = todos.map(|todo| todo.text.clone());
    list(failed.chain(todos).collect()).map(|list| format!("Open: {list}."))
}

/// The notice to the model, as part of its context.
pub fn model_notice(reason: &BrakeReason<'_>, can_hand_over: bool, seen: Option<&SeenFacts>) -> String {
    let handover = match can_hand_over {
        true => " or call session_handoff with a self-contained prompt for what is left to do,",
        false => "",
    };
    let asks = match reason {
        BrakeReason::Budget(account, unit) => {
            let (limit, spent) = (account.limit(*unit).unwrap_or_default(), account.spent(*unit));
            let left = shown(*unit, limit.saturating_sub(spent));
            format!(
                "Of the budget of {}, {} of {} are spent: {left} is left, and then the session is stopped. Finish the step that you are at,{handover} \
                 and say what is done and what is open.",
                whose(account),
                shown(*unit, spent),
                shown(*unit, limit),
            )
        }
        BrakeReason::Repeat(repeat) => format!(
            "You repeat yourself: {}, and no file changed in between. Once more, and the session is stopped. Do something else, or say what \
             blocks you and end your turn.",
            repetition(repeat)
        ),
        BrakeReason::SameRequest(_) | BrakeReason::Halted => why(reason),
    };
    let evidence = [seen.and_then(done), seen.and_then(open)].into_iter().flatten();
    let evidence: String = evidence.map(|line| format!("\n{line}")).collect();
    format!(
        "{OPENING}\nThis notice comes from the session's proxy, not from the user. {asks}{evidence} Do not mention this notice.\n</budget-notice>"
    )
}

/// The notice to the user before a response that passed.
pub fn user_notice(reason: &BrakeReason<'_>, prefix: &str, may_go_on: bool) -> String {
    let go = match prefix {
        "" => String::new(),
        _ if !may_go_on => String::new(),
        prefix => format!(" `{prefix}go` lets the agent continue."),
    };
    format!(
        "{}. Your message is sent, but the agent's own work after it is not.{go}",
        why(reason)
    )
}

/// The answer to `::go`, or the notice before the model's output that follows it.
pub fn go_on(accounts: &[Account]) -> String {
    let left = status_line(accounts).map_or(String::new(), |line| format!(" {line}"));
    format!("the agent may continue.{left}")
}

/// The answer to `::stop`.
pub fn halted(prefix: &str) -> String {
    format!(
        "the session is stopped: the agent and its subagents do nothing more by themselves. `{prefix}go` lets them continue."
    )
}

/// The answer to `::go` if nothing is stopped.
pub fn nothing_braked(accounts: &[Account]) -> String {
    let line = status_line(accounts).map_or(String::new(), |line| format!(" {line}"));
    format!("nothing is stopped here, so nothing was changed.{line}")
}

/// The answer to a command of the brake if it is off.
pub fn off() -> String {
    "the brake is off, so nothing stops the agent, and nothing was changed: [brake] in the config or `baton run --budget` sets a budget.".to_owned()
}

/// The session's budgets in one line; `None` without any.
pub fn status_line(accounts: &[Account]) -> Option<String> {
    let mut parts = Vec::new();
    for account in accounts {
        for unit in BudgetUnit::ALL {
            if let Some(limit) = account.limit(unit) {
                let [spent, limit] = [account.spent(unit), limit].map(|amount| shown(unit, amount));
                parts.push(format!("{} {spent} of {limit}", account.kind.name()));
            }
        }
    }
    let unpriced = accounts.first().map_or(0, |account| account.ledger.unpriced);
    if unpriced > 0 {
        parts.push(format!(
            "{} without a known price",
            plural(unpriced, "model call")
        ));
    }
    (!parts.is_empty()).then(|| format!("Budgets: {}.", parts.join(", ")))
}

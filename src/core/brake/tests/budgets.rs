//! Ledgers, budgets, decisions and their messages.

use uuid::Uuid;

use super::super::*;
use crate::record::{Amounts, EntryKind, Ledger, LedgerEntry, LoopMark, PlanWindow, RecordChange};
use crate::text::testing::{assert_contains, assert_lacks};

fn entry(n: u128, at_ms: u64, kind: EntryKind) -> RecordChange {
    let id = Uuid::from_u128(n);
    RecordChange::Ledger(LedgerEntry { id, at_ms, kind })
}

fn spent(n: u128, microdollars: u64) -> RecordChange {
    let amounts = Amounts {
        microdollars,
        tokens: 10 * microdollars,
        calls: 1,
        ..Amounts::default()
    };
    entry(
        n,
        n as u64,
        EntryKind::Spent {
            amounts,
            unpriced: 0,
            request: None,
        },
    )
}

fn ledger(changes: &[RecordChange]) -> Ledger {
    let mut record = crate::record::Conversation::default();
    for change in changes {
        change.apply(&mut record);
    }
    record.ledger.map(|ledger| *ledger).unwrap_or_default()
}

/// Entries in any order, each any number of times, give the same sums.
#[test]
fn a_ledger_counts_each_entry_once_in_any_order() {
    let entries: Vec<RecordChange> = (1..=40).map(|n| spent(n, n as u64)).collect();
    let expected = ledger(&entries).spent;
    assert_eq!((expected.microdollars, expected.calls), (820, 40));
    let mut seed = 7_u64;
    for _ in 0..50 {
        let mut mixed = entries.clone();
        for at in (1..mixed.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            mixed.swap(at, (seed >> 33) as usize % (at + 1));
        }
        let twice: Vec<RecordChange> = mixed.chunks(8).flat_map(|some| [some, some].concat()).collect();
        let got = ledger(&twice).spent;
        assert_eq!(
            Amounts { millis: 0, ..got },
            Amounts {
                millis: 0,
                ..expected
            }
        );
    }
}

#[test]
fn only_the_agents_own_time_counts() {
    let began = |n, at, continues| entry(n, at, EntryKind::Began { continues });
    let ended = |n, at| {
        entry(
            n,
            at,
            EntryKind::Spent {
                amounts: Amounts::default(),
                unpriced: 0,
                request: None,
            },
        )
    };
    let all = [
        began(1, 1_000, false),
        ended(2, 3_000),
        began(3, 8_000, true),
        ended(4, 9_000),
        began(5, 90_000, false),
    ];
    assert_eq!(
        ledger(&all).spent.millis,
        8_000,
        "the user's pause is not the agent's"
    );
}

const LIMITS: Amounts = Amounts {
    microdollars: 100,
    tokens: 0,
    calls: 0,
    millis: 0,
    share: 0,
};

fn account(kind: AccountKind, limits: Amounts, ledger: &Ledger) -> Account {
    Account {
        kind,
        limits,
        key: String::new(),
        ledger: ledger.clone(),
    }
}

fn decided(ledger: &Ledger, continues: bool, repeat: Option<RepeatedCall>) -> &'static str {
    let accounts = [account(AccountKind::Session, LIMITS, ledger)];
    let decision = decide(&BrakeInput {
        accounts: &accounts,
        continues,
        repeat,
        request: 1,
    });
    match decision {
        BrakeDecision::Pass => "pass",
        BrakeDecision::TellModel(_) => "model",
        BrakeDecision::TellUser(_) => "user",
        BrakeDecision::End(_) => "end",
    }
}

#[test]
fn the_model_is_told_once_then_the_agent_is_stopped_and_the_user_never() {
    let at = |microdollars| ledger(&[spent(1, microdollars)]);
    for (spent, own, users) in [
        (79, "pass", "pass"),
        (80, "model", "model"),
        (99, "model", "model"),
        (100, "end", "user"),
    ] {
        assert_eq!(
            (decided(&at(spent), true, None), decided(&at(spent), false, None)),
            (own, users),
            "{spent}"
        );
    }
    let told = [spent(1, 80), entry(2, 2, EntryKind::Told)];
    assert_eq!(decided(&ledger(&told), true, None), "pass");
    let granted = entry(4, 4, EntryKind::Granted(LIMITS));
    let more = [&told[..], &[spent(3, 20), granted]].concat();
    assert_eq!(decided(&ledger(&more), true, None), "pass");
    let again = [&more[..], &[spent(5, 60)]].concat();
    assert_eq!(
        decided(&ledger(&again), true, None),
        "model",
        "of the next limit it is told anew"
    );
    let halted = ledger(&[entry(1, 1, EntryKind::Halted)]);
    assert_eq!(
        (decided(&halted, true, None), decided(&halted, false, None)),
        ("end", "user")
    );
}

#[test]
fn a_loop_that_the_user_lets_pass_is_counted_from_there() {
    let repeat = |count| {
        Some(RepeatedCall {
            kind: RepeatKind::Same,
            mark: LoopMark { key: 9, count },
            call: "ls".to_owned(),
        })
    };
    let none = Ledger::default();
    let steps = [3, 4, 5].map(|count| decided(&none, true, repeat(count)));
    assert_eq!(steps, ["model", "end", "end"]);
    assert_eq!(decided(&none, false, repeat(4)), "pass", "the user has spoken");
    let mark = LoopMark { key: 9, count: 4 };
    let passed = ledger(&[
        entry(1, 1, EntryKind::StoppedAt(mark)),
        entry(2, 2, EntryKind::Granted(Amounts::default())),
    ]);
    let steps = [4, 5, 6, 7, 8].map(|count| decided(&passed, true, repeat(count)));
    assert_eq!(steps, ["pass", "pass", "pass", "model", "end"]);
}

#[test]
fn the_same_request_after_complete_answers_is_stopped() {
    let answered = |n| {
        entry(
            n,
            1,
            EntryKind::Spent {
                amounts: Amounts::default(),
                unpriced: 0,
                request: Some(1),
            },
        )
    };
    let ledgers = [4, 5].map(|count| ledger(&(1..=count).map(answered).collect::<Vec<_>>()));
    assert_eq!(
        ledgers.map(|ledger| decided(&ledger, true, None)),
        ["pass", "end"]
    );
}

#[test]
fn a_grant_is_enough_for_the_next_request() {
    let overshot = ledger(&[spent(1, 1_700)]);
    let account = account(AccountKind::Session, LIMITS, &overshot);
    assert_eq!(account.grant(None).microdollars, 100 + 1_600);
    assert_eq!(account.grant(Some(10)).microdollars, 10 + 1_600);
    let grant = entry(2, 2, EntryKind::Granted(account.grant(Some(10))));
    assert_eq!(decided(&ledger(&[spent(1, 1_700), grant]), true, None), "model");
}

#[test]
fn a_budget_is_a_plain_number_of_dollars() {
    for (text, expected) in [
        ("5", Some(5_000_000)),
        ("$2.50", Some(2_500_000)),
        ("0.01", Some(10_000)),
        ("1000000", Some(1_000_000_000_000)),
    ] {
        assert_eq!(parse_dollars(text).ok(), expected);
    }
    for text in [
        "0", "-1", "1e99", "1e3", "5 EUR", "€5", "", "NaN", "inf", "1000001", "0.001", "5,00", ".",
    ] {
        assert!(parse_dollars(text).is_err(), "{text}");
    }
}

#[test]
fn a_request_lowers_a_budget_and_raises_it_only_if_it_may() {
    let policy = |may_raise| BrakePolicy {
        session: LIMITS,
        may_raise: Some(may_raise),
        ..BrakePolicy::default()
    };
    let limit = |policy: BrakePolicy, declared| policy.declaring(declared).session.microdollars;
    assert_eq!(
        [Some(50), Some(500), None].map(|d| limit(policy(false), d)),
        [50, 100, 100]
    );
    assert_eq!(
        [Some(50), Some(500), None].map(|d| limit(policy(true), d)),
        [50, 500, 100]
    );
    assert_eq!(limit(BrakePolicy::default(), Some(7)), 7);
    assert!(BrakePolicy::default().is_off() && !policy(true).is_off());
}

#[test]
fn an_end_says_what_was_spent_and_how_to_go_on() {
    let used = ledger(&[spent(1, 5_030_000)]);
    let limits = Amounts {
        microdollars: 5_000_000,
        ..Amounts::default()
    };
    let accounts = [account(AccountKind::Session, limits, &used)];
    let reason = BrakeReason::Budget(&accounts[0], BudgetUnit::Dollars);
    let end = EndText {
        prefix: "::",
        is_subagent: false,
        may_go_on: true,
        seen: None,
    };
    let text = ends(&reason, &accounts, &end);
    for part in [
        "used up ($5.03 of $5.00)",
        "Spent: $5.03, 50.3 M tokens, 1 model call.",
        "`::go` continues with as much again",
        "`::go 10`",
        "`::stop`",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let sub = ends(
        &reason,
        &accounts,
        &EndText {
            is_subagent: true,
            ..end
        },
    );
    assert_contains(&sub, "Report to your caller");
    assert_lacks(&sub, "::go");
    let silent = ends(&reason, &accounts, &EndText { prefix: "", ..end });
    assert!(!silent.contains("go`"), "{silent}");
    assert!(model_notice(&reason, true, None).starts_with("<budget-notice>"));
}

#[test]
fn a_window_of_a_subscription_is_limited_until_its_reset() {
    let window = |name: &str, used, resets_ms| PlanWindow {
        name: name.to_owned(),
        used,
        resets_ms,
        granted: 0,
    };
    let stated = |n, at_ms, windows: &[PlanWindow]| entry(n, at_ms, EntryKind::Windows(windows.to_vec()));
    let limits = BudgetUnit::Share.only(8_000);
    let hour = 3_600_000;
    let state = |ledger: &Ledger| {
        let account = account(AccountKind::Plan, limits, ledger);
        (account.used_up(), account.opens_ms(), account.grant(None).share)
    };
    let mut entries = vec![stated(
        1,
        1,
        &[window("5h", 8_100, hour), window("7d", 4_000, 9 * hour)],
    )];
    let up = Some(BudgetUnit::Share);
    assert_eq!(state(&ledger(&entries)), (up, Some(hour), 8_000));
    entries.push(entry(2, 2, EntryKind::Granted(BudgetUnit::Share.only(8_000))));
    entries.push(stated(
        3,
        3,
        &[window("5h", 9_900, hour + 5_000), window("7d", 4_100, 9 * hour)],
    ));
    assert_eq!(state(&ledger(&entries)).0, None, "the grant holds in this window");
    let mut longer = entries.clone();
    longer.push(stated(4, 4, &[window("7d", 8_000, 9 * hour)]));
    assert_eq!(
        state(&ledger(&longer)),
        (up, Some(9 * hour), 8_000),
        "but not in the other one"
    );
    // Both at once.
    longer.push(stated(
        5,
        5,
        &[window("5h", 16_200, hour), window("7d", 8_000, 9 * hour)],
    ));
    let mut go = longer.clone();
    go.push(entry(6, 6, EntryKind::Granted(limits)));
    assert_eq!(state(&ledger(&go)).0, None);
    longer.push(entry(7, 10 * hour, EntryKind::Began { continues: true }));
    assert_eq!(state(&ledger(&longer)), (None, None, 0), "both have reset");
    entries.push(stated(6, hour + 6_000, &[window("5h", 8_500, 6 * hour)]));
    assert_eq!(
        state(&ledger(&entries)),
        (up, Some(6 * hour), 8_000),
        "nor in the next one"
    );
}

#[test]
fn a_clients_limits_replace_those_of_all() {
    let all = BrakePolicy {
        session: LIMITS,
        may_raise: Some(true),
        ..BrakePolicy::default()
    };
    let own = BrakePolicy {
        session: BudgetUnit::Dollars.only(7),
        day: BudgetUnit::Tokens.only(8),
        may_raise: Some(false),
        ..BrakePolicy::default()
    };
    let both = own.or(&all);
    assert_eq!(
        (both.session.microdollars, both.session.tokens),
        (7, LIMITS.tokens)
    );
    assert_eq!((both.day.tokens, both.may_raise()), (8, false));
    assert_eq!(BrakePolicy::default().or(&all), all);
}

//! Statements that a later one replaces.

use super::said::behind;
use super::*;

const MARK: &str = " [replaced by a later word where the two conflict]";

#[test]
fn a_replaced_rule_is_gone_or_marked_and_what_replaced_it_is_there() {
    let port = "The port must be 8080.";
    let now = "Actually, the port is 9090 now.";
    // Replaced by words that are not a rule themselves, now or in an earlier handoff.
    assert_eq!(shown(&[user(port), user(now)], &[]), [now]);
    assert_eq!(shown(&[user("Go on.")], &[now, port]), [now]);
    assert_eq!(shown(&[user(port), user(now), user(NEVER)], &[]), [NEVER, now]);
    // The rest of the sentence, apart from the value, still holds.
    let cap = "HARD CONSTRAINT: The budget cap is $300. Never exceed it without asking.";
    let raised = "Update: keep the budget below nine hundred dollars.";
    assert_eq!(
        shown(&[user(cap), user(raised)], &[]),
        [raised.to_owned(), format!("{cap}{MARK}")]
    );
    // The mark is not part of the rule: a later handoff decides anew, and a user may drop the rule.
    let carried = carry(
        "Go on.",
        &words(found(&[user(cap), user(raised)], &[], &[])),
        None,
        all(600),
    );
    let behind = EarlierWords::behind_prompt(&carried.prompt).rules;
    assert_eq!(behind, [raised, cap]);
    let marked = format!("{cap}{MARK}");
    assert_eq!(
        texts(&found(&[user("Go on.")], &[raised, cap], &[&marked])),
        [raised]
    );
}

#[test]
fn a_rule_is_marked_if_a_later_one_says_the_same_of_something_else() {
    for (earlier, later) in [
        (
            "No wool in the dyeing room, ever.",
            "No silk in the dyeing room, ever.",
        ),
        (
            "Put every timestamp in UTC.",
            "For the weekly digest, show clocks in Eastern time.",
        ),
        (
            "Keep replies brief and use imperial units.",
            "Please make responses detailed, and stick to metric units.",
        ),
    ] {
        assert_eq!(
            shown(&[user(earlier), user(later)], &[]),
            [later.to_owned(), format!("{earlier}{MARK}")]
        );
    }
}

#[test]
fn a_new_order_and_a_second_report_replace_nothing() {
    for (old, new) in [
        (
            "En la portada no se ven bien los nombres de las puertas",
            "Mira que los nombres no se mueven al abrir las puertas",
        ),
        (
            "now add a `hall paint` command that paints the hall, using the colour of the door if given",
            "now add a `hall close` command that closes the hall, using the key of the door if given",
        ),
    ] {
        let answer = || model("It is so now.");
        let messages = [user(old), answer(), user(new), answer(), user("Print it.")];
        let block = behind(&messages, 600);
        assert!(block.contains(old) && !block.contains(MARK), "{block}");
    }
}

#[test]
fn a_fact_is_marked_if_a_later_one_has_another_value() {
    let (old, new) = (
        "The archive's rotation owner this week is Ada Winter.",
        "The archive belongs to Bo Summer this week.",
    );
    let messages = [old, "Print it.", new, "Go on with the page."].map(user);
    let block = behind(&messages, 600);
    assert!(
        block.contains(new) && block.contains(&format!("{old}{MARK}")),
        "{block}"
    );
}

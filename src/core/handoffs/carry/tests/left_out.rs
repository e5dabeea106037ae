//! Closing lines of the block about results and rules that the model does not see.

use super::said::said_in;
use super::*;

#[test]
fn what_recall_finds_is_said_in_the_last_line() {
    let words = UsersWords {
        left_out: Some(LeftOut {
            results: 41,
            tools: 6,
        }),
        ..words(two())
    };
    let line = "\nLeft out: 41 results of 6 tools; session_recall finds them.\n</carried-over>";
    let carried = carry("Go on.", &words, None, all(600));
    assert!(carried.prompt.ends_with(line), "{}", carried.prompt);
    assert_eq!(
        EarlierWords::behind_prompt(&carried.prompt).rules,
        [NEVER, ENGLISH]
    );
    assert_lacks(
        &carry("Go on.", &words, None, policy(CarryScope::Rules, 600)).prompt,
        "Left out",
    );
}

#[test]
fn the_model_is_told_that_it_has_worked_on_since_the_prompt() {
    let line = |calls_since| {
        let words = UsersWords {
            calls_since,
            ..words(two())
        };
        let carried = carry("Go on.", &words, None, all(600)).prompt;
        let line = carried
            .lines()
            .find(|line| line.starts_with("The prompt was written"));
        line.map(str::to_owned)
    };
    let expected = |results| Some(format!("The prompt was written before the {results}."));
    assert_eq!(line(3), expected("results of the last 3 calls"));
    assert_eq!(line(1), expected("result of the last call"));
    assert_eq!(line(0), None);
}

#[test]
fn the_model_is_told_how_many_rules_did_not_fit() {
    let rules: Vec<_> = (0..60)
        .map(|n| user(&format!("Never touch the directory of module {n}.")))
        .collect();
    for (has_recall, finds) in [(true, "; session_recall finds them"), (false, "")] {
        let words = UsersWords {
            has_recall,
            ..said_in(&rules)
        };
        let carried = carry("Go on.", &words, None, all(300));
        let left = carried
            .items
            .iter()
            .filter(|item| (item.kind, item.state) == (CarriedKind::Rule, CarriedState::LeftOut));
        let left = left.count();
        assert!(left > 10, "{left}");
        let line =
            format!("\nLeft out: {left} more rules of the user, for lack of room{finds}.\n</carried-over>");
        assert_ends(&carried.prompt, &line);
        assert!(draft::tokens(&carried.prompt) <= 300 + 4, "{}", carried.prompt);
        // A small block has only the user's words.
        assert_lacks(&carry("Go on.", &words, None, all(150)).prompt, "Left out");
    }
    assert_lacks(
        &carry("Go on.", &said_in(&rules[..3]), None, all(600)).prompt,
        "Left out",
    );
}

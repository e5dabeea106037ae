//! Checks that hostile input costs time in proportion to its size.

use std::time::{Duration, Instant};

use super::super::{analyze, goal_and_now, read};

/// In a debug build these take a few seconds; anything that is not linear takes minutes.
const LIMIT: Duration = Duration::from_secs(20);

const BYTES: usize = 150_000;

#[test]
fn hostile_texts_take_no_longer_than_others() {
    let began = Instant::now();
    for piece in [
        "a: ",
        "- ",
        "[",
        "{",
        "\"",
        "'",
        "&a ",
        "*a ",
        "!a ",
        "? ",
        "|\n",
        ">\n ",
        "#",
        "\n",
        " ",
        "\t",
        "goal:",
        "now\n",
        "a: b\n",
        "x: \"y\n",
        "%",
        "---\n",
        "\\",
        "k: [\n",
        "  - - - - ",
    ] {
        let text = piece.repeat(BYTES / piece.len());
        let _ = read(&text);
        let _ = goal_and_now(&text);
        let _ = read(&format!("goal: {text}"));
    }
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    let began = Instant::now();
    for piece in [
        "I've completed ",
        "Successfully ",
        "Done: x\n",
        "Next:\n",
        "- x\n",
        "✓",
        "using x for ",
        "decided to ",
        "chose a over ",
        "Blocked by ",
        "Unable to ",
        "not Implemented ",
        "Next:\n- a\n",
        "** Done",
        "1. ",
    ] {
        let _ = analyze(&piece.repeat(BYTES / piece.len()));
    }
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
}

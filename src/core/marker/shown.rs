//! A carry-over prompt as the user reads it: words in place of the tags that structure it for the model.
//!
//! The seal and the store keep the prompt with its tags. The shown form is only used if it can be converted
//! back, so a transcript still proves its prompt.

use std::borrow::Cow;

/// Each tag with its line breaks, and the words shown for it. A blank line keeps the words out of a list that
/// Markdown renders before them.
const WORDS: [(&str, &str); 4] = [
    ("<handoff-context>\n", "*Context of the handoff:*\n\n"),
    ("\n</handoff-context>\n", "\n\n*End of the context.*\n"),
    ("<carried-over>\n", "*Carried over:*\n\n"),
    ("\n</carried-over>", "\n\n*End of what is carried over.*"),
];

/// Converts a prompt to the form shown to the user. Returns it unchanged if that could not be reverted, for
/// example because the prompt contains the words itself.
pub fn shown(prompt: &str) -> Cow<'_, str> {
    let shown = WORDS.iter().fold(Cow::Borrowed(prompt), |text, (tag, words)| {
        swapped(text, tag, words)
    });
    match restored(&shown) == prompt {
        true => shown,
        false => Cow::Borrowed(prompt),
    }
}

/// Reverts [`shown`].
pub(super) fn restored(shown: &str) -> Cow<'_, str> {
    WORDS.iter().fold(Cow::Borrowed(shown), |text, (tag, words)| {
        swapped(text, words, tag)
    })
}

fn swapped<'t>(text: Cow<'t, str>, from: &str, to: &str) -> Cow<'t, str> {
    match text.contains(from) {
        true => Cow::Owned(text.replace(from, to)),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::testing::assert_lacks;

    #[test]
    fn a_shown_prompt_has_no_tags_and_is_restored() {
        let block = "<carried-over>\nThe user's rules:\n- Never push.\n</carried-over>";
        for prompt in [
            format!("<handoff-context>\nGoal: port it.\n- a\n</handoff-context>\n\nGo on.\n\n{block}"),
            format!("Goal: port it.\n\n{block}\n\nThe newest message."),
            "Goal: port it.".to_owned(),
        ] {
            let shown = shown(&prompt);
            assert_lacks(&shown, "handoff-context>");
            assert_lacks(&shown, "carried-over>");
            assert_eq!(restored(&shown), prompt);
        }
    }

    #[test]
    fn a_prompt_with_the_words_in_it_is_shown_unchanged() {
        for (_, words) in WORDS {
            let prompt = format!("<carried-over>\n- a\n</carried-over>\n{words}");
            assert_eq!(shown(&prompt), prompt);
        }
    }
}

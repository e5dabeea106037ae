//! Rules of the user as a handoff carries them.

use crate::text::prose::{one_line, sentences};
use crate::work::{SeenStatement, requests};

/// Mark after a statement that a later one may replace.
pub(super) const REPLACED: &str = " [replaced by a later word where the two conflict]";

/// Mark after a rule whose message also had a request that is done.
const SAID_WITH: &str = " [said with: ";
const IS_DONE: &str = " That is done.]";

/// Maximum size of such a request in bytes: more of it would displace other rules.
const MAX_REQUEST_BYTES: usize = 100;

/// A rule of the user, verbatim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub text: String,
    /// Whether the rule forbids something.
    pub forbids: bool,
    /// Whether no explicit words make it a rule.
    pub seems: bool,
    /// How likely its words hold beyond their request.
    pub score: i32,
    /// Whether a later statement has another value, possibly for the same thing.
    pub replaced: bool,
    /// The whole message of the rule, on one line; empty if it comes from an earlier handoff.
    pub message: String,
}

impl Rule {
    /// The rule as it appears in a block. A mark is added if the request in its message is done.
    pub(super) fn shown(&self, finished: &[SeenStatement]) -> String {
        let mark = if self.replaced { REPLACED } else { "" };
        let is_done = finished.iter().any(|done| done.text == self.message);
        let request =
            sentences(&self.message).find(|other| requests::asks(other) && !self.text.contains(other.trim()));
        match request.filter(|_| is_done) {
            Some(request) => {
                let request = one_line(request, MAX_REQUEST_BYTES);
                let ends = request.ends_with(['.', '!', '?', '…', '。', '！', '？']);
                let stop = if ends { "" } else { "." };
                format!("{}{mark}{SAID_WITH}{request}{stop}{IS_DONE}", self.text)
            }
            None => format!("{}{mark}", self.text),
        }
    }
}

/// The rule in a line of a block, without the mark.
pub(super) fn unmarked(line: &str) -> &str {
    let alone = line
        .strip_suffix(IS_DONE)
        .and_then(|line| line.rsplit_once(SAID_WITH));
    let line = alone.map_or(line, |(rule, _)| rule);
    line.strip_suffix(REPLACED).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::super::{EarlierWords, RuleSources, UserMessages, users_words};
    use crate::redact::Redactor;

    fn found(text: &str) -> Vec<String> {
        let said = UserMessages::of_text(text);
        let sources = RuleSources {
            earlier: &EarlierWords::default(),
            said: &said,
            since: None,
            without: &[],
            markers: &["wichtig".to_owned()],
            redactor: &Redactor::default(),
        };
        let rules = users_words(&sources).rules.into_iter();
        rules.map(|rule| rule.text).collect()
    }

    #[test]
    fn what_forbids_constrains_or_prefers_is_a_rule() {
        for rule in [
            "Never touch `migrations/`, and keep the commit messages in English.",
            "Don't ask me to confirm before running commands.",
            "Before you answer, restate my question.",
            "When you give measurements, use metric, not imperial.",
            "Write every number in your replies as an English word, not as digits.",
            "Reply in bullet points only, no paragraphs.",
            "Use pnpm, not npm.",
            "For status reports, show clocks in Pacific time.",
            "Please make responses light, and stick to metric units.",
            "We never push on Fridays.",
            "The port must be 8080.",
            "Wichtig: Port 8080.",
            "Fix it now, no new dependencies.",
            "Please no new dependencies.",
            "Port it, but don't touch the reader.",
            "The migrations may not be changed.",
            "3) Keep the page simple.",
            "Dont rename the table.",
            "Don’t rename the table.",
            "Write tests, and follow the guide exactly.",
            "The old index should not be changed ever, it is an archive.",
            "Make sure the pages have no blanks.",
            "Every time you print, close the door.",
            "Never push.",
            "不准改動測試",
        ] {
            assert_eq!(found(rule), [rule]);
        }
        assert_eq!(
            found("HARD CONSTRAINT: The cap is $500. Never exceed it."),
            ["HARD CONSTRAINT: The cap is $500. Never exceed it."]
        );
        assert_eq!(found("只能用这个接口，能不能打开"), ["只能用这个接口，"]);
        assert_eq!(
            found("Fix the importer. Never push. No mocks."),
            ["Never push.", "No mocks."]
        );
        assert_eq!(
            found("I want to use only one door can you show me how the hall looks then"),
            ["I want to use only one door"]
        );
        assert_eq!(
            found("For the rest of this session. reply briefly to me. Mend the parser."),
            ["For the rest of this session. reply briefly to me."]
        );
    }

    #[test]
    fn a_rule_is_told_apart_from_the_request_that_it_follows() {
        for (text, rules) in [
            ("When you open it, the window moves.", &[][..]),
            (
                "When you open it, bring a light.",
                &["When you open it, bring a light."],
            ),
            (
                "Edit the notes to never name a person.",
                &["Edit the notes to never name a person."],
            ),
            (
                "Print it from the shelf always.",
                &["Print it from the shelf always."],
            ),
            ("The list must look like this:", &[]),
            ("不可以有任何空页。", &["不可以有任何空页。"]),
            (
                "Tell me why the index is empty make sure that each entry has a page",
                &["make sure that each entry has a page"][..],
            ),
            (
                "Could you rename it and make sure that every page has a title?",
                &["make sure that every page has a title"],
            ),
            (
                "Could you show the index first from now on?",
                &["Could you show the index first from now on?"],
            ),
            (
                "Could we please always open a new page?",
                &["always open a new page"],
            ),
            (
                "Kannst du ab jetzt jede Seite nummerieren?",
                &["ab jetzt jede Seite nummerieren"],
            ),
            (
                "¿Puedes numerar siempre las páginas?",
                &["¿Puedes numerar siempre las páginas?"],
            ),
            (
                "Don't open the index now, okay?",
                &["Don't open the index now, okay?"],
            ),
            (
                "No quiero que el índice se vea nunca, te parece?",
                &["No quiero que el índice se vea nunca, te parece?"],
            ),
            (
                "Keep the index, but add a title to each page.",
                &["Keep the index, but add a title to each page."],
            ),
            (
                "Please don't just restart the printer. Mend the cause of the jam.",
                &["Please don't just restart the printer. Mend the cause of the jam."],
            ),
            (
                "Just print the index. Don't open a window.",
                &["Just print the index. Don't open a window."],
            ),
            ("Print the index. Don't open a window.", &["Don't open a window."]),
        ] {
            assert_eq!(found(text), rules, "{text}");
        }
    }

    #[test]
    fn the_items_of_a_list_have_the_force_of_its_heading() {
        assert_eq!(
            found("7. DO NOT:\n   - Break the API\n   - Invent layers\n\nOutput:\n- The files"),
            ["DO NOT: Break the API", "DO NOT: Invent layers"]
        );
        assert_eq!(
            found("Code style (decided):\n- tabs in every file\n- Add a page\nThat is all."),
            ["tabs in every file"]
        );
        assert_eq!(
            found(
                "Always group the imports:\nlibraries\nown modules\nThe page is slow when it is opened twice."
            ),
            ["Always group the imports: libraries own modules"]
        );
        assert_eq!(
            found("Every hook must return:\n- the data\n- the error\nNever block."),
            ["Every hook must return: the data the error", "Never block."]
        );
        assert_eq!(
            found("Install ONLY the following libraries in the hall:\n- lamp v6\n- door\n\nNever paint."),
            [
                "Install ONLY the following libraries in the hall: lamp v6 door",
                "Never paint."
            ]
        );
        assert_eq!(
            found("- Every hook must return:\n{ data, error }\n- the page is white"),
            ["Every hook must return: { data, error }"]
        );
        let plan = "- Move the page\n".repeat(7);
        assert_eq!(found(&format!("{plan}- Keep the error handling")), [""; 0]);
        assert_eq!(found("- Keep the error handling").len(), 1);
        assert_eq!(
            found("- Should it list the old ones? → No, only the newest.\n- Why is it slow?"),
            ["Should it list the old ones? → No, only the newest."]
        );
    }

    #[test]
    fn the_items_of_a_list_forbid_in_each_language() {
        let request = "Build a page for the library.\n1. No rompas el índice.\n2. Keine neuen Bücher aufnehmen.\n    3. Не трогай обложки.\n\
                       4. Não crie outra página.\n5. Ne déplace pas les livres.\n6. Geen nieuwe kaft.\n7. Sin tocar la caja.\n8. No se ve el título.\n\
                       9. Keine Ahnung.";
        let found = found(request);
        assert_eq!(found.len(), 7, "{found:?}");
        assert!(
            !found
                .iter()
                .any(|rule| rule.contains("título") || rule.contains("Ahnung")),
            "{found:?}"
        );
    }

    #[test]
    fn statements_of_a_long_request_are_rules_by_their_features() {
        let request = "Build a page for the library.\n- The shelf should be shown on the left, with the titles of all its books.\n\
                       - Jedes Buch soll auf einer eigenen Seite stehen.\n- 每本书都应该有封面。\n- We saw two printers in the hall.\n\
                       - Is there a door?";
        assert_eq!(
            found(request),
            [
                "The shelf should be shown on the left, with the titles of all its books.",
                "Jedes Buch soll auf einer eigenen Seite stehen.",
                "每本书都应该有封面。"
            ]
        );
    }

    #[test]
    fn requests_questions_and_descriptions_are_none() {
        for text in [
            "Port the exporter.",
            "Should we never push?",
            "I don't think that it is the parser.",
            "It never returns, and it always fails on CI.",
            "Use tabs in this file, not blanks.",
            "The load balancer probes run every ten seconds.",
            "Keep going.",
            "Now look at the checks.",
            "Commit it, and go on.",
            "I still see the old branch, no commit on it",
            "Yes - commit, push, reply to the comments of the review.",
            "The answer never came, and the counter never updated.",
            "Port the reader, then make sure it passes.",
            "The exporter is fine, but no test was run.",
            "3. but no checkpoint (or a later commit)",
            "It reads as if we begin a new branch always",
            "Wrapping this error would make failures easier to read and keep the messages alike.",
            "The field is set but never used, and the count is never shown to users.",
            "The current one overwrites the value, which may not match the intent.",
            "I'd prefer that.",
            "Now let's say we begin a session, and then don't commit.",
            "After the handoff, state.attributions and state.pending are not cleared.",
            "The old way adds more (and then use of it is not trivial).",
            "This causes the helper to always return 0.",
            "Can you say that we are not always starting a new session?",
            "Could you read it again and make sure it holds?",
            "No I think that it is fine.",
            "You don't see the page in the list, do you.",
            "Don't have the key of that shelf.",
            "We don't get the mail any more.",
            "The cache helps us always have a copy.",
            "Write another one which has no price and is a table.",
            "Ensure we have a key.",
            "Make sure the tests are up to date.",
            "No other changes are needed.",
            "3. We don’t have a cache right now, however big it would be.",
            "我们能不能自动推送",
            "Can you check why it always fails?",
            "Could you tell me whether it always fails?",
            "No funciona.",
            "No hay título en la página.",
            "Não funciona mais.",
            "Не работает.",
            "Peux-tu voir pourquoi rien ne s'affiche jamais ?",
            "Yes please, and comment on all pages of the index.",
            "I like the plan and generally you described the library really well.",
            "Basically the shelf could hold the letters, sealed such that only the owner can open them.",
            "Before you go doing that, we need to get back to the hall and close it.",
            "Every time is a long walk to the library.",
            "Please make sure the pages agree.",
            "Log the new shelf and also make sure to memorize its place and ensure this never happens again.",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}

//! Summary requests in which the agent flattens its transcript into one string.
//!
//! A sentinel of the same conversation cuts that string. Other sentinels and other text stay unchanged.

use std::fs;
use std::path::Path;

use baton_core::rewrite::flattened;
use baton_core::text::splice;
use baton_core::wire::{Operation, WIRES};
use baton_llm::state::config::{Config, TranscriptDetail};
use baton_strict::Reply;
use bytes::Bytes;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::texts::{assert_contains, assert_ends};
use crate::harness::{RawResponse, memory, sqlite, temp};
use crate::matrix::fixture::{Fixture, PROMPT, fresh, handoff};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{Variant, on_every_wire};

/// Recorded requests of real agents, and the expected upstream requests.
#[test]
fn recorded_requests_are_cut() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/summaries");
    let mut count = 0;
    for directory in fs::read_dir(root).unwrap() {
        let directory = directory.unwrap().path();
        let text = |name: &str| fs::read(directory.join(name)).unwrap();
        let about: Value = serde_json::from_slice(&text("about.json")).unwrap();
        let of = |key: &str| about[key].as_str().unwrap();
        let wire = WIRES.iter().find(|w| w.id().name() == of("wire")).unwrap();
        let body = Bytes::from(text("agent.json"));
        let view = wire.read(&body, Operation::Generate).unwrap();
        let flat =
            flattened::find(&view).unwrap_or_else(|| panic!("{} is not recognised", directory.display()));
        let last = flat.sentinels().pop();
        let id = last.map(|last| json!(last.id.to_string()));
        assert_eq!(id.as_ref(), about.get("handoff"), "{}", directory.display());
        let edits = match last {
            Some(last) => flat.cut(&last, of("prompt")),
            None => flat.cut_whole(of("prompt")),
        };
        let sent = splice::flat(splice::splice(&body, edits));
        let sent = String::from_utf8_lossy(&sent).into_owned();
        assert_eq!(
            sent,
            String::from_utf8_lossy(&text("upstream.json")),
            "{}",
            directory.display()
        );
        assert!(!sent.contains("handoff-resume"), "{}", directory.display());
        count += 1;
    }
    assert!(count >= 15, "{count}");
}

/// How an agent flattens its transcript.
#[derive(Clone, Copy)]
struct Agent {
    system: &'static str,
    before: &'static str,
    behind: &'static str,
    gap: &'static str,
    labels: [&'static str; 3],
    /// Text before and after a user message.
    wrapper: [&'static str; 2],
    /// The user message, if the transcript is in the system prompt.
    asks: Option<&'static str>,
}

const PI: Agent = Agent {
    system: "You are a context summarization assistant. Your task is to read a conversation.",
    before: "<conversation>\n",
    behind: "\n</conversation>\n\nThe messages above are a conversation to summarize.",
    gap: "\n\n",
    labels: ["[User]: ", "[Assistant]: ", "[Tool result]: "],
    wrapper: ["", ""],
    asks: None,
};

const OPENCODE: Agent = Agent {
    system: "You are a context summarization agent. You are given a conversation.",
    before: "Here is the conversation so far:\n\n<conversation>\n",
    behind: "\n</conversation>\n\nCreate a new anchored summary.",
    ..PI
};

const GOOSE: Agent = Agent {
    system: "## Task Context\n- An llm context limit was reached when a user was in a working session\n\n\
             **Conversation History:**\n",
    before: "",
    behind: "\n\nWrap reasoning in `<analysis>` tags:",
    gap: "\n",
    labels: ["[user]: ", "[assistant]: ", "[user]: tool_response: "],
    asks: Some("Please summarize the conversation history provided in the system prompt."),
    ..PI
};

const CLINE: Agent = Agent {
    system: "Summarize the provided coding session into a concise continuation note with detailed next steps.",
    before: "Summarize this session for continuation. Be concise and factual.\n\nConversation:\n",
    behind: "",
    labels: ["[User]: ", "[Bot]: ", "[Tool result]: "],
    wrapper: ["<user_input mode=\"act\">", "</user_input>"],
    ..PI
};

const USER: usize = 0;
const MODEL: usize = 1;
const RESULT: usize = 2;

type Section<'a> = (usize, &'a str);

impl Agent {
    /// Formats a message like the agent does.
    fn line(&self, (who, text): &Section<'_>) -> String {
        let [before, behind] = if *who == USER { self.wrapper } else { ["", ""] };
        format!("{}{before}{text}{behind}", self.labels[*who])
    }

    /// Returns a marker that occurs only in the string with the transcript.
    fn marker(&self) -> &'static str {
        if self.behind.is_empty() {
            self.before
        } else {
            self.behind
        }
    }
}

/// Returns the request for a summary of these messages.
fn request(variant: &Variant, agent: Agent, sections: &[Section<'_>]) -> Value {
    let lines: Vec<String> = sections.iter().map(|section| agent.line(section)).collect();
    let flat = format!("{}{}{}", agent.before, lines.join(agent.gap), agent.behind);
    let (system, user) = match agent.asks {
        Some(asks) => (format!("{}{flat}", agent.system), asks.to_owned()),
        None => (agent.system.to_owned(), flat),
    };
    let mut body = (variant.body)(&[(variant.message)("user", &user)], true);
    body.as_object_mut().unwrap().remove("tools");
    set(&mut body, "You are an agent.", &system);
    body
}

/// Replaces a string wherever it occurs.
fn set(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::String(text) if text == old => new.clone_into(text),
        Value::Array(all) => all.iter_mut().for_each(|v| set(v, old, new)),
        Value::Object(all) => all.values_mut().for_each(|v| set(v, old, new)),
        _ => {}
    }
}

struct HandedOver {
    talk: Talk,
    /// Text of the response in which the model handed off.
    text: String,
}

impl HandedOver {
    /// Returns a conversation with one handoff and one later turn.
    async fn new(variant: Variant, session: Option<&'static str>) -> Self {
        Self::on(Fixture::new(variant, []).await, session, handoff()).await
    }

    async fn on(mut stage: Fixture, session: Option<&'static str>, reply: Reply) -> Self {
        if let Some(session) = session {
            stage.variant = stage.variant.in_session(session);
        }
        let mut talk = Talk::opened(stage);
        talk.push(reply);
        let text = talk.says("Go on.", fresh()).await.text;
        Self { talk, text }
    }

    /// The model hands over once more. Returns the text of its response.
    async fn hands_over_again(&mut self) -> String {
        let call = json!({"prompt": "The second."});
        self.talk
            .push(Reply::text("Done, too.").call("session_handoff", call));
        self.talk.says("More.", "Second.").await.text
    }

    /// Returns the messages, flattened.
    fn sections(&self) -> Vec<Section<'_>> {
        let last = (MODEL, &*self.text);
        vec![
            (USER, "Mend the importer."),
            (MODEL, "Looking."),
            (USER, "Go on."),
            last,
        ]
    }

    async fn send(&self, body: Value) -> RawResponse {
        self.talk.push(Reply::text("A summary."));
        let variant = &self.talk.variant;
        let body = body.to_string().into();
        let response = self
            .talk
            .baton
            .post((variant.path)(true), variant.headers, body)
            .await;
        assert_eq!(response.status, 200, "{}", response.text());
        response
    }

    /// Sends a summary request. Returns whether it was cut, and the model's view of the transcript.
    async fn summary(&self, agent: Agent, sections: &[Section<'_>]) -> (bool, String) {
        let response = self.send(request(&self.talk.variant, agent, sections)).await;
        let sent: Value = serde_json::from_slice(&self.talk.last().raw).unwrap();
        let mut found = String::new();
        holding(&sent, agent.marker(), &mut found);
        (response.header("x-baton-handoff").is_some(), found)
    }
}

/// Finds the string that contains this part.
fn holding(value: &Value, part: &str, found: &mut String) {
    match value {
        Value::String(text) if text.contains(part) => text.clone_into(found),
        Value::Array(all) => all.iter().for_each(|v| holding(v, part, found)),
        Value::Object(all) => all.values().for_each(|v| holding(v, part, found)),
        _ => {}
    }
}

/// Returns the text that remains after a cut.
fn cut(agent: Agent, rest: &[Section<'_>]) -> String {
    flat(agent, Some(format!("{}{PROMPT}", agent.labels[USER])), rest)
}

/// Formats these messages, with `first` before them.
fn flat(agent: Agent, first: Option<String>, rest: &[Section<'_>]) -> String {
    let mut lines: Vec<String> = first.into_iter().collect();
    lines.extend(rest.iter().map(|section| agent.line(section)));
    let system = agent.asks.map_or("", |_| agent.system);
    format!(
        "{system}{}{}{}",
        agent.before,
        lines.join(agent.gap),
        agent.behind
    )
}

/// The agents with their session ids. pi and cline send none with a summary request.
const AGENTS: [(Agent, Option<&str>); 4] = [
    (PI, None),
    (OPENCODE, Some("one")),
    (GOOSE, Some("one")),
    (CLINE, None),
];

async fn own_sentinel_cuts(variant: Variant) {
    for (agent, session) in AGENTS {
        let conversation = HandedOver::new(variant, session).await;
        let mut sections = conversation.sections();
        sections.extend([(RESULT, "fn main() {}"), (USER, "More.")]);
        let (pinned, seen) = conversation.summary(agent, &sections).await;
        let rest = [(MODEL, "Fresh."), (RESULT, "fn main() {}"), (USER, "More.")];
        assert_eq!((pinned, seen), (true, cut(agent, &rest)));
        // Only the earlier part, without anything after the sentinel.
        let end = conversation.text.rfind("Fresh.").unwrap();
        let last = (MODEL, conversation.text[..end].trim_end());
        let earlier = [&conversation.sections()[..3], &[last]].concat();
        let (pinned, seen) = conversation.summary(agent, &earlier).await;
        assert_eq!((pinned, seen), (true, cut(agent, &[])));
        conversation.talk.assert_clean();
    }
}

/// Another conversation's handoff, read from a file or pasted, complete or with its labels.
async fn foreign_sentinel_does_not(variant: Variant) {
    for (agent, session) in AGENTS {
        let mut other = HandedOver::new(variant, session.map(|_| "other")).await;
        other.talk.variant = session.map_or(variant, |session| variant.in_session(session));
        let sections = other.sections();
        let quoted: Vec<String> = sections.iter().map(|section| agent.line(section)).collect();
        let labelled = quoted.join(agent.gap);
        for quote in [&other.text, &labelled] {
            for who in [USER, RESULT] {
                let text = format!("What I found:{}{quote}", agent.gap);
                let sections = [
                    (USER, "Read that log."),
                    (MODEL, "Reading."),
                    (who, &*text),
                    (USER, "So?"),
                ];
                let (pinned, seen) = other.summary(agent, &sections).await;
                assert!(!pinned && seen.contains("Read that log."), "{seen}");
            }
        }
    }
}

/// An earlier handoff of the conversation, quoted after a later one.
async fn quoted_sentinel_does_not(variant: Variant) {
    for (agent, session) in AGENTS {
        let mut conversation = HandedOver::new(variant, session).await;
        let second = conversation.hands_over_again().await;
        let quote = format!("My log:\n{}{}", agent.labels[MODEL], conversation.text);
        let mut sections = conversation.sections();
        sections.extend([
            (USER, "More."),
            (MODEL, &*second),
            (RESULT, &*quote),
            (USER, "So?"),
        ]);
        let (pinned, seen) = conversation.summary(agent, &sections).await;
        assert!(pinned, "{seen}");
        let rest = [(MODEL, "Second."), (RESULT, &*quote), (USER, "So?")];
        assert_eq!(seen, cut(agent, &rest).replacen(PROMPT, "The second.", 1));
    }
}

/// A closing line counts only in the sentinel's message and with a seal. The short sentinel has none.
async fn other_closing_lines_close_nothing(variant: Variant) {
    for (agent, session) in AGENTS {
        for transcript in [TranscriptDetail::Full, TranscriptDetail::Sentinel] {
            let change = |config: &mut Config| config.handoff.transcript = transcript;
            let stage = Fixture::with(variant, [], memory(), change).await;
            let conversation = HandedOver::on(stage, session, handoff()).await;
            let closing = "[[/handoff-resume:VR-iunEUwURMLNGuL8sekw]]";
            let log = format!("The log:\n{closing}\nThat was it.");
            let text = &conversation.text;
            let answer = format!("{text} It ends with [[/handoff-resume:SEAL]], mostly.");
            let mut sections = conversation.sections();
            sections.pop();
            let behind = [
                (USER, "More."),
                (MODEL, "Mended."),
                (RESULT, &*log),
                (USER, "So?"),
            ];
            sections.push((MODEL, &*answer));
            sections.extend(behind);
            let (pinned, seen) = conversation.summary(agent, &sections).await;
            let fresh = "Fresh. It ends with [[/handoff-resume:SEAL]], mostly.";
            let rest = [&[(MODEL, fresh)], &behind[..]].concat();
            assert_eq!((pinned, seen), (true, cut(agent, &rest)));
        }
    }
}

/// A carry-over prompt may contain text that looks like the beginning of a message.
async fn a_prompt_with_labels_goes_whole(variant: Variant) {
    for (agent, session) in AGENTS {
        let prompt = format!("Goal: this.{}{}no.\nNext: that.", agent.gap, agent.labels[USER]);
        let reply = Reply::text("Done.").call("session_handoff", json!({"prompt": prompt}));
        let conversation = HandedOver::on(Fixture::new(variant, []).await, session, reply).await;
        let mut sections = conversation.sections();
        sections.push((USER, "More."));
        let (pinned, seen) = conversation.summary(agent, &sections).await;
        let whole = cut(agent, &[(MODEL, "Fresh."), (USER, "More.")]);
        assert_eq!((pinned, seen), (true, whole.replacen(PROMPT, &prompt, 1)));
    }
}

/// The agent compacted earlier, so its text begins in the middle of the conversation.
async fn later_part_is_cut(variant: Variant) {
    let conversation = HandedOver::new(variant, None).await;
    let (pinned, _) = conversation.summary(PI, &conversation.sections()[1..]).await;
    assert!(pinned);
    let (pinned, _) = conversation.summary(PI, &conversation.sections()[2..]).await;
    assert!(pinned);
    let strange = [&[(USER, "Never said.")], &conversation.sections()[1..]].concat();
    let (pinned, _) = conversation.summary(PI, &strange).await;
    assert!(!pinned, "something else stands before it");
}

/// The agent summarizes only the earlier part, and keeps the part with the sentinel unchanged.
///
/// The summarized part is then finished work.
async fn sentinel_in_the_kept_part_cuts(variant: Variant) {
    for (agent, session) in AGENTS {
        let conversation = HandedOver::new(variant, session).await;
        let earlier = &conversation.sections()[..3];
        let (pinned, seen) = conversation.summary(agent, earlier).await;
        assert_eq!((pinned, seen), (true, cut(agent, &[])));
        let strange = [earlier, &[(USER, "Never said before.")]].concat();
        let (pinned, seen) = conversation.summary(agent, &strange).await;
        assert!(!pinned, "{seen}");
        let (pinned, seen) = conversation.summary(agent, &earlier[..1]).await;
        assert!(!pinned, "one text of the user's proves nothing: {seen}");
        conversation.talk.assert_clean();
    }
}

/// The user continues from before the handoff, so the summarized part is not finished.
async fn a_rewound_conversation_is_summarised_whole(variant: Variant) {
    for (agent, session) in AGENTS {
        let mut conversation = HandedOver::new(variant, session).await;
        conversation.talk.history.truncate(2);
        conversation.talk.says("Something else.", "Else.").await;
        let (pinned, seen) = conversation.summary(agent, &conversation.sections()[..3]).await;
        assert!(!pinned, "{seen}");
    }
}

/// The first sentinel is in the summarized part, the second one in the part that the agent keeps.
async fn a_later_sentinel_in_the_kept_part_counts(variant: Variant) {
    for (agent, session) in AGENTS {
        let mut conversation = HandedOver::new(variant, session).await;
        conversation.hands_over_again().await;
        let mut sections = conversation.sections();
        for more in [None, Some((USER, "More."))] {
            sections.extend(more);
            let (pinned, seen) = conversation.summary(agent, &sections).await;
            let second = cut(agent, &[]).replacen(PROMPT, "The second.", 1);
            assert_eq!((pinned, seen), (true, second));
        }
        // Work after both.
        sections.push((MODEL, "Later work."));
        let (pinned, seen) = conversation.summary(agent, &sections).await;
        assert!(
            pinned && seen.contains("Later work.") && seen.contains(PROMPT),
            "{seen}"
        );
    }
}

const BEFORE: [Section<'_>; 4] = [
    (USER, "Mend the importer."),
    (MODEL, "Looking."),
    (USER, "Go on."),
    (MODEL, "Done with that.\n\nFresh."),
];

/// The summary contains the work before a handoff that was undone, and neither its prompt nor the undo.
async fn an_undone_handoff_cuts_nothing(variant: Variant) {
    for (agent, session) in AGENTS {
        let mut conversation = HandedOver::new(variant, session).await;
        let undone = conversation.talk.command("::handoff undo").await;
        let undo = (USER, "::handoff undo");
        let mut sections = vec![undo, (MODEL, &*undone)];
        // An agent may compact immediately, before any other request.
        let whole = [conversation.sections(), sections.clone()].concat();
        let (pinned, seen) = conversation.summary(agent, &whole).await;
        assert_eq!((pinned, seen), (false, flat(agent, None, &BEFORE)));
        conversation.talk.says("Well.", "Whole.").await;
        let more = [(USER, "Well."), (MODEL, "Whole.")];
        sections.extend(more);
        let whole = [conversation.sections(), sections.clone()].concat();
        let (pinned, seen) = conversation.summary(agent, &whole).await;
        let kept = [&BEFORE[..], &more].concat();
        assert_eq!((pinned, seen), (false, flat(agent, None, &kept)));
        let reverted = conversation.talk.command("::handoff undo").await;
        sections.extend([undo, (MODEL, &*reverted)]);
        let whole = [conversation.sections(), sections].concat();
        let (pinned, seen) = conversation.summary(agent, &whole).await;
        let rest = [&[(MODEL, "Fresh.")], &more[..]].concat();
        assert_eq!((pinned, seen), (true, cut(agent, &rest)));
        conversation.talk.assert_clean();
    }
}

/// A summary never contains commands or baton's answers, before a cut, after it, or without one.
async fn commands_leave_the_text(variant: Variant) {
    for (agent, session) in AGENTS {
        let mut conversation = HandedOver::new(variant, session).await;
        let status = conversation.talk.command("::handoff status").await;
        let talk = [
            (USER, "\"::handoff status\""),
            (MODEL, &*status),
            (USER, "More."),
            (USER, "::pins"),
        ];
        let sections = [&talk[..2], &conversation.sections(), &talk].concat();
        let (pinned, seen) = conversation.summary(agent, &sections).await;
        let rest = [(MODEL, "Fresh."), (USER, "More.")];
        assert_eq!((pinned, seen), (true, cut(agent, &rest)));
        let other = [&[(USER, "Never said."), (MODEL, "Indeed.")], &talk[..3]].concat();
        let (pinned, seen) = conversation.summary(agent, &other).await;
        let left = [(USER, "Never said."), (MODEL, "Indeed."), (USER, "More.")];
        assert_eq!((pinned, seen), (false, flat(agent, None, &left)));
        conversation.talk.assert_clean();
    }
}

/// A summary from before the handoff covers finished work as well.
async fn an_earlier_summary_gives_way(variant: Variant) {
    let conversation = HandedOver::new(variant, None).await;
    let agent = Agent {
        behind: "\n</conversation>\n\n<previous-summary>\nThe importer was mended.\n</previous-summary>\n\nUpdate it.",
        ..PI
    };
    for sections in [&conversation.sections()[..3], &conversation.sections()] {
        let body = request(&variant, agent, sections);
        conversation.send(body).await;
        let mut seen = String::new();
        holding(&conversation.talk.last().body, "<previous-summary>", &mut seen);
        assert_contains(&seen, "<previous-summary>\nNone: ");
        assert_ends(&seen, "\n</previous-summary>\n\nUpdate it.");
        assert!(!seen.contains("was mended"), "{seen}");
    }
}

/// Repeats the text in a request that is not a summary request.
async fn ordinary_text_is_not_cut(variant: Variant) {
    let conversation = HandedOver::new(variant, Some("one")).await;
    for (agent, _) in AGENTS {
        let summary = request(&variant, agent, &conversation.sections());
        let mut tooled = summary.clone();
        tooled["tools"] = (variant.body)(&[], true)["tools"].clone();
        let mut unmarked = summary;
        set(&mut unmarked, agent.system, "You are an agent.");
        let bodies = if agent.asks.is_none() {
            vec![tooled, unmarked]
        } else {
            vec![tooled]
        };
        for body in bodies {
            let response = conversation.send(body).await;
            assert_eq!(response.header("x-baton-handoff"), None);
        }
    }
}

/// The store proves which conversation the sentinel belongs to, even after a restart.
async fn restart_keeps_the_proof(variant: Variant) {
    let dir = temp();
    let stage = Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await;
    let mut conversation = HandedOver::on(stage, None, handoff()).await;
    for (sections, rest) in [(4, &[(MODEL, "Fresh.")][..]), (3, &[])] {
        conversation.talk.restart(sqlite(dir.path()));
        let (pinned, seen) = conversation
            .summary(PI, &conversation.sections()[..sections])
            .await;
        assert_eq!((pinned, seen), (true, cut(PI, rest)));
    }
}

on_every_wire! {
    own_sentinel_cuts foreign_sentinel_does_not quoted_sentinel_does_not other_closing_lines_close_nothing
    a_prompt_with_labels_goes_whole later_part_is_cut ordinary_text_is_not_cut restart_keeps_the_proof
    sentinel_in_the_kept_part_cuts a_rewound_conversation_is_summarised_whole a_later_sentinel_in_the_kept_part_counts
    an_earlier_summary_gives_way an_undone_handoff_cuts_nothing commands_leave_the_text;
}

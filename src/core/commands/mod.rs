//! Chat commands: parses a user message that begins with the prefix, and composes the replies. Pure.
//!
//! Depends on words, flags and the changes of a reply, but not on wires, stores or transcripts.

mod pins;
mod reply;
mod status;

pub use pins::{CarriedTexts, pin, pinned_text, pins_listed, unpin};
pub use reply::{CommandReply, ReplySentinel, UndoOutcome};
pub use status::Status;

use crate::record::{NamedTopic, RecordChange, is_topic};
use crate::text::closest::closest_name;
use std::borrow::Cow;

/// A command of the user to baton.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatCommand<'a> {
    /// Shows the model's view, the pins, and work in progress.
    Status,
    /// Undoes a handoff: the last one, or the one with this prefix of an id.
    Undo(Option<&'a str>),
    /// Resumes a handoff by its id, a unique prefix of it, or its line.
    Resume(&'a str),
    /// Pins a string, which every later handoff then carries.
    Pin(&'a str),
    /// Lists the pins.
    Pins,
    /// Removes the pin with this number.
    Unpin(&'a str),
    /// Names the topic of the session's handoffs, or shows it.
    Topic(Option<&'a str>),
    /// Hands over now: the flags and the goal.
    HandOver(&'a str),
    /// Accepts the pending draft, or this document in its place.
    Accept(Option<&'a str>),
    /// Rejects the pending draft.
    Reject,
    /// Cancels the draft in progress.
    Cancel,
    /// Lets a stopped agent continue: until it has used the same budget once more, or this many dollars.
    Go(&'a str),
    /// Stops the agent's own work.
    Stop,
    /// Shows the help.
    Help,
    /// A subcommand of `handoff`, mistyped or with arguments that it does not take: the text after `handoff`.
    Misused(&'a str),
    /// An unknown word.
    Unknown(&'a str),
}

/// Maximum length of a word that counts as a mistyped command, in characters.
const WORD_CHARS: usize = 16;

/// First words of all commands.
const WORDS: [&str; 7] = ["handoff", "pin", "pins", "unpin", "go", "stop", "help"];

/// Maximum number of punctuation characters that may have been a prefix.
const PREFIX_CHARS: usize = 8;

/// Parses a user message as a command.
///
/// `None` without the prefix, or if the prefix is not followed by a single known or short word.
pub fn parse<'a>(text: &'a str, prefix: &str) -> Option<ChatCommand<'a>> {
    let (word, rest) = split(text.trim(), prefix)?;
    let known = WORDS.iter().find(|known| known.eq_ignore_ascii_case(word));
    Some(match known {
        Some(&"handoff") => handoff(rest),
        Some(&"pin") => ChatCommand::Pin(rest),
        Some(&"pins") => ChatCommand::Pins,
        Some(&"help") if rest.is_empty() => ChatCommand::Help,
        Some(&"unpin") => ChatCommand::Unpin(rest),
        Some(&"go") => ChatCommand::Go(rest),
        Some(&"stop") if rest.is_empty() => ChatCommand::Stop,
        // `help` with further words is a sentence to the model.
        Some(_) => return None,
        None => ChatCommand::Unknown(word),
    })
}

/// Removes one pair of quotes around a message, because `opencode run` quotes an argument with blanks.
pub fn unquoted(message: &str) -> Cow<'_, str> {
    let inside = message.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    // Inner quotes are escaped. An unescaped one means two quoted words, which are the user's own.
    let is_one_pair = |inside: &&str| (inside.match_indices('"')).all(|(at, _)| inside[..at].ends_with('\\'));
    match inside.filter(is_one_pair) {
        Some(inside) => Cow::Owned(inside.replace("\\\"", "\"")),
        None => Cow::Borrowed(message),
    }
}

/// Whether a message is a command that baton knows.
pub fn is_command(text: &str, prefix: &str) -> bool {
    parse(text, prefix).is_some_and(|command| !matches!(command, ChatCommand::Unknown(_)))
}

/// Whether a message that baton answered is a command, or was one under another prefix.
pub fn is_or_was_command(text: &str, prefix: &str) -> bool {
    let text = text.trim();
    if parse(text, prefix).is_some() {
        return true;
    }
    // The transcript may be older than the configured prefix.
    let word = text.trim_start_matches(|c: char| c.is_ascii_punctuation());
    let before = text.len() - word.len();
    let named = |known: &&str| {
        // `get`, because the length may fall inside a character.
        let rest = word.get(known.len()..);
        word.get(..known.len())
            .is_some_and(|w| w.eq_ignore_ascii_case(known))
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    (1..=PREFIX_CHARS).contains(&before) && WORDS.iter().any(named)
}

/// Splits a message into the word after the prefix, and the rest.
fn split<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    // An empty prefix switches commands off.
    let after = text.strip_prefix(prefix).filter(|_| !prefix.is_empty())?;
    let end = after.find(char::is_whitespace).unwrap_or(after.len());
    let (word, rest) = after.split_at(end);
    // Any other text after the prefix is for the model, such as `::1` or a path.
    let is_word = (1..=WORD_CHARS).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_alphabetic());
    is_word.then_some((word, rest.trim()))
}

/// Subcommands of `handoff`.
const SUBCOMMANDS: [&str; 9] = [
    "status", "undo", "resume", "topic", "accept", "edit", "reject", "cancel", "help",
];

/// Parses the part after `handoff`.
///
/// Anything that does not begin with the word of a command is the goal of a handoff, but for a single word that resembles one.
fn handoff(rest: &str) -> ChatCommand<'_> {
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (word, argument) = rest.split_at(end);
    let argument = argument.trim();
    let alone = argument.is_empty();
    let is_word = !argument.contains(char::is_whitespace);
    match word.to_ascii_lowercase().as_str() {
        "status" if alone => ChatCommand::Status,
        "undo" if is_word => ChatCommand::Undo((!alone).then_some(argument)),
        "resume" if is_word => ChatCommand::Resume(argument),
        "topic" if is_word => ChatCommand::Topic((!alone).then_some(argument)),
        "accept" if alone => ChatCommand::Accept(None),
        "edit" if !alone => ChatCommand::Accept(Some(argument)),
        "reject" if alone => ChatCommand::Reject,
        "cancel" if alone => ChatCommand::Cancel,
        "help" if alone => ChatCommand::Help,
        // A handoff costs a request and cuts the history, so it is not made by a mistyped subcommand.
        "pins" | "unpin" => ChatCommand::Misused(rest),
        word if SUBCOMMANDS.contains(&word) => ChatCommand::Misused(rest),
        // Goals begin with these words: "stop mocking the store".
        "pin" | "go" | "stop" if alone => ChatCommand::Misused(rest),
        word if alone && closest_name(word, SUBCOMMANDS).is_some() => ChatCommand::Misused(rest),
        _ => ChatCommand::HandOver(rest),
    }
}

/// Replies to a subcommand of `handoff` that is mistyped or has arguments that it does not take. `rest` is the text
/// after `handoff`.
pub fn misused(prefix: &str, rest: &str) -> String {
    let word = rest.split_whitespace().next().unwrap_or_default();
    let name = |usage: &'static str| {
        let usage = usage.strip_prefix("handoff ").unwrap_or(usage);
        usage.split(' ').next().unwrap_or_default()
    };
    let meant = closest_name(word, COMMANDS.map(|(usage, _)| name(usage)));
    let meant = COMMANDS.iter().find(|(usage, _)| Some(name(usage)) == meant);
    let (usage, does) = meant.unwrap_or(&("help", "the list of commands"));
    format!(
        "nothing was done: the command is `{prefix}{usage}` ({does}). \
         For a goal that begins with \"{word}\", write `{prefix}handoff -- GOAL`."
    )
}

/// Names the topic, or shows the present one. `declared` is the topic that the request declares.
pub fn topic(
    name: Option<&str>,
    present: Option<&str>,
    declared: Option<&str>,
    prefix: &str,
) -> CommandReply {
    match name {
        Some(name) => named(name, declared),
        None => CommandReply::new(match present {
            Some(topic) => format!("the topic of this session's handoffs is {topic}."),
            None => format!(
                "no topic is named: handoffs of this session supersede only each other, unless `handoff.topic` is set. \
                 `{prefix}handoff topic NAME` names one."
            ),
        }),
    }
}

fn named(name: &str, declared: Option<&str>) -> CommandReply {
    if !is_topic(name) {
        let why = "nothing was changed: a topic has up to 64 letters, digits, dots, `_` and `-`.";
        return CommandReply::new(why);
    }
    let topic = NamedTopic {
        name: name.to_owned(),
        declared: declared.map(str::to_owned),
    };
    let text = format!(
        "the topic of this session's handoffs is {name}. The newest handoff of a repository, branch and topic \
         supersedes the one before."
    );
    CommandReply::changing(RecordChange::Topic(topic), text)
}

/// Commands with their descriptions.
const COMMANDS: [(&str, &str); 15] = [
    (
        "handoff [GOAL]",
        "hand over now: the model writes what the next context has to know",
    ),
    ("handoff accept", "accept the pending draft: it takes effect now"),
    ("handoff edit TEXT", "accept TEXT in place of the pending draft"),
    ("handoff reject", "reject the pending draft"),
    ("handoff cancel", "cancel the handoff that is being written"),
    ("handoff status", "what the model sees now, and what is pinned"),
    (
        "handoff undo [ID]",
        "undo the last handoff, or that one; the same command again reverts it",
    ),
    ("handoff resume ID", "continue from that handoff"),
    (
        "handoff topic [NAME]",
        "the topic of this session's handoffs; with NAME, a new one",
    ),
    (
        "go [DOLLARS]",
        "let a stopped agent continue: with as much again, or for DOLLARS more",
    ),
    (
        "stop",
        "stop the agent and its subagents, until you let them continue",
    ),
    ("help", "this list"),
    ("pin TEXT", "every later handoff carries TEXT, word for word"),
    ("pins", "what later handoffs carry: pins, and rules that you gave"),
    ("unpin N", "no longer carry number N of them"),
];

/// Replies to a word that is not a command, with the command that it resembles.
pub fn unknown(prefix: &str, word: &str) -> String {
    let tip = match closest_name(word, WORDS) {
        Some(meant) => format!("Did you mean `{prefix}{meant}`?"),
        None => format!("`{prefix}help` lists the commands."),
    };
    format!("there is no command `{prefix}{word}`, so nothing was sent to the model. {tip}")
}

/// Lists all commands with this prefix.
pub fn help(prefix: &str) -> String {
    let mut all = "the commands, none of which the model ever sees:\n".to_owned();
    let flags = format!("\n\n    {prefix}handoff takes {}", crate::handoffs::draft::FLAGS);
    for (command, does) in COMMANDS {
        let command = format!("{prefix}{command}");
        all.push_str(&format!("\n    {command:<22} {does}"));
    }
    all.push_str(&flags);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_distinguished_from_other_texts() {
        for (text, command) in [
            ("::handoff status", Some(ChatCommand::Status)),
            ("  ::handoff  STATUS \n", Some(ChatCommand::Status)),
            ("::handoff undo", Some(ChatCommand::Undo(None))),
            (
                "::handoff undo 0199a3c2",
                Some(ChatCommand::Undo(Some("0199a3c2"))),
            ),
            (
                "::handoff resume 0199a3c2-7d1e",
                Some(ChatCommand::Resume("0199a3c2-7d1e")),
            ),
            ("::handoff help", Some(ChatCommand::Help)),
            ("::handoff", Some(ChatCommand::HandOver(""))),
            ("::handoff cancel", Some(ChatCommand::Cancel)),
            ("::handoff topic", Some(ChatCommand::Topic(None))),
            (
                "::handoff topic importer",
                Some(ChatCommand::Topic(Some("importer"))),
            ),
            ("::handoff accept", Some(ChatCommand::Accept(None))),
            (
                "::handoff edit # Goal\nIt.",
                Some(ChatCommand::Accept(Some("# Goal\nIt."))),
            ),
            ("::handoff reject", Some(ChatCommand::Reject)),
            (
                "::handoff --no-git the tests",
                Some(ChatCommand::HandOver("--no-git the tests")),
            ),
            (
                "::handoff -- status of the tests",
                Some(ChatCommand::HandOver("-- status of the tests")),
            ),
            (
                "::handoff stop mocking the store",
                Some(ChatCommand::HandOver("stop mocking the store")),
            ),
            ("::handoff release", Some(ChatCommand::HandOver("release"))),
            (
                "::handoff staus of the tests",
                Some(ChatCommand::HandOver("staus of the tests")),
            ),
            (
                "::pin Never touch\nthe schema.",
                Some(ChatCommand::Pin("Never touch\nthe schema.")),
            ),
            ("::Pins", Some(ChatCommand::Pins)),
            ("::go", Some(ChatCommand::Go(""))),
            ("::go 10", Some(ChatCommand::Go("10"))),
            ("::stop", Some(ChatCommand::Stop)),
            ("::stop it", None),
            ("::unpin 2", Some(ChatCommand::Unpin("2"))),
            ("::pni x", Some(ChatCommand::Unknown("pni"))),
            (":: pin x", None),
            ("::std::vector is slow", None),
            ("::before { color: red }", Some(ChatCommand::Unknown("before"))),
            ("::", None),
            ("see ::pin", None),
            (":pin x", None),
            ("", None),
        ] {
            assert_eq!(parse(text, "::"), command, "{text:?}");
        }
        assert_eq!(parse("!!pins", "!!"), Some(ChatCommand::Pins));
        assert_eq!(parse("::pins", ""), None, "switched off");
        assert_eq!(parse("pins", ""), None);
    }

    #[test]
    fn a_misused_subcommand_hands_nothing_over() {
        for (rest, usage) in [
            ("status please", "`::handoff status`"),
            ("Status of\nthe tests", "`::handoff status`"),
            ("undo the last one", "`::handoff undo [ID]`"),
            ("resume the work", "`::handoff resume ID`"),
            ("topic my topic", "`::handoff topic [NAME]`"),
            ("accept it", "`::handoff accept`"),
            ("edit", "`::handoff edit TEXT`"),
            ("reject that", "`::handoff reject`"),
            ("cancel that", "`::handoff cancel`"),
            ("help me", "`::help`"),
            ("pins", "`::pins`"),
            ("pins now", "`::pins`"),
            ("unpin 2", "`::unpin N`"),
            ("pin", "`::pin TEXT`"),
            ("go", "`::go [DOLLARS]`"),
            ("stop", "`::stop`"),
            ("staus", "`::handoff status`"),
            ("Cancle", "`::handoff cancel`"),
            ("undoo", "`::handoff undo [ID]`"),
        ] {
            let text = format!("::handoff {rest}");
            assert_eq!(parse(&text, "::"), Some(ChatCommand::Misused(rest)), "{rest}");
            let reply = misused("::", rest);
            assert!(reply.starts_with("nothing was done"), "{reply}");
            assert!(
                reply.contains(usage) && reply.contains("`::handoff -- GOAL`"),
                "{reply}"
            );
        }
    }

    #[test]
    fn a_message_in_one_pair_of_quotes_is_the_text_in_it() {
        for (message, text) in [
            (r#""::handoff status""#, "::handoff status"),
            (r#""::pin Say \"no\".""#, r#"::pin Say "no"."#),
            (r#""::pin a" and "b""#, r#""::pin a" and "b""#),
            (r#"""#, r#"""#),
            (r#"::pin "a""#, r#"::pin "a""#),
        ] {
            assert_eq!(unquoted(message), text, "{message}");
        }
    }

    #[test]
    fn a_command_of_another_prefix_is_known_again() {
        for (text, was) in [
            ("::pin x", true),
            ("!!pin x", true),
            ("/handoff\nfocus", true),
            ("pin x", false),
            ("!!pinned x", false),
            ("See !!pin", false),
            ("!!!!!!!!!!pin", false),
        ] {
            assert_eq!(is_or_was_command(text, "::"), was, "{text}");
        }
    }

    #[test]
    fn only_a_plain_word_names_a_topic() {
        let change = |name| named(name, Some("a")).change;
        let expected = NamedTopic {
            name: "importer".to_owned(),
            declared: Some("a".to_owned()),
        };
        assert_eq!(change("importer"), Some(RecordChange::Topic(expected)));
        assert_eq!(change("a/b"), None);
        assert!(named("a/b", None).text.starts_with("nothing was changed"));
    }
}

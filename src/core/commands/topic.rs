//! The `topic` command, which names the topic of a session's handoffs.

use super::CommandReply;
use crate::record::{NamedTopic, RecordChange, is_topic};

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
    CommandReply {
        change: Some(RecordChange::Topic(NamedTopic {
            name: name.to_owned(),
            declared: declared.map(str::to_owned),
        })),
        ..CommandReply::new(format!(
            "the topic of this session's handoffs is {name}. The newest handoff of a repository, branch and topic \
             supersedes the one before."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! Reasons why a request does not get the tool, in one table for the response header, the log, the journal
//! and the page.

use serde::{Deserialize, Serialize};

use crate::tools::NAMES;
use crate::wire::view::{ToolChoice, UnreadReason, View};

macro_rules! reasons {
    ($($id:ident = $name:literal, $about:literal;)*) => {
        /// Reason why a request is sent without the tool.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the table says it")]
        pub enum ToolOmission {
            $(#[serde(rename = $name)] $id,)*
        }

        impl ToolOmission {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$id),*];

            /// Name of the reason: the value of `x-baton-untooled`, and of `untooled` in the log and the
            /// journal.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$id => $name,)*
                }
            }

            /// Words for the reason, as the second half of a sentence that begins with "No tool was offered:
            /// ".
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$id => $about,)*
                }
            }
        }
    };
}

reasons! {
    NoClientTools = "no_client_tools", "the request lists no tools that the agent itself runs";
    TooManyTools = "too_many_tools", "the request lists as many tools as providers accept";
    NameTaken = "name_taken", "the agent has a tool named session_handoff itself";
    AgentResets = "agent_resets", "the agent has a tool of its own that starts the context anew";
    ToolChoice = "tool_choice", "the request sets which tool is called, or that none is";
    StructuredOutput = "structured_output", "the output is bound to a format, which a sentinel would break";
    ManyChoices = "many_choices", "the request asks for more than one answer at once";
    SmallOutput = "small_output", "the request's output limit is too small for a call (1,024 tokens)";
    ServerSideHistory = "provider_held", "the provider holds the conversation, or runs the request in the background";
    Summary = "summary", "the request is a summary or another side call";
    CountProbe = "count_probe", "the request counts only tools, without a conversation, so a tool of baton's would be counted as one of them";
    BoundHistory = "bound_history", "the conversation began without the tool, and its thinking is bound to that; a new session gets the tool";
    PrefixRefused = "prefix_refused", "the provider refused the history with the tool, and accepted it without";
    OffByHeader = "off_by_header", "the request has the header x-baton-handoff: off";
    Shadow = "shadow", "handoff.inject is \"shadow\" in the config: everything is relayed as it is";
    OffByConfig = "off_by_config", "handoff.inject is \"never\" in the config, or handoff.max_chain is 1";
    StoreDown = "store_down", "the store cannot be read or written";
    UnreadCoding = "unread_coding", "the body's compression is unknown or broken, so it is relayed unchanged";
    UnreadJson = "unread_json", "the body is not JSON, so it is relayed unchanged";
    UnreadShape = "unread_shape", "the body does not have the API's shape, so it is relayed unchanged";
    UnreadRepeatedKey = "unread_repeated_key", "a key occurs twice in the body, so it is relayed unchanged";
    Signed = "signed", "the body is signed or has a digest, or is of an API that is not read, so it is relayed unchanged";
}

impl From<UnreadReason> for ToolOmission {
    fn from(why: UnreadReason) -> Self {
        match why {
            UnreadReason::NotJson(_) => Self::UnreadJson,
            UnreadReason::OtherShape => Self::UnreadShape,
            UnreadReason::RepeatedKey => Self::UnreadRepeatedKey,
        }
    }
}

/// Maximum number of tools that any known provider accepts.
const MAX_TOOLS: usize = 127;

/// Reason why this request, by itself, should not get the tool.
pub fn unfit(view: &View) -> Option<ToolOmission> {
    let f = &view.facts;
    let full = view.tools.is_some_and(|t| t.count >= MAX_TOOLS);
    // Only the first reason is reported. Without room for the tool, no other one matters.
    no_room(view)
        .or(full.then_some(ToolOmission::TooManyTools))
        .or((f.choice != ToolChoice::Auto).then_some(ToolOmission::ToolChoice))
        .or(f.structured.then_some(ToolOmission::StructuredOutput))
        .or(f.cramped.then_some(ToolOmission::SmallOutput))
        .or(f.summary.then_some(ToolOmission::Summary))
        .or(f.begins_branch.then_some(ToolOmission::ServerSideHistory))
}

/// Whether there is room for all of baton's tools.
pub fn has_room_for_all(view: &View) -> bool {
    view.tools
        .is_some_and(|tools| tools.count + NAMES.len() <= MAX_TOOLS)
}

/// Reason why the tool cannot be added at all.
pub fn no_room(view: &View) -> Option<ToolOmission> {
    match view.tools {
        Some(tools) if tools.taken => Some(ToolOmission::NameTaken),
        Some(tools) if tools.client => match &view.facts {
            facts if facts.server_side => Some(ToolOmission::ServerSideHistory),
            facts if facts.many => Some(ToolOmission::ManyChoices),
            _ => None,
        },
        _ => Some(ToolOmission::NoClientTools),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_of_its_own_that_a_header_can_carry() {
        for reason in ToolOmission::ALL {
            let stored = serde_json::to_string(reason).unwrap();
            assert_eq!(stored, format!("{:?}", reason.name()));
            assert_eq!(serde_json::from_str::<ToolOmission>(&stored).unwrap(), *reason);
            assert!(reason.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            assert!(!reason.about().ends_with('.'));
        }
    }

    #[test]
    fn the_documentation_has_every_reason_as_it_is() {
        let page = include_str!("../../../docs/troubleshooting.md");
        for reason in ToolOmission::ALL {
            let row = format!("* `{}`: {}\n", reason.name(), reason.about());
            assert!(page.contains(&row), "{row}");
        }
    }
}

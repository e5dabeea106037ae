//! Rules, and their violations by a client.

use std::fmt;

use super::api::Wire;

/// Rules that requests are checked against. Those marked *own* are stricter than the real APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The body is JSON.
    Json,
    /// No object of the body has a key twice (*own*: real parsers silently keep the last one).
    RepeatedKey,
    /// Required fields and headers are present and have the right type.
    Required,
    /// The transcript is not empty.
    NoMessages,
    /// The first message is the user's (Anthropic).
    FirstRole,
    /// The API knows every role.
    Role,
    /// No message has empty content.
    EmptyContent,
    /// No text block is empty or only whitespace (Anthropic).
    BlankText,
    /// Every block, part, item or tool has a type that the API knows in its position.
    BlockType,
    /// Every tool call is answered in the next message.
    Unanswered,
    /// Every tool result answers a call of the previous message.
    OrphanResult,
    /// Tool results come before anything else in their message (Anthropic).
    ResultOrder,
    /// No call is answered twice.
    RepeatedResult,
    /// Call ids are unique.
    RepeatedCall,
    /// There are at most four `cache_control` breakpoints (Anthropic).
    CacheMarks,
    /// An assistant turn does not end in thinking (Anthropic).
    EndsInThinking,
    /// The last message is not the assistant's (Anthropic).
    Prefill,
    /// Tool names are unique.
    RepeatedTool,
    /// The number of tools is within the API's limit.
    TooManyTools,
    /// Calls in the history use tools that the request offers (*own*).
    UnknownTool,
    /// There is no forced tool choice while thinking, and none at all for models that never accept one
    /// (Anthropic).
    ForcedChoice,
    /// The API version exists, and supports everything in the request (Anthropic).
    Version,
    /// A tool choice comes with tools.
    ChoiceWithoutTools,
    /// The output limit exceeds the thinking budget (Anthropic).
    ThinkingRoom,
    /// Thinking blocks follow their original prefix (Anthropic).
    Binding,
    /// Signed or encrypted thinking comes from this provider (Anthropic, Responses, Gemini). Ignore this rule
    /// to send recorded histories.
    ForeignThinking,
    /// Reasoning follows its original prefix: system, tools, earlier items (Responses, Gemini). The real APIs
    /// silently drop other reasoning, so the request is still answered.
    ReasoningPrefix,
    /// A returned reply follows its original prefix (*own*, and only on request: real APIs accept a different
    /// prefix, and read it without their cache).
    Prefix,
    /// The transcript contains no chat command and no note of a proxy (*own*).
    ProxyText,
    /// A summary signed by the provider is the first block, the only one of its kind, and unchanged
    /// (Anthropic).
    CompactionPlace,
    /// A reasoning item is followed by its original successor (Responses).
    LoneReasoning,
    /// An item that was produced after reasoning is returned together with it (Responses).
    MissingReasoning,
    /// Item ids are short, have the prefix of their type, and contain no unusual characters (Responses).
    ItemId,
    /// No item id occurs twice (Responses).
    RepeatedItem,
    /// Items that are sent only by id are stored (Responses).
    UnknownItem,
    /// `previous_response_id` and `conversation` refer to something that the provider stores (Responses).
    UnknownResponse,
    /// Fields that exclude each other are not sent together (Responses, Gemini).
    Conflict,
    /// `include` lists only values that the API knows (Responses).
    Include,
    /// The token and the account of a sign-in are present (ChatGPT's server).
    SignIn,
    /// No parameter is one that the server refuses, and parameters with only one valid value have it
    /// (ChatGPT's server).
    Parameter,
    /// The schema of a tool with `strict` lists all its properties as required, and allows no others (Responses).
    StrictSchema,
    /// A turn with calls follows a user turn or results (Gemini).
    CallPlace,
    /// The first call of each step of the current turn has its own thought signature (Gemini).
    Signature,
    /// A request that continues another one offers the same tools (*own*: the real APIs lose their cache, and refuse
    /// or drop thinking that is bound to its prefix).
    ToolsChanged,
    /// The script has a reply for every request: a violation is a mistake of the test, not of the client.
    Script,
}

impl Rule {
    /// Whether a violation of this rule is refused. Violations of other rules are only recorded.
    pub fn refuses(self) -> bool {
        !matches!(
            self,
            Rule::ReasoningPrefix | Rule::Prefix | Rule::ProxyText | Rule::ToolsChanged
        )
    }

    /// HTTP status of the refusal.
    pub(crate) fn status(self) -> u16 {
        match self {
            Rule::UnknownItem | Rule::UnknownResponse => 404,
            Rule::SignIn => 401,
            _ => 400,
        }
    }
}

/// A violation of a rule by a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Number of the request, as in [`Received::number`](super::Received::number).
    pub request: usize,
    /// Wire of the request.
    pub wire: Wire,
    /// Violated rule.
    pub rule: Rule,
    /// Message in the wording of the API, with the position in the request.
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "request {} ({}) breaks {:?}: {}",
            self.request, self.wire, self.rule, self.message
        )
    }
}

/// Violations of one request.
pub(crate) struct Findings<'a> {
    ignored: &'a [Rule],
    /// Rule and message, in the order found. The first one becomes the client's error.
    pub(crate) list: Vec<(Rule, String)>,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(ignored: &'a [Rule]) -> Self {
        Findings {
            ignored,
            list: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, rule: Rule, message: impl Into<String>) {
        if !self.ignored.contains(&rule) {
            self.list.push((rule, message.into()));
        }
    }
}

//! Rules, and their violations by a client.

use std::fmt;

use super::api::Wire;

/// The rules that requests are checked against. Those marked *own* are stricter than the real APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The body is JSON.
    Json,
    /// No object of the body has a key twice (*own*: real parsers keep the last one silently).
    RepeatedKey,
    /// A required field or header is there and has the right type.
    Required,
    /// The transcript is not empty.
    NoMessages,
    /// The first message is the user's (Anthropic).
    FirstRole,
    /// Every role is one that the API knows.
    Role,
    /// No message has empty content.
    EmptyContent,
    /// No text block is empty or only whitespace (Anthropic).
    BlankText,
    /// Every block, part, item or tool has a type that the API knows in that place.
    BlockType,
    /// Every tool call is answered at once.
    Unanswered,
    /// Every tool result answers a call of the message before.
    OrphanResult,
    /// Tool results come before anything else in their message (Anthropic).
    ResultOrder,
    /// No call is answered twice.
    RepeatedResult,
    /// Call ids are unique.
    RepeatedCall,
    /// At most four `cache_control` marks (Anthropic).
    CacheMarks,
    /// An assistant turn does not end in thinking (Anthropic).
    EndsInThinking,
    /// The last message is not the assistant's (Anthropic).
    Prefill,
    /// Tool names are unique.
    RepeatedTool,
    /// The number of tools is within the API's limit.
    TooManyTools,
    /// Calls in the history name tools that the request offers (*own*).
    UnknownTool,
    /// No forced tool choice while thinking, and none for models that never take one (Anthropic).
    ForcedChoice,
    /// The API has this version, and the version has everything that the request holds (Anthropic).
    Version,
    /// A tool choice comes with tools.
    ChoiceWithoutTools,
    /// The room for output is larger than the room for thinking (Anthropic).
    ThinkingRoom,
    /// Thinking blocks follow the prefix that they were produced after (Anthropic).
    Binding,
    /// Signed or encrypted thinking was produced by this provider (Anthropic, Responses, Gemini). Ignore this rule to
    /// send recorded histories.
    ForeignThinking,
    /// Reasoning follows the prefix that it was produced after: system, tools, earlier items (Responses, Gemini).
    /// The real APIs drop other reasoning silently, so the request is still answered.
    ReasoningPrefix,
    /// The prefix of a reply is before it when it comes back (*own*, and only where it is requested: real APIs take
    /// another prefix, and read it without their cache).
    Prefix,
    /// No command in the chat and no note of a proxy in between is in the transcript (*own*).
    ProxyText,
    /// A summary that the provider signed is the first block, the only one of its kind, and as it was returned
    /// (Anthropic).
    CompactionPlace,
    /// A reasoning item is followed by the item that was produced after it (Responses).
    LoneReasoning,
    /// An item that was produced after reasoning comes back with it (Responses).
    MissingReasoning,
    /// Item ids are short, have the prefix of their type, and hold no odd characters (Responses).
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
    /// The token and the account of a sign-in are there (ChatGPT's server).
    SignIn,
    /// No parameter is there that the server refuses, and those with one possible value have it (ChatGPT's server).
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

/// Collects the violations of one request.
pub(crate) struct Findings<'a> {
    ignored: &'a [Rule],
    /// Rule and message, in the order found; the first one becomes the error the client gets.
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

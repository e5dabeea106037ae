//! Wordings of agents' requests for a summary of a flattened transcript, as a table.

/// An agent's wording of summary requests, as seen on the wire of the named versions.
pub(super) struct Wording {
    /// The agent and its version.
    #[allow(dead_code, reason = "what the row is about")]
    agent: &'static str,
    /// Prefix of a string in the request, usually in the system prompt.
    pub(super) marker: &'static str,
    /// Beginning of the string with the transcript.
    pub(super) begins: &'static str,
    /// Text right before the transcript.
    pub(super) before: &'static str,
    /// Text right after the transcript.
    pub(super) after: &'static str,
    /// Separator between two messages.
    pub(super) gap: &'static str,
    /// Label of a user message.
    pub(super) user: &'static str,
    /// Label of a model message.
    pub(super) assistant: &'static str,
    /// Labels of tool results.
    pub(super) results: &'static [&'static str],
    /// Labels of text that differs from the agent's requests, or appears only sometimes.
    pub(super) others: &'static [&'static str],
    /// Wrapper around the user's text, which the agent's other requests do not have: an opening tag up to its
    /// `>`, and the closing tag.
    pub(super) wrapper: Option<(&'static str, &'static str)>,
}

const PI: Wording = Wording {
    agent: "pi 0.87",
    marker: "You are a context summarization assistant.",
    begins: "<conversation>\n",
    before: "<conversation>\n",
    after: "\n</conversation>\n\n",
    gap: "\n\n",
    user: "[User]: ",
    assistant: "[Assistant]: ",
    results: &["[Tool result]: "],
    others: &["[Assistant thinking]: ", "[Assistant tool calls]: "],
    wrapper: None,
};

pub(super) const WORDINGS: &[Wording] = &[
    PI,
    Wording {
        agent: "pi 0.87, the first part of a turn",
        begins: "# Conversation\n",
        before: "# Conversation\n",
        after: "\n\n# Instructions\n",
        ..PI
    },
    Wording {
        agent: "opencode 1.18",
        marker: "You are a context summarization agent.",
        begins: "Here is the conversation so far:\n\n<conversation>\n",
        before: "<conversation>\n",
        after: "\n</conversation>\n\n",
        gap: "\n\n",
        user: "[User]: ",
        assistant: "[Assistant]: ",
        results: &["[Tool result]: ", "[Tool error]: "],
        others: &[
            "[Assistant reasoning]: ",
            "[Assistant tool call]: ",
            "[System update]: ",
            "[Synthetic context]: ",
            "[Shell]: ",
        ],
        wrapper: None,
    },
    Wording {
        agent: "goose 1.34",
        marker: "## Task Context\n- An llm context limit was reached",
        begins: "## Task Context\n- An llm context limit was reached",
        before: "\n**Conversation History:**\n",
        after: "\n\nWrap reasoning in `<analysis>` tags",
        gap: "\n",
        user: "[user]: ",
        assistant: "[assistant]: ",
        results: &["[user]: tool_response: "],
        others: &["[assistant]: tool_request("],
        wrapper: None,
    },
    Wording {
        agent: "cline 3.0.65",
        marker: "Summarize the provided coding session",
        begins: "Summarize this session for continuation.",
        before: "\n\nConversation:\n",
        after: "",
        gap: "\n\n",
        user: "[User]: ",
        assistant: "[Bot]: ",
        results: &["[Tool result]:"],
        others: &["[Bot tool calls]: "],
        wrapper: Some(("<user_input ", "</user_input>")),
    },
];

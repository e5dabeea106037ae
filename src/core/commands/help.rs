//! Help of the chat commands, which also answers a mistyped command.

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

/// Replies to a word that is not a command. `meant` is the command that it resembles.
pub fn unknown(prefix: &str, word: &str, meant: Option<&str>) -> String {
    let tip = match meant {
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

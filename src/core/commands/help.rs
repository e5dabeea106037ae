//! Help text of the chat commands, also shown for a mistyped command.

/// The commands, each with what it does.
const COMMANDS: [(&str, &str); 12] = [
    (
        "handoff [FOCUS]",
        "hand over now: the model writes what the next context has to know",
    ),
    (
        "handoff accept",
        "yes to the draft that waits: it takes effect now",
    ),
    ("handoff edit TEXT", "the same with TEXT in its place"),
    ("handoff reject", "no to the draft that waits"),
    ("handoff cancel", "the handoff that is being written is not made"),
    ("handoff status", "what the model sees now, and what is pinned"),
    (
        "handoff undo [ID]",
        "back to before the last handoff, or before that one; once more takes it back",
    ),
    ("handoff resume ID", "from here on the model knows that handoff"),
    ("handoff help", "this list"),
    ("pin TEXT", "every later handoff carries TEXT, word for word"),
    ("pins", "the pinned texts"),
    ("unpin N", "the pinned text number N goes"),
];

/// All commands, under this prefix; `unknown`: a word that is none.
pub fn help(prefix: &str, unknown: Option<&str>) -> String {
    let mut all = match unknown {
        Some(word) => format!(
            "there is no command `{prefix}{word}`, so nothing was sent to the model. To send such a text, begin it with \
             another character. The commands:\n"
        ),
        None => "the commands, none of which the model ever sees:\n".to_owned(),
    };
    let flags = format!("\n\n    {prefix}handoff takes {}", crate::handoffs::draft::FLAGS);
    for (command, does) in COMMANDS {
        let command = format!("{prefix}{command}");
        all.push_str(&format!("\n    {command:<22} {does}"));
    }
    all.push_str(&flags);
    all
}

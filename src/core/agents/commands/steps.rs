//! Splits a shell line into its commands.

/// Operator between a command and the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandJoint {
    /// `&&`
    And,
    /// `;`, or a new line
    Then,
    /// `|`: the next command reads the output of this one.
    Pipe,
    /// `&`: the line does not wait for the command.
    Background,
    /// `||`, or a here-document: the code belongs to another command.
    Other,
    /// The end of the line.
    End,
}

/// Splits a line into commands, each with the operator after it. Quotes are skipped and comments dropped. A
/// here-document ends the line.
pub(super) fn steps(line: &str) -> Vec<(&str, CommandJoint)> {
    let bytes = line.as_bytes();
    let mut out = Vec::new();
    let (mut start, mut at, mut quote) = (0, 0, None);
    let mut push = |from: usize, to: usize, joint| {
        if !line[from..to].trim().is_empty() {
            out.push((&line[from..to], joint));
        }
    };
    while at < bytes.len() {
        let (b, next) = (bytes[at], bytes.get(at + 1).copied());
        let (joint, len) = match (quote, b, next) {
            (Some(open), ..) => {
                quote = (b != open).then_some(open);
                at += if b == b'\\' && open == b'"' { 2 } else { 1 };
                continue;
            }
            (None, b'\'' | b'"', _) => {
                quote = Some(b);
                at += 1;
                continue;
            }
            (_, b'\\', _) => {
                at += 2;
                continue;
            }
            // A comment reaches to the end of its line.
            (_, b'#', _) if at == start || bytes[at - 1].is_ascii_whitespace() => {
                push(start, at, CommandJoint::Then);
                at += memchr::memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at);
                start = at;
                continue;
            }
            // The text of a here-document is not a command, and its end is not searched for.
            (_, b'<', Some(b'<')) => {
                push(start, at, CommandJoint::Other);
                return out;
            }
            (_, b'&', Some(b'&')) => (CommandJoint::And, 2),
            (_, b'|', Some(b'|')) => (CommandJoint::Other, 2),
            (_, b'|', Some(b'&')) => (CommandJoint::Pipe, 2),
            (_, b'|', _) => (CommandJoint::Pipe, 1),
            // `2>&1`, `&>`
            (_, b'&', _) if at > 0 && bytes[at - 1] == b'>' || next == Some(b'>') => {
                at += 1;
                continue;
            }
            (_, b'&', _) => (CommandJoint::Background, 1),
            (_, b';' | b'\n', _) => (CommandJoint::Then, 1),
            _ => {
                at += 1;
                continue;
            }
        };
        push(start, at, joint);
        at += len;
        start = at;
    }
    push(start, line.len(), CommandJoint::End);
    // A separator at the end of the line joins nothing.
    if let Some(last) = out.last_mut()
        && last.1 == CommandJoint::Then
    {
        last.1 = CommandJoint::End;
    }
    out
}

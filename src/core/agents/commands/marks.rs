//! Parts of a line that begin with a mark: `echo "= lint ="; npm run lint`.

use super::steps::{CommandJoint, Step, bare, steps};

/// Maximum number of parts of a line. The last one has the rest.
const MAX_PARTS: usize = 16;

/// A part of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinePart<'l> {
    /// The line of output before that of the part; empty for the first one.
    pub mark: &'l str,
    /// The commands of the part.
    pub line: &'l str,
}

/// Divides a line at the commands that only print a mark. The first part may be empty.
pub fn marked_parts(line: &str) -> Vec<LinePart<'_>> {
    let begins = |text: &str| text.as_ptr() as usize - line.as_ptr() as usize;
    let own = |text| str::trim_matches(text, [';', '&', '\n', ' ']);
    let (mut parts, mut mark, mut from) = (Vec::new(), "", 0);
    // Most lines print none, and need not be divided.
    let may_print = PRINTS.iter().any(|name| line.contains(name));
    for Step { text, joint, .. } in may_print.then(|| steps(line)).into_iter().flatten() {
        let is_whole = matches!(joint, CommandJoint::Then | CommandJoint::And);
        if let Some(next) = printed(text).filter(|_| is_whole && parts.len() + 1 < MAX_PARTS) {
            let line = own(&line[from..begins(text)]);
            parts.push(LinePart { mark, line });
            (mark, from) = (next, begins(text) + text.len());
        }
    }
    let line = line[from..].trim_start_matches([';', '&', '\n', ' ']);
    parts.push(LinePart { mark, line });
    parts
}

const PRINTS: [&str; 3] = ["echo ", "Write-Output ", "Write-Host "];

/// The line that a command prints, if it only prints one that no other program is likely to print.
fn printed(text: &str) -> Option<&str> {
    let text = bare(text);
    let text = PRINTS.iter().find_map(|name| text.strip_prefix(name))?.trim();
    let inner = text
        .trim_start_matches("-e ")
        .trim()
        .trim_matches(['"', '\''])
        .trim_start_matches("\\n")
        .trim();
    let is_plain = !inner.contains(['$', '`', '\\', '"', '\'', '>', '<']);
    let is_mark = inner.len() > 3 && inner.contains(|c: char| !c.is_alphanumeric() && !c.is_whitespace());
    (is_plain && is_mark).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_divided_at_its_marks() {
        let of = |line| {
            let parts = marked_parts(line).into_iter();
            parts.map(|part| (part.mark, part.line)).collect::<Vec<_>>()
        };
        assert_eq!(
            of(
                "cd app; make lint 2>&1 | head; echo \"== tests ==\"; make test | tail -3 && echo '--- end'\nls"
            ),
            [
                ("", "cd app; make lint 2>&1 | head"),
                ("== tests ==", "make test | tail -3"),
                ("--- end", "ls"),
            ]
        );
        for line in [
            "make test; echo $?",
            "echo done; ls",
            "echo \"= a =\" | cat; ls",
            "make; echo '= a ='",
        ] {
            assert_eq!(of(line).len(), 1, "{line}");
        }
    }
}

//! What a command that changed something says of it: a migration's name, a created file, a port, a process.

use super::excerpt::{LINE, content_lines, cut};
use super::markers;
use super::words::WORDS;

/// Lines that are kept, the last ones.
const MOST: usize = 3;

/// The lines of an output that say what was made, changed or started, by its name or number.
pub(super) fn named(text: &str) -> Vec<String> {
    let lines = content_lines(text);
    let found = lines.iter().rev().filter(|line| has_effect(line)).take(MOST);
    let mut found: Vec<String> = found.map(|line| cut(line, LINE).to_owned()).collect();
    found.reverse();
    found
}

fn has_effect(line: &str) -> bool {
    let line = cut(line, LINE);
    let small = line.to_ascii_lowercase();
    let mut words = markers::words(&small);
    words.any(|word| WORDS.effects.contains(&word)) && markers::names(line).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_what_is_needed_later_are_found() {
        for line in [
            "applied migration 0042_users",
            "Applying shop.0007_cart... OK",
            "wrote src/gen/schema.rs",
            "Created docs/api.md",
            "Listening on http://localhost:3000",
            "server running at :8080",
            "[1] started, pid 4242",
            "Container app-db-1  Started",
            "deployed release v1.2.3 to staging",
        ] {
            assert_eq!(named(&format!("x\n{line}\nDone.")), [line], "{line}");
        }
        for line in [
            "Done in 3 s",
            "nothing to do",
            "Compiling foo v0.1.0",
            "applied all",
            "",
        ] {
            assert!(named(line).is_empty(), "{line}");
        }
        let many: String = (0..9).map(|n| format!("applied 00{n}0_a\n")).collect();
        assert_eq!(
            named(&many),
            ["applied 0060_a", "applied 0070_a", "applied 0080_a"]
        );
    }
}

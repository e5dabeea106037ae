//! The goal that a person gives the next session: the first line of its document, whoever writes that.

/// What is in front of the goal.
pub(super) const LABEL: &str = "Goal: ";

/// The document with the goal first, word for word; as it is where the goal is empty or stands at its top already.
pub(super) fn led(document: &str, goal: &str) -> String {
    match goal.trim() {
        "" => document.to_owned(),
        goal if is_at_top(document, goal) => document.to_owned(),
        goal => format!("{LABEL}{goal}\n\n{}", document.trim_start()),
    }
}

/// Whether a document begins with the goal, below headings or after a label.
fn is_at_top(document: &str, goal: &str) -> bool {
    let mut text = document.trim_start();
    while text.starts_with('#') {
        text = text.split_once('\n').map_or("", |(_, below)| below.trim_start());
    }
    let text = text.strip_prefix(LABEL).unwrap_or(text);
    let after = text.strip_prefix(goal);
    after.is_some_and(|after| after.lines().next().is_none_or(|rest| rest.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goal_is_put_first_unless_it_stands_there_word_for_word() {
        let long = "Port the importer.\n\n1. Read it.\n2. Write it.";
        for (goal, document, expected) in [
            ("", "## Goal\nx", "## Goal\nx"),
            (" \n", "## Goal\nx", "## Goal\nx"),
            ("Port it.", "", "Goal: Port it.\n\n"),
            (" Port it. ", "\n## Goal\nx\n", "Goal: Port it.\n\n## Goal\nx\n"),
            // Told in other words, with more words, or further below, it is missing.
            (
                "Port it.",
                "## Goal\nport it.",
                "Goal: Port it.\n\n## Goal\nport it.",
            ),
            (
                "Port it",
                "Port it and test it",
                "Goal: Port it\n\nPort it and test it",
            ),
            (
                "Port it.",
                "## Done\nx\nPort it.",
                "Goal: Port it.\n\n## Done\nx\nPort it.",
            ),
            (
                long,
                "## Goal\nPort the importer.",
                &format!("Goal: {long}\n\n## Goal\nPort the importer."),
            ),
        ] {
            assert_eq!(led(document, goal), expected, "{goal:?} {document:?}");
        }
        for document in [
            "Port it.",
            "Goal: Port it.\n\n## Next steps\n1. x",
            "# Handoff\n\n## Goal\n\nPort it. \nMore.",
        ] {
            assert_eq!(led(document, "Port it."), document);
        }
        assert_eq!(
            led(&format!("## Goal\n{long}\n\n## Next"), long),
            format!("## Goal\n{long}\n\n## Next")
        );
    }
}

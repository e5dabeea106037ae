//! Directory of each command of a line.

/// Resolves a directory that is named relative to another one.
pub fn joined(from: &str, to: &str) -> String {
    let to = to.trim().trim_matches(['\'', '"']);
    // Only the shell knows the home, the previous directory and variables, so the name stays as it is.
    if to.starts_with(['~', '-']) || to.contains('$') {
        return to.to_owned();
    }
    let mut parts: Vec<&str> = match (to.starts_with('/'), from) {
        (true, _) => vec![""],
        (false, "") => Vec::new(),
        (false, from) => from.split('/').collect(),
    };
    for part in to.split('/').filter(|part| !part.is_empty() && *part != ".") {
        // The directories above the first named one are unknown, so `..` stays.
        let up = part == ".." && parts.last().is_some_and(|last| !last.is_empty() && *last != "..");
        match up {
            true => drop(parts.pop()),
            false => parts.push(part),
        }
    }
    parts.join("/")
}

/// Follows the directory from command to command; a closing parenthesis restores it.
#[derive(Default)]
pub(super) struct WorkingDirs {
    pub(super) here: String,
    outside: Vec<String>,
}

impl WorkingDirs {
    /// Returns the directory of this command, and follows its change of the directory.
    pub(super) fn of_step(&mut self, text: &str, plain: &str) -> String {
        let (opened, closed) = parentheses(text);
        self.outside
            .extend(std::iter::repeat_n(self.here.clone(), opened));
        let runs_in = self.here.clone();
        let changes = plain.strip_prefix("cd ").or_else(|| plain.strip_prefix("pushd "));
        if let Some(to) = changes {
            let to = to.trim().trim_end_matches(')');
            // A redirection is not part of the directory's name.
            self.here = joined(&self.here, to.split(" 2>").next().unwrap_or(to));
        } else if matches!(plain, "cd" | "popd") {
            // The name of an unknown directory, as in `cd -`.
            "-".clone_into(&mut self.here);
        }
        for _ in 0..closed {
            if let Some(outside) = self.outside.pop() {
                self.here = outside;
            }
        }
        runs_in
    }
}

/// Removes the parentheses around a command.
pub(super) fn unparenthesised(text: &str) -> &str {
    let text = text.trim();
    match parentheses(text) {
        (0, 0) => match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
            Some(inside) => inside.trim(),
            None => text,
        },
        (0, _) => text.trim_end_matches(')').trim_end(),
        _ => text.trim_start_matches(['(', ' ']),
    }
}

/// Counts the parentheses that a command opens and closes without a counterpart.
fn parentheses(text: &str) -> (usize, usize) {
    let (mut opened, mut closed) = (0_usize, 0);
    let mut quote = None;
    for b in text.bytes() {
        match (quote, b) {
            (Some(open), b) if b == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(b),
            (None, b'(') => opened += 1,
            (None, b')') if opened > 0 => opened -= 1,
            (None, b')') => closed += 1,
            _ => {}
        }
    }
    (opened, closed)
}

//! What a result without an exit code may hide.

/// How the results of commands begin that still run.
const STILL_RUNNING: [&str; 5] = [
    "Command running in background",
    "Command is running in background",
    "Command was moved to the background",
    "Command moved to background",
    "Command did not complete",
];

/// Commands for which Claude Code does not treat exit code 1 as a failure.
const JUDGED: [&str; 9] = ["grep", "egrep", "fgrep", "rg", "find", "diff", "test", "[", "git"];

/// Commands whose `test` is one of their own.
const RUNNERS: [&str; 15] = [
    "cargo", "npm", "yarn", "pnpm", "bun", "deno", "go", "make", "just", "mvn", "gradle", "gradlew",
    "dotnet", "swift", "run",
];

/// Whether the text of a result says that its command still runs.
pub fn is_still_running(text: &str) -> bool {
    STILL_RUNNING.iter().any(|words| text.starts_with(words))
}

/// Whether one of the commands is one whose exit code the agent judges for itself.
pub fn is_judged(command: &str) -> bool {
    let words = command.split(|c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '/'));
    let before = std::iter::once("").chain(words.clone());
    // `cargo test` is not the command `test`.
    let mut judged = words.zip(before).filter(|(word, _)| JUDGED.contains(word));
    judged.any(|(word, before)| word != "test" || !RUNNERS.contains(&before))
}

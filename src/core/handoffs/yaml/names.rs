//! Names of files and directories, their meaning, and the words of the format.

use super::text::cut;
use super::time::Time;

/// Prefix of a file that was written without a user.
const AUTO: &str = "auto-handoff-";

/// Extension of a file.
pub const SUFFIX: &str = ".yaml";

/// Maximum size of a description in a file name, in bytes.
const DESCRIPTION_BYTES: usize = 50;

/// Limits of a description that is derived from a goal, in bytes and in words.
const GOAL_BYTES: usize = 30;
const GOAL_WORDS: usize = 8;

/// The default description.
const DESCRIPTION: &str = "handoff";

/// Name of a session's directory; `general` for an unnamed session.
pub fn session(name: &str) -> &str {
    if name.is_empty() { GENERAL } else { name }
}

/// Whether a session may have this name.
pub fn is_session(name: &str) -> bool {
    let may_be = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    !name.is_empty() && name.bytes().all(may_be)
}

/// Name of a client's session, which no other client can produce.
///
/// The client's name stands before two dashes. If it contains characters that do not fit there, its bytes are
/// written in hexadecimal.
pub fn of_client(client: &str, session_name: &str) -> String {
    format!("{}{}", client_prefix(client), session(session_name))
}

/// Prefix of the names of a client's sessions.
pub fn client_prefix(client: &str) -> String {
    let is_plain =
        // A client called `a--b` or `a-` could produce the prefix of `a`, and `_…` is the form of the encoded names.
        is_session(client) && !client.contains("--") && !client.starts_with('_') && !client.ends_with('-');
    let client = match is_plain {
        true => client.to_owned(),
        false => client
            .bytes()
            .fold("_".to_owned(), |name, byte| format!("{name}{byte:02x}")),
    };
    format!("{client}--")
}

/// Derives a session's name from any string; invalid characters become dashes.
pub fn session_of(text: &str) -> String {
    let name = collapsed(&text.replace(|c: char| !(c.is_ascii_alphanumeric() || c == '_'), "-"));
    cut(&name, DESCRIPTION_BYTES).trim_end_matches('-').to_owned()
}

/// A description for a file name: `a-z0-9-`, no runs of dashes, at most 50 bytes; `handoff` if nothing remains.
pub fn description(text: &str) -> String {
    kebab(text, DESCRIPTION_BYTES)
}

/// The description of a goal: its first eight words, at most 30 bytes.
pub fn description_of_goal(goal: &str) -> String {
    let words: Vec<_> = goal.split_whitespace().take(GOAL_WORDS).collect();
    kebab(&words.join(" "), GOAL_BYTES)
}

fn kebab(text: &str, most: usize) -> String {
    let mut kept = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => kept.push(c),
            c if c.is_whitespace() || matches!(c, '_' | '-') => kept.push('-'),
            c => kept.push_str(plain(c)),
        }
    }
    let text = collapsed(&kept);
    match cut(&text, most).trim_end_matches('-') {
        "" => DESCRIPTION.to_owned(),
        text => text.to_owned(),
    }
}

/// Latin letters outside of ASCII, each group with its usual spelling.
const LATIN: [(&str, &str); 20] = [
    ("äæ", "ae"),
    ("öœ", "oe"),
    ("ü", "ue"),
    ("ß", "ss"),
    ("þ", "th"),
    ("àáâãåāăą", "a"),
    ("çćčċ", "c"),
    ("ďđð", "d"),
    ("èéêëēęěė", "e"),
    ("ğģ", "g"),
    ("ìíîïīįı", "i"),
    ("łľļ", "l"),
    ("ñńňņ", "n"),
    ("òóôõøőō", "o"),
    ("řŕ", "r"),
    ("śšşș", "s"),
    ("ťţț", "t"),
    ("ùúûūůűų", "u"),
    ("ýÿ", "y"),
    ("źżž", "z"),
];

/// Spells a letter in ASCII; empty for one of another script.
fn plain(letter: char) -> &'static str {
    let group = LATIN.iter().find(|(letters, _)| letters.contains(letter));
    group.map_or("", |(_, spelling)| spelling)
}

/// Merges runs of dashes, and removes them from both ends.
fn collapsed(text: &str) -> String {
    let parts: Vec<_> = text.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// `YYYY-MM-DD_HH-MM_DESCRIPTION`, in UTC, without the extension.
pub fn manual(now: Time, description: &str) -> String {
    let at = now.utc();
    format!("{}_{:02}-{:02}_{description}", now.date(), at.hour(), at.minute())
}

/// `auto-handoff-YYYY-MM-DDTHH-MM-SS`, in UTC, without the extension.
pub fn automatic(now: Time) -> String {
    let time = now.rfc3339().replacen(':', "-", 2);
    format!("{AUTO}{}", time.trim_end_matches('Z'))
}

/// Name of the `n`-th file with the same stem.
pub fn numbered(stem: &str, n: usize) -> String {
    match n {
        0 | 1 => format!("{stem}{SUFFIX}"),
        n => format!("{stem}-{n}{SUFFIX}"),
    }
}

/// Whether this is the name of a handoff file: it has the extension, and does not begin with a dot.
pub fn is_file(name: &str) -> bool {
    name.ends_with(SUFFIX) && name.len() > SUFFIX.len() && !name.starts_with('.')
}

/// Whether a file was written without a user, by its name.
pub fn is_automatic(name: &str) -> bool {
    name.starts_with(AUTO)
}

/// The time in a file's name. Greater is newer.
///
/// The name of a manual file only has minutes, so files of the same minute need another criterion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileStamp {
    /// Start of the minute, in seconds since the Unix epoch.
    pub minute: i64,
    /// Second of the minute; `None` if the name has none.
    pub second: Option<u32>,
}

/// Parses the time from a file's name, in either form.
pub fn time(name: &str) -> Option<FileStamp> {
    let (text, between, bytes, seconds) = match name.strip_prefix(AUTO) {
        Some(rest) => (rest, 'T', 19, ""),
        None => (name, '_', 16, ":00"),
    };
    let (date, clock) = text.get(..bytes)?.split_once(between)?;
    let at = Time::parse(&format!("{date}T{}{seconds}", clock.replace('-', ":")))?.seconds;
    let second = u32::try_from(at.rem_euclid(60)).ok()?;
    Some(FileStamp {
        minute: at - i64::from(second),
        second: seconds.is_empty().then_some(second),
    })
}

/// Version of the format.
pub const VERSION: &str = "1.0";

/// Finding that states the directory that the session worked in.
pub const DIRECTORY: &str = "directory";

/// Directory of files without a session.
pub const GENERAL: &str = "general";

/// Values of `status`.
pub(super) const STATUS: [&str; 3] = ["complete", "partial", "blocked"];

/// Values of `outcome`.
pub(super) const OUTCOME: [&str; 4] = ["SUCCEEDED", "PARTIAL_PLUS", "PARTIAL_MINUS", "FAILED"];

/// Values of `agent_type`: Claude Code, Codex, Gemini CLI.
pub(super) const AGENT_TYPE: [&str; 3] = ["cc", "cod", "gmi"];

/// Go's spelling of a time that was never set.
pub(super) const NO_TIME: &str = "0001-01-01T00:00:00Z";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_short_and_harmless() {
        for (text, name) in [
            ("Fix the  Login_flow!", "fix-the-login-flow"),
            ("--a--b--", "a-b"),
            ("../../etc/passwd", "etcpasswd"),
            ("Größe ändern", "groesse-aendern"),
            ("Łódź, naïve", "lodz-naive"),
            ("", "handoff"),
            ("!!!", "handoff"),
        ] {
            assert_eq!(description(text), name);
        }
        let long = description(&"ab ".repeat(40));
        assert!(long.len() <= 50 && !long.ends_with('-'), "{long}");
        assert_eq!(
            description_of_goal("one two three four five six seven eight nine"),
            "one-two-three-four-five-six-se"
        );
        assert_eq!(description_of_goal("a b c d e f g h i j"), "a-b-c-d-e-f-g-h");
    }

    #[test]
    fn names_tell_their_time_in_both_shapes() {
        let at = Time::parse("2026-11-22T18:05:48Z").unwrap();
        let manual = numbered(&manual(at, "x"), 1);
        let automatic = numbered(&automatic(at), 2);
        assert_eq!(manual, "2026-11-22_18-05_x.yaml");
        assert_eq!(automatic, "auto-handoff-2026-11-22T18-05-48-2.yaml");
        let minute = at.seconds - 48;
        assert_eq!(time(&manual), Some(FileStamp { minute, second: None }));
        assert_eq!(
            time(&automatic),
            Some(FileStamp {
                minute,
                second: Some(48)
            })
        );
        for name in [
            "notes.yaml",
            "2026-13-01_00-00_x.yaml",
            "auto-handoff-2026-11-22_18-05.yaml",
            "2026-11-22_25-00_x.yaml",
            "ü026-11-22",
        ] {
            assert_eq!(time(name), None, "{name}");
        }
        assert!(is_file("a.yaml") && !is_file(".a.yaml") && !is_file("a.yml") && !is_file(".yaml"));
    }

    #[test]
    fn sessions_are_directories_of_their_own_name_alone() {
        assert!(is_session("my_app-2") && !is_session("") && !is_session("a/b") && !is_session(".."));
        assert_eq!(session(""), "general");
        assert_eq!(session_of("claude:3f2a/x y"), "claude-3f2a-x-y");
    }

    #[test]
    fn sessions_of_two_clients_have_two_names() {
        let pairs = [
            ("a", "b"),
            ("a", "b--c"),
            ("a--b", "c"),
            ("a-", "b"),
            ("a", "-b"),
            ("A b", "c"),
            ("A-b", "c"),
            ("é", ""),
        ];
        let names: std::collections::HashSet<_> = pairs
            .iter()
            .map(|(client, session)| of_client(client, session))
            .collect();
        assert_eq!(names.len(), pairs.len());
        assert!(names.iter().all(|name| is_session(name)), "{names:?}");
    }
}

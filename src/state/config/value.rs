//! Readers: each converts a raw value to a checked one, or reports why the value is invalid.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use baton_core::brake::MICRODOLLARS;
use baton_core::text::closest::closest_name;

use super::problem::{KeyOrigin, ProblemKind};
use super::raw::{Environment, LocatedValue, Raw, RawEntry, read_value};

/// The error of a value, with a suggested fix.
#[derive(Debug)]
pub(super) struct ValueError {
    pub(super) kind: ProblemKind,
    pub(super) message: String,
    pub(super) help: String,
    /// Position inside a list or table.
    pub(super) at: Option<KeyOrigin>,
}

/// Result of a reader: the value, or all complaints about it.
pub(super) type ValueResult<T> = Result<T, Vec<ValueError>>;

pub(super) fn value_error<T>(message: impl Into<String>, help: impl Into<String>) -> ValueResult<T> {
    Err(complaint(ProblemKind::Value, message, help))
}

pub(super) fn complaint(
    kind: ProblemKind,
    message: impl Into<String>,
    help: impl Into<String>,
) -> Vec<ValueError> {
    let (message, help) = (message.into(), help.into());
    let at = None;
    vec![ValueError {
        kind,
        message,
        help,
        at,
    }]
}

impl LocatedValue {
    /// Reads a string that is not empty.
    pub(super) fn text(&self) -> ValueResult<String> {
        match &self.raw {
            Raw::Word(text) | Raw::Text(text) if text.trim().is_empty() => {
                value_error("the value is empty", "give a value, or leave the key out")
            }
            Raw::Word(text) | Raw::Text(text) => Ok(text.clone()),
            _ => self.expected("text", "put the value in quotes"),
        }
    }

    /// Reads the prefix of chat commands: visible ASCII that JSON does not escape, or an empty string.
    pub(super) fn prefix(&self) -> ValueResult<String> {
        const MAX_PREFIX_BYTES: usize = 8;
        let given = match &self.raw {
            Raw::Word(text) | Raw::Text(text) => text.clone(),
            _ => return self.text(),
        };
        // Commands are found by their bytes in the request body, so the prefix must look the same inside a
        // JSON string.
        let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        match given.len() <= MAX_PREFIX_BYTES && given.chars().all(fits) {
            true => Ok(given),
            false => value_error(
                format!("{given:?} cannot begin a command"),
                format!(
                    "write up to {MAX_PREFIX_BYTES} visible ASCII characters, none of them a quotation mark or a backslash"
                ),
            ),
        }
    }

    /// Reads `true` or `false`.
    pub(super) fn flag(&self) -> ValueResult<bool> {
        match &self.raw {
            Raw::Flag(flag) => Ok(*flag),
            // From a variable or a flag, where values have no type.
            Raw::Word(word) if word == "true" => Ok(true),
            Raw::Word(word) if word == "false" => Ok(false),
            _ => self.expected("true or false", "write true or false, without quotes"),
        }
    }

    /// Reads a whole number from `min` to `max`.
    pub(super) fn count<T>(&self, min: T, max: T) -> ValueResult<T>
    where
        T: Copy + PartialOrd + FromStr + std::fmt::Display,
    {
        let help = format!("write a whole number from {min} to {max}, without quotes");
        self.number(min, max, "a whole number in range", help)
    }

    /// Reads seconds from `min` to `max`, including fractions.
    pub(super) fn secs(&self, min: f64, max: f64) -> ValueResult<Duration> {
        // Cannot panic: the range excludes negative numbers, infinity and NaN.
        self.amount(min, max, "seconds").map(Duration::from_secs_f64)
    }

    /// Reads days from `min` to `max`, including fractions.
    pub(super) fn days(&self, min: f64, max: f64) -> ValueResult<Duration> {
        const DAY: f64 = 24.0 * 60.0 * 60.0;
        let days = self.amount(min, max, "days")?;
        Ok(Duration::from_secs_f64(days * DAY))
    }

    fn amount(&self, min: f64, max: f64, unit: &str) -> ValueResult<f64> {
        let help = format!("write {unit} from {min} to {max}, without quotes and unit");
        self.number(min, max, &format!("a number of {unit} in range"), help)
    }

    /// Reads a budget in US dollars. Returns microdollars.
    pub(super) fn dollars(&self) -> ValueResult<u64> {
        let dollars = self.amount(0.01, 1e6, "US dollars")?;
        Ok((dollars * MICRODOLLARS).round() as u64)
    }

    /// Reads days up to `max`. 0 means never, and returns `None`.
    pub(super) fn days_or_never(&self, max: f64) -> ValueResult<Option<Duration>> {
        Ok(Some(self.days(0.0, max)?).filter(|days| !days.is_zero()))
    }

    /// Reads whole hours from `min` to `max`.
    pub(super) fn hours(&self, min: u64, max: u64) -> ValueResult<Duration> {
        Ok(Duration::from_secs(self.count(min, max)? * 3600))
    }

    /// Reads a share from `min` to 1.
    pub(super) fn share(&self, min: f64) -> ValueResult<f64> {
        let help = format!("write a number from {min} to 1, without quotes: 0.5 is a half");
        self.number(min, 1.0, "a share", help)
    }

    /// Reads `"break-even"` as `None`, or a number with `read`.
    pub(super) fn pays_or<T>(&self, read: impl FnOnce(&Self) -> ValueResult<T>) -> ValueResult<Option<T>> {
        match &self.raw {
            Raw::Word(text) | Raw::Text(text) if text == "break-even" => Ok(None),
            Raw::Word(text) | Raw::Text(text) if !text.starts_with(|c: char| c.is_ascii_digit()) => {
                value_error(
                    format!("{text:?} is not a known value"),
                    "write \"break-even\", or a number without quotes",
                )
            }
            _ => read(self).map(Some),
        }
    }

    /// Reads prefixes of model names, each with a number of tokens from 1 to `max`.
    pub(super) fn windows(&self, max: u64) -> ValueResult<Vec<(String, u64)>> {
        let entries = self.table("models", "write { \"model-name\" = 131072 }")?;
        let window = |entry: &RawEntry| Ok((entry.key.clone(), entry.value.count(1, max)?));
        collect(entries.iter().map(|entry| (&entry.value.origin, window(entry))))
    }

    /// Reads a number from `min` to `max`. `what` names it in the error message.
    fn number<T: PartialOrd + FromStr>(&self, min: T, max: T, what: &str, help: String) -> ValueResult<T> {
        // A word from a variable may be anything, so the parser decides.
        let (Raw::Number(digits) | Raw::Word(digits)) = &self.raw else {
            return self.expected("a number", &help);
        };
        // TOML allows underscores between digits.
        let number = digits.replace('_', "").parse().ok();
        match number.filter(|number| min <= *number && *number <= max) {
            Some(number) => Ok(number),
            None => value_error(format!("{digits} is not {what}"), help),
        }
    }

    /// Reports a value of the wrong type.
    pub(super) fn expected<T>(&self, what: &str, help: &str) -> ValueResult<T> {
        value_error(format!("expected {what}, found {}", self.raw.kind()), help)
    }

    /// Reads one of a fixed set of words.
    pub(super) fn choice<T: Copy, const N: usize>(
        &self,
        all: [T; N],
        name: fn(T) -> &'static str,
    ) -> ValueResult<T> {
        let text = self.text()?;
        if let Some(choice) = all.into_iter().find(|choice| name(*choice) == text) {
            return Ok(choice);
        }
        let names = all.map(|choice| format!("\"{}\"", name(choice)));
        let help = match closest_name(&text, all.map(name)) {
            Some(name) => format!("did you mean \"{name}\"? (one of {})", names.join(", ")),
            None => format!("write one of {}", names.join(", ")),
        };
        value_error(format!("{text:?} is not a known value"), help)
    }

    /// Reads a path. `~/` expands to the home directory.
    pub(super) fn path(&self, env: &Environment) -> ValueResult<PathBuf> {
        let text = self.text()?;
        // No shell expands `~` in a file, or in a variable that a service manager sets.
        match (text.strip_prefix("~/"), env.get("HOME")) {
            (Some(rest), Some(home)) => Ok(PathBuf::from(home).join(rest)),
            _ => Ok(PathBuf::from(text)),
        }
    }

    /// Reads the path of an existing file.
    pub(super) fn file(&self, env: &Environment) -> ValueResult<PathBuf> {
        let path = self.path(env)?;
        if path.is_file() {
            return Ok(path);
        }
        value_error(
            format!("there is no file {}", path.display()),
            "fix the path; relative ones start at the working directory",
        )
    }

    /// Reads the prefix of the store's keys.
    pub(super) fn key_prefix(&self) -> ValueResult<String> {
        let prefix = self.text()?;
        // Not braces, because those around the prefix determine the slot in a cluster.
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        match prefix.chars().all(plain) {
            true => Ok(prefix),
            false => value_error(
                format!("{prefix:?} is not a valid prefix of keys"),
                "use letters, digits, `-`, `_` and `.`",
            ),
        }
    }

    /// Reads strings of at least `min` characters.
    pub(super) fn texts(&self, min: usize) -> ValueResult<Vec<String>> {
        self.strings("write [\"one\", \"two\"]", |text| {
            match text.trim().chars().count() >= min {
                true => Ok(text),
                false => value_error(
                    format!("{text:?} is too short to be distinguished from other text"),
                    format!("write at least {min} characters"),
                ),
            }
        })
    }

    /// Reads paths of URLs: `/v1/files`, `/v1/files*`, or `*` for all.
    pub(super) fn paths(&self) -> ValueResult<Vec<String>> {
        let paths = self.texts(1)?;
        let is_path = |path: &String| {
            let begin = path.strip_suffix('*').unwrap_or(path);
            (begin.is_empty() && path == "*" || begin.starts_with('/')) && !begin.contains(['*', '?', '%'])
        };
        match paths.iter().find(|path| !is_path(path)) {
            None => Ok(paths),
            Some(path) => value_error(
                format!("{path:?} is not a path"),
                "write \"/v1/files\", \"/v1/files*\" for all that begin like it, or \"*\" for every path",
            ),
        }
    }

    /// Reads regular expressions, none of which may match the empty string.
    pub(super) fn patterns(&self) -> ValueResult<Vec<String>> {
        self.strings("write ['one', 'two']", |text| match regex::Regex::new(&text) {
            // Redaction with this pattern would insert its mark between all characters.
            Ok(pattern) if pattern.is_match("") => value_error(
                format!("{text:?} matches the empty string, and so everywhere"),
                "write an expression that requires at least one character",
            ),
            Ok(_) => Ok(text),
            Err(error) => value_error(
                format!("{text:?} is not a regular expression: {error}"),
                "see the syntax of the regex crate",
            ),
        })
    }

    /// Returns the value, with an unquoted string parsed as TOML. Lists and tables in variables need this.
    pub(super) fn structured(&self) -> ValueResult<LocatedValue> {
        match &self.raw {
            Raw::Word(text) => read_value(text, &self.origin).or_else(|message| {
                value_error(
                    format!("not a TOML value: {message}"),
                    "write [\"one\", \"two\"] or { name = \"value\" }",
                )
            }),
            _ => Ok(self.clone()),
        }
    }

    /// Returns the items of a list. `what` names them in the error message.
    pub(super) fn list(&self, what: &str, help: &str) -> ValueResult<Vec<LocatedValue>> {
        let given = self.structured()?;
        match given.raw {
            Raw::List(items) => Ok(items),
            _ => given.expected(&format!("a list of {what}"), help),
        }
    }

    /// Reads a list of strings, each with `read`.
    pub(super) fn strings<T>(
        &self,
        help: &str,
        read: impl Fn(String) -> ValueResult<T>,
    ) -> ValueResult<Vec<T>> {
        let items = self.list("strings", help)?;
        let read = |item: &Self| item.text().and_then(&read);
        collect(items.iter().map(|item| (&item.origin, read(item))))
    }

    /// Returns the entries of a table. `what` names them in the error message.
    pub(super) fn table(&self, what: &str, help: &str) -> ValueResult<Vec<RawEntry>> {
        let given = self.structured()?;
        match given.raw {
            Raw::Table(entries) => Ok(entries),
            _ => given.expected(&format!("a table of {what}"), help),
        }
    }
}

/// Collects all values, or all complaints with their positions.
pub(super) fn collect<'a, T>(
    items: impl Iterator<Item = (&'a KeyOrigin, ValueResult<T>)>,
) -> ValueResult<Vec<T>> {
    let mut values = Vec::new();
    let mut complaints = Vec::new();
    for (origin, checked) in items {
        match checked {
            Ok(value) => values.push(value),
            Err(more) => complaints.extend(more.into_iter().map(|complaint| ValueError {
                // The position of the item instead of the whole list.
                at: Some(origin.clone()),
                ..complaint
            })),
        }
    }
    if complaints.is_empty() {
        Ok(values)
    } else {
        Err(complaints)
    }
}

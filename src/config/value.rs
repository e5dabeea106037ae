//! Readers: each converts one raw value to a checked one, or reports what is wrong with it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::Secret;
use super::StoreAddress;
use super::problem::{Origin, meant};
use super::raw::{Environment, Given, Raw, read_value};

/// What is wrong with a value, and how to fix it.
#[derive(Debug)]
pub(super) struct Complaint {
    pub(super) message: String,
    pub(super) help: String,
    /// The position inside a list or table.
    pub(super) at: Option<Origin>,
}

/// A reader's result: the value, or all complaints about it.
pub(super) type Checked<T> = Result<T, Vec<Complaint>>;

pub(super) fn wrong<T>(message: impl Into<String>, help: impl Into<String>) -> Checked<T> {
    Err(vec![Complaint {
        message: message.into(),
        help: help.into(),
        at: None,
    }])
}

impl Given {
    /// Text, not empty.
    pub(super) fn text(&self) -> Checked<String> {
        match &self.raw {
            Raw::Word(text) | Raw::Text(text) if text.trim().is_empty() => {
                wrong("the value is empty", "give a value, or leave the key out")
            }
            Raw::Word(text) | Raw::Text(text) => Ok(text.clone()),
            other => wrong(
                format!("expected text, found {}", other.kind()),
                "put the value in quotes",
            ),
        }
    }

    /// What commands begin with: visible ASCII that JSON does not escape, or nothing.
    pub(super) fn prefix(&self) -> Checked<String> {
        const MOST: usize = 8;
        let given = match &self.raw {
            Raw::Word(text) | Raw::Text(text) => text.clone(),
            _ => return self.text(),
        };
        let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        match given.len() <= MOST && given.chars().all(fits) {
            true => Ok(given),
            false => wrong(
                format!("{given:?} cannot begin a command"),
                format!(
                    "write up to {MOST} visible ASCII characters, none of them a quotation mark or a backslash"
                ),
            ),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self) -> Checked<bool> {
        match &self.raw {
            Raw::Flag(flag) => Ok(*flag),
            Raw::Word(word) if word == "true" => Ok(true),
            Raw::Word(word) if word == "false" => Ok(false),
            other => wrong(
                format!("expected true or false, found {}", other.kind()),
                "write true or false, without quotes",
            ),
        }
    }

    /// A whole number from `min` to `max`.
    pub(super) fn count<T>(&self, min: T, max: T) -> Checked<T>
    where
        T: Copy + PartialOrd + FromStr + std::fmt::Display,
    {
        let help = format!("write a whole number from {min} to {max}, without quotes");
        match self.number(&help)?.parse::<T>() {
            Ok(number) if min <= number && number <= max => Ok(number),
            _ => wrong(format!("{} is not a whole number in range", self.shown()), help),
        }
    }

    /// Seconds from `min` to `max`, fractions allowed.
    pub(super) fn secs(&self, min: f64, max: f64) -> Checked<Duration> {
        let help = format!("write seconds from {min} to {max}, without quotes and unit");
        match self.number(&help)?.parse::<f64>() {
            Ok(secs) if (min..=max).contains(&secs) => Ok(Duration::from_secs_f64(secs)),
            _ => wrong(
                format!("{} is not a number of seconds in range", self.shown()),
                help,
            ),
        }
    }

    /// Days from `min` to `max`, fractions allowed.
    pub(super) fn days(&self, min: f64, max: f64) -> Checked<Duration> {
        const DAY: f64 = 24.0 * 60.0 * 60.0;
        let help = format!("write days from {min} to {max}, without quotes and unit");
        match self.number(&help)?.parse::<f64>() {
            Ok(days) if (min..=max).contains(&days) => Ok(Duration::from_secs_f64(days * DAY)),
            _ => wrong(format!("{} is not a number of days in range", self.shown()), help),
        }
    }

    /// A share, from 0 to 1.
    pub(super) fn share(&self) -> Checked<f64> {
        let help = "write a number from 0 to 1, without quotes: 0.5 is a half";
        match self.number(help)?.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => wrong(format!("{} is not a share", self.shown()), help),
        }
    }

    /// Beginnings of the names of models, each with a number of tokens from 1 to `max`.
    pub(super) fn windows(&self, max: u64) -> Checked<Vec<(String, u64)>> {
        let given = self.structured()?;
        let Raw::Table(entries) = &given.raw else {
            return wrong(
                format!("expected a table of models, found {}", given.raw.kind()),
                "write { \"model-name\" = 131072 }",
            );
        };
        collect(entries.iter().map(|entry| {
            let checked = entry.value.count(1, max);
            (
                &entry.value.origin,
                checked.map(|tokens| (entry.key.clone(), tokens)),
            )
        }))
    }

    /// Digits without the underscores that TOML allows.
    fn number(&self, help: &str) -> Checked<String> {
        match &self.raw {
            Raw::Number(digits) | Raw::Word(digits) => Ok(digits.replace('_', "")),
            other => wrong(format!("expected a number, found {}", other.kind()), help),
        }
    }

    /// One of a fixed set of words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Checked<T> {
        let text = self.text()?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
            return Ok(*choice);
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let help = match meant(&text, choices.iter().map(|(name, _)| *name)) {
            Some(name) => format!("did you mean \"{name}\"? (one of {})", names.join(", ")),
            None => format!("write one of {}", names.join(", ")),
        };
        wrong(format!("{text:?} is not known here"), help)
    }

    /// HOST:PORT, the host an address or `localhost`.
    pub(super) fn address(&self) -> Checked<SocketAddr> {
        let text = self.text()?;
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.clone(),
        };
        let Ok(address) = numeric.parse() else {
            let help = match text.trim_start_matches(':').parse::<u16>() {
                Ok(port) => format!("write the address too: \"127.0.0.1:{port}\""),
                Err(_) => {
                    "write an IP address and a port, such as \"127.0.0.1:8787\" or \"[::1]:8787\"".into()
                }
            };
            return wrong(format!("{text:?} is not an address to listen on"), help);
        };
        Ok(address)
    }

    /// An http or https URL without credentials, query and fragment; a trailing slash is removed.
    pub(super) fn base_url(&self) -> Checked<String> {
        let help =
            "write scheme and host, such as \"https://api.example.com\", with a path prefix if there is one";
        let text = self.text()?;
        let text = text.trim();
        // Before anything of it is shown: a URL with an `@` may hold a password.
        if text.contains('@') {
            return wrong(
                "the URL holds credentials",
                "take them out; use `api_key` or `headers`",
            );
        }
        if text.contains(['?', '#']) {
            return wrong("the URL has a query or a fragment", help);
        }
        let parsed = text.parse::<http::Uri>().ok();
        let usable = parsed.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        if usable {
            Ok(text.trim_end_matches('/').to_owned())
        } else {
            wrong(format!("{text:?} is not an http or https URL"), help)
        }
    }

    /// The base URL of a collector, or nothing.
    pub(super) fn collector(&self) -> Checked<Option<String>> {
        if let Raw::Text(text) | Raw::Word(text) = &self.raw
            && text.trim().is_empty()
        {
            return Ok(None);
        }
        if self.text()?.contains('@') {
            return wrong(
                "the URL holds credentials",
                "take them out; set the variable OTEL_EXPORTER_OTLP_HEADERS",
            );
        }
        let url = self.base_url()?;
        Ok(Some(url.strip_suffix("/v1/traces").unwrap_or(&url).to_owned()))
    }

    /// A path; `~/` expands to the home directory.
    pub(super) fn path(&self, env: &Environment) -> Checked<PathBuf> {
        let text = self.text()?;
        match (text.strip_prefix("~/"), env.get("HOME")) {
            (Some(rest), Some(home)) => Ok(PathBuf::from(home).join(rest)),
            _ => Ok(PathBuf::from(text)),
        }
    }

    /// A path to an existing file.
    pub(super) fn file(&self, env: &Environment) -> Checked<PathBuf> {
        let path = self.path(env)?;
        if path.is_file() {
            return Ok(path);
        }
        wrong(
            format!("there is no file {}", path.display()),
            "mend the path; relative ones start at the working directory",
        )
    }

    /// A secret of at least `min` characters: text, or `{ env = "NAME" }`. Complaints never show it.
    pub(super) fn secret(&self, env: &Environment, min: usize) -> Checked<Secret> {
        let text = match &self.raw {
            Raw::Word(text) | Raw::Text(text) => text.clone(),
            Raw::Table(entries) => match entries.as_slice() {
                [entry] if entry.key == "env" => variable(&entry.value.text()?, env)?,
                _ => {
                    return wrong(
                        "a secret's table has the one key `env`",
                        "write { env = \"NAME\" }",
                    );
                }
            },
            other => {
                return wrong(
                    format!("expected a secret, found {}", other.kind()),
                    "write it as text in quotes, or as { env = \"NAME\" }",
                );
            }
        };
        let text = text.trim();
        if text.is_empty() {
            return wrong("the secret is empty", "give a value, or leave the key out");
        }
        if text.chars().count() < min {
            return wrong(
                "the secret is too short to be safe",
                format!("use at least {min} characters, for example from `openssl rand -hex 32`"),
            );
        }
        if text.chars().any(char::is_control) {
            return wrong(
                "the secret holds a control character",
                "take line breaks and the like out",
            );
        }
        Ok(Secret::new(text))
    }

    /// One secret, or a list of at most `most`.
    pub(super) fn secrets(&self, env: &Environment, min: usize, most: usize) -> Checked<Vec<Secret>> {
        let given = match &self.raw {
            Raw::Word(text) if text.trim_start().starts_with('[') => self.structured()?,
            _ => self.clone(),
        };
        let Raw::List(items) = &given.raw else {
            return Ok(vec![given.secret(env, min)?]);
        };
        match items.len() {
            0 => wrong("the list is empty", "give a secret, or leave the key out"),
            many if many > most => wrong(
                format!("there are {many} secrets"),
                format!("give at most {most}; leave out those that are no longer needed"),
            ),
            _ => collect(items.iter().map(|item| (&item.origin, item.secret(env, min)))),
        }
    }

    /// The URL of a store's server; it may hold a password, and complaints never show it.
    pub(super) fn store_address(&self, env: &Environment) -> Checked<StoreAddress> {
        let url = self.secret(env, 1)?;
        StoreAddress::parse(url.reveal()).or_else(|why| {
            let help = "write redis://[USER:PASSWORD@]HOST:PORT, redis-sentinel://HOST,HOST/NAME or redis-cluster://HOST,HOST; \
                        with TLS rediss…";
            wrong(why, help)
        })
    }

    /// What stands in front of the keys of a store.
    pub(super) fn key_prefix(&self) -> Checked<String> {
        let prefix = self.text()?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        match prefix.chars().all(plain) {
            true => Ok(prefix),
            false => wrong(
                format!("{prefix:?} is no prefix of keys"),
                "use letters, digits, `-`, `_` and `.`",
            ),
        }
    }

    /// A secret that is a valid header value.
    pub(super) fn header_secret(&self, env: &Environment) -> Checked<Secret> {
        header_value(self.secret(env, 1)?)
    }

    /// A filter of the log, in `tracing`'s syntax.
    pub(super) fn log_filter(&self) -> Checked<String> {
        let help = "write a level (off, error, warn, info, debug, trace), or PART=LEVEL, separated by commas";
        let text = self.text()?;
        // A bare word that is no level would mean "this target at trace" and silence all else.
        let slip = text
            .split(',')
            .map(str::trim)
            .find(|part| !part.contains(['=', '[']) && !LEVELS.contains(&part.to_lowercase().as_str()));
        if let Some(slip) = slip {
            let help = match meant(slip, LEVELS) {
                Some(level) => format!("did you mean \"{level}\"? ({help})"),
                None => help.to_owned(),
            };
            return wrong(format!("{slip:?} is not a level"), help);
        }
        match tracing_subscriber::EnvFilter::try_new(&text) {
            Ok(_) => Ok(text),
            Err(error) => wrong(format!("{text:?} is not a filter: {error}"), help),
        }
    }

    /// Texts of at least `min` characters.
    pub(super) fn texts(&self, min: usize) -> Checked<Vec<String>> {
        let given = self.structured()?;
        let Raw::List(items) = &given.raw else {
            return wrong(
                format!("expected a list of texts, found {}", given.raw.kind()),
                "write [\"one\", \"two\"]",
            );
        };
        collect(items.iter().map(|item| {
            let checked = item
                .text()
                .and_then(|text| match text.trim().chars().count() >= min {
                    true => Ok(text),
                    false => wrong(
                        format!("{text:?} is too short to be told from other text"),
                        format!("write at least {min} characters"),
                    ),
                });
            (&item.origin, checked)
        }))
    }

    /// Regular expressions.
    pub(super) fn patterns(&self) -> Checked<Vec<String>> {
        let given = self.structured()?;
        let Raw::List(items) = &given.raw else {
            return wrong(
                format!("expected a list of texts, found {}", given.raw.kind()),
                "write ['one', 'two']",
            );
        };
        collect(items.iter().map(|item| {
            let checked = item.text().and_then(|text| match regex::Regex::new(&text) {
                Ok(pattern) if pattern.is_match("") => wrong(
                    format!("{text:?} matches the empty text, so everywhere"),
                    "write an expression that asks for at least one character",
                ),
                Ok(_) => Ok(text),
                Err(error) => wrong(
                    format!("{text:?} is not a regular expression: {error}"),
                    "see the syntax of the regex crate",
                ),
            });
            (&item.origin, checked)
        }))
    }

    /// Header names with secret values.
    pub(super) fn headers(&self, env: &Environment) -> Checked<Vec<(String, Secret)>> {
        let given = self.structured()?;
        let Raw::Table(entries) = &given.raw else {
            return wrong(
                format!("expected a table of headers, found {}", given.raw.kind()),
                "write { \"x-name\" = \"value\" }",
            );
        };
        collect(entries.iter().map(|entry| {
            let checked =
                header_name(&entry.key).and_then(|name| Ok((name, entry.value.header_secret(env)?)));
            (&entry.value.origin, checked)
        }))
    }

    /// Names with a secret each.
    pub(super) fn named_secrets(&self, env: &Environment) -> Checked<Vec<(String, Secret)>> {
        let given = self.structured()?;
        let Raw::Table(entries) = &given.raw else {
            return wrong(
                format!("expected a table of names, found {}", given.raw.kind()),
                "write { NAME = { env = \"VARIABLE\" } }",
            );
        };
        collect(entries.iter().map(|entry| {
            let checked = entry.value.secret(env, 1);
            (
                &entry.value.origin,
                checked.map(|secret| (entry.key.clone(), secret)),
            )
        }))
    }

    /// The value, with unquoted text parsed as TOML: for lists and tables.
    pub(super) fn structured(&self) -> Checked<Given> {
        match &self.raw {
            Raw::Word(text) => read_value(text, &self.origin).or_else(|message| {
                wrong(
                    format!("not a TOML value: {message}"),
                    "write [\"one\", \"two\"] or { name = \"value\" }",
                )
            }),
            _ => Ok(self.clone()),
        }
    }

    fn shown(&self) -> &str {
        match &self.raw {
            Raw::Word(text) | Raw::Text(text) | Raw::Number(text) => text,
            other => other.kind(),
        }
    }
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

fn variable(name: &str, env: &Environment) -> Checked<String> {
    match env.get(name) {
        Some(value) => Ok(value.to_owned()),
        None => wrong(
            format!("it is to come from the environment variable {name}, which is not set"),
            format!("set {name} before starting, or give the value here"),
        ),
    }
}

/// Headers that control routing and framing, which the config must not set.
const OWN_HEADERS: [&str; 8] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "transfer-encoding",
    "upgrade",
];

fn header_name(name: &str) -> Checked<String> {
    match http::HeaderName::from_str(name) {
        Ok(name) if OWN_HEADERS.contains(&name.as_str()) => wrong(
            format!("the header {name} is set by the proxy itself"),
            "leave it out",
        ),
        Ok(name) => Ok(name.as_str().to_owned()),
        Err(_) => wrong(
            format!("{name:?} is not a header name"),
            "use letters, digits and `-`",
        ),
    }
}

fn header_value(value: Secret) -> Checked<Secret> {
    match http::HeaderValue::from_str(value.reveal()) {
        Ok(_) => Ok(value),
        Err(_) => wrong(
            "the value cannot stand in a header",
            "use visible ASCII characters",
        ),
    }
}

/// All values, or all complaints with their positions.
pub(super) fn collect<'a, T>(items: impl Iterator<Item = (&'a Origin, Checked<T>)>) -> Checked<Vec<T>> {
    let mut values = Vec::new();
    let mut complaints = Vec::new();
    for (origin, checked) in items {
        match checked {
            Ok(value) => values.push(value),
            Err(more) => complaints.extend(more.into_iter().map(|complaint| Complaint {
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

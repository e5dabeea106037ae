//! Merges the layers of a config: built-in default, file, environment, flags. Later layers override earlier
//! ones.

mod clients;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::keys::{self, BRAKE, BRAKE_TABLE, CLIENTS, ConfigKey, SECTIONS, UPSTREAM, UPSTREAMS};
use super::problem::{BUILT_IN, KeyOrigin, Problem, ProblemKind};
use super::raw::{Environment, LocatedValue, Raw, RawEntry, read_toml};
use super::value::{ValueError, complaint};
use super::{Config, Secret, directories, raw, rules};
use crate::disk;
use baton_core::text::closest::closest_name;

/// The documented default, as built in.
pub const DEFAULT_TEXT: &str = include_str!("baton.toml");

/// The documented default, parsed once, with its problems.
static DEFAULT: LazyLock<(Vec<RawEntry>, Vec<Problem>)> = LazyLock::new(|| {
    let mut problems = Vec::new();
    (read_toml(BUILT_IN, DEFAULT_TEXT, &mut problems), problems)
});

/// Prefix of environment variables that set keys. `__` stands for the dot.
const PREFIX: &str = "BATON_";

/// Unchecked values from the command line.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// Value of `--listen`.
    pub listen: Option<String>,
    /// Value of `--admin`.
    pub admin: Option<String>,
    /// Value of `--state-dir`.
    pub state_dir: Option<String>,
    /// Value of `--log-level`.
    pub log_level: Option<String>,
    /// Keys whose secrets must be available. `None` stands for all.
    pub needed_secrets: Option<&'static [&'static str]>,
}

impl Config {
    /// Loads the default, the file if one is given, the environment and the flags, and checks the result.
    ///
    /// # Errors
    /// Returns all problems, ordered by location.
    pub fn load(path: Option<&Path>, env: &Environment, flags: &Flags) -> Result<Self, Vec<Problem>> {
        valid(Self::read(path, env, flags))
    }

    /// Like [`Config::load`], but returns the keys that could be read together with the problems of the others.
    pub fn read(path: Option<&Path>, env: &Environment, flags: &Flags) -> (Self, Vec<Problem>) {
        let file = match path {
            None => None,
            Some(path) => {
                let name = path.display().to_string();
                match disk::read_named(path) {
                    Ok(text) => Some((name, text)),
                    Err(error) => return (keys::blank(), vec![unreadable(name, &error, OTHER_FILE)]),
                }
            }
        };
        let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        let (mut config, problems) = Self::read_text(file, env, flags);
        config.file = path.map(Path::to_owned);
        (config, problems)
    }

    /// Like [`Config::load`], but takes the file's name and text.
    ///
    /// # Errors
    /// Returns all problems, ordered by location.
    pub fn from_text(
        file: Option<(&str, &str)>,
        env: &Environment,
        flags: &Flags,
    ) -> Result<Self, Vec<Problem>> {
        valid(Self::read_text(file, env, flags))
    }

    fn read_text(file: Option<(&str, &str)>, env: &Environment, flags: &Flags) -> (Self, Vec<Problem>) {
        let (default, problems) = &*DEFAULT;
        let mut loader = Loader::new(env);
        loader.problems.clone_from(problems);
        let mut config = keys::blank();
        loader.file(&mut config, default);
        if let Some((name, text)) = file {
            let entries = read_toml(name, text, &mut loader.problems);
            // Only duplicate keys have help text, and they do not affect the lines after them. Every other
            // syntax error does.
            let broken = loader.problems.iter().filter(|problem| problem.help.is_none());
            let broken_at = broken.map(|problem| problem.origin.clone()).min();
            loader.file(&mut config, &entries);
            // After a broken line the parser attributes a section's keys to another section. Reporting those
            // as unknown would mislead.
            loader.problems.retain(|problem| {
                problem.kind != ProblemKind::Unknown
                    || broken_at.as_ref().is_none_or(|at| problem.origin < *at)
            });
        }
        // The environment comes after the file: upstream names in variables are matched against the file's
        // upstreams.
        let entries = loader.environment(&config);
        loader.layer(&mut config, &entries);
        loader.layer(&mut config, &flag_entries(flags));
        // After the layers, because the file and the environment may name the directory.
        loader.client_files(&mut config);
        rules::check(&mut config, &loader.origins, &mut loader.problems);
        loader.refuse_clients(&mut config);
        if let Some(needed) = flags.needed_secrets {
            loader.problems.retain(|problem| {
                problem.kind != ProblemKind::Unavailable || needed.contains(&problem.key.as_str())
            });
        }
        config.journal.secrets = own_secrets(&config);
        config.journal.cache_bytes = config.limits.cache_bytes / 4;
        config.secret_files = loader.secret_files;
        config.directories = directories::named(&loader.origins);
        config.variables = loader.variables;
        loader.problems.sort_by(|a, b| a.origin.cmp(&b.origin));
        (config, loader.problems)
    }

    /// Returns the documented default with free ports and a memory store, for tests. Reads no file.
    pub fn default_for_tests() -> Self {
        let text = "server.listen = '127.0.0.1:0'\nadmin.listen = '127.0.0.1:0'\nstore.kind = 'memory'\nstate.dir = '/nonexistent/baton-tests'";
        match Self::from_text(Some(("tests", text)), &Environment::default(), &Flags::default()) {
            Ok(config) => config,
            Err(problems) => unreachable!("the default is tested: {problems:?}"),
        }
    }
}

fn valid((config, problems): (Config, Vec<Problem>)) -> Result<Config, Vec<Problem>> {
    match problems.is_empty() {
        true => Ok(config),
        false => Err(problems),
    }
}

/// Collects all secrets of a config, which the journal and the log must never show.
fn own_secrets(config: &Config) -> Vec<Secret> {
    let headers = config.upstreams.values().flat_map(|upstream| &upstream.headers);
    let headers = headers.map(|(_, value)| value);
    headers.chain(config.keys()).cloned().collect()
}

/// Advice for a config file that cannot be read.
const OTHER_FILE: &str = "give another file with --config, or none for the defaults";

fn unreadable(name: String, error: &std::io::Error, help: &str) -> Problem {
    let message = format!("cannot be read: {error}");
    Problem::in_file(ProblemKind::Unreadable, name, message, help)
}

/// Returns the flags as a layer, keyed by the setting that each overrides.
fn flag_entries(flags: &Flags) -> Vec<RawEntry> {
    [
        ("--listen", "server", "listen", &flags.listen),
        ("--admin", "admin", "listen", &flags.admin),
        ("--state-dir", "state", "dir", &flags.state_dir),
        ("--log-level", "log", "level", &flags.log_level),
    ]
    .into_iter()
    .filter_map(|(flag, section, key, value)| {
        let path = [section.to_owned(), key.to_owned()];
        Some(nested(&path, value.as_ref()?, &KeyOrigin::Flag(flag)))
    })
    .collect()
}

/// Turns `a.b.c = value` into nested tables.
fn nested(path: &[String], word: &str, origin: &KeyOrigin) -> RawEntry {
    let raw = match path {
        [] | [_] => Raw::Word(word.to_owned()),
        [_, rest @ ..] => Raw::Table(vec![nested(rest, word, origin)]),
    };
    let (key_origin, origin) = (origin.clone(), origin.clone());
    RawEntry {
        key: path.first().cloned().unwrap_or_default(),
        key_origin,
        value: LocatedValue { raw, origin },
    }
}

/// Reads the layers into a config and collects their problems.
struct Loader<'a> {
    env: &'a Environment,
    problems: Vec<Problem>,
    /// Where each key was last set, for reporting conflicts.
    origins: BTreeMap<String, KeyOrigin>,
    /// Variables that set keys, and variables referenced by `{ env = "NAME" }`. The names of the latter are arbitrary and may
    /// begin with the prefix.
    variables: Vec<String>,
    /// Files referenced by `{ file = "PATH" }`.
    secret_files: Vec<PathBuf>,
}

impl<'a> Loader<'a> {
    fn new(env: &'a Environment) -> Self {
        Self {
            env,
            problems: Vec::new(),
            origins: BTreeMap::new(),
            variables: Vec::new(),
            secret_files: Vec::new(),
        }
    }

    /// Reads a file's entries and collects the variables that they reference.
    fn file(&mut self, config: &mut Config, entries: &[RawEntry]) {
        raw::named_variables(entries, &mut self.variables);
        self.layer(config, entries);
    }

    fn layer(&mut self, config: &mut Config, entries: &[RawEntry]) {
        for entry in entries {
            let section = SECTIONS.iter().find(|(name, _)| *name == entry.key);
            match (section, entry.key.as_str()) {
                (Some((name, keys)), _) => self.fields(config, keys, name, &entry.value),
                (None, UPSTREAMS) => self.upstreams(config, &entry.value),
                (None, CLIENTS) => self.clients(config, &entry.value),
                (None, BRAKE_TABLE) => self.fields(&mut config.brake, BRAKE, BRAKE_TABLE, &entry.value),
                (None, _) => self.unknown("", entry, keys::sections()),
            }
        }
    }

    /// Reads a table with the keys of its section.
    fn fields<T>(&mut self, target: &mut T, keys: &[&dyn ConfigKey<T>], path: &str, given: &LocatedValue) {
        let Some(entries) = self.table(path, given) else {
            return;
        };
        for entry in &entries {
            let Some(key) = keys.iter().find(|key| key.name() == entry.key) else {
                self.unknown(path, entry, keys.iter().map(|key| key.name()));
                continue;
            };
            let path = format!("{path}.{}", key.name());
            self.secret_files
                .extend(raw::secret_files(&entry.value, self.env));
            match key.read(target, &entry.value, self.env) {
                Ok(()) => {
                    self.origins.insert(path, entry.value.origin.clone());
                }
                Err(complaints) => self.complain(&path, &entry.value.origin, complaints),
            }
        }
    }

    fn upstreams(&mut self, config: &mut Config, given: &LocatedValue) {
        for entry in self.table(UPSTREAMS, given).unwrap_or_default() {
            let path = format!("{UPSTREAMS}.{}", entry.key);
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
            if entry.key.is_empty() || !entry.key.chars().all(legal) {
                let message = "an upstream's name is part of URLs";
                let help = "use lower-case letters, digits, `-` and `_`";
                let complaints = complaint(ProblemKind::Value, message, help);
                self.complain(&path, &entry.key_origin, complaints);
                continue;
            }
            self.origins
                // The first location outside of the built-in default is kept: a missing `base_url` is reported
                // where the upstream was introduced.
                .entry(path.clone())
                .and_modify(|origin| {
                    if origin.is_built_in() {
                        origin.clone_from(&entry.key_origin);
                    }
                })
                .or_insert_with(|| entry.key_origin.clone());
            let upstream = config.upstreams.entry(entry.key.clone()).or_default();
            self.fields(upstream, UPSTREAM, &path, &entry.value);
        }
    }

    fn table(&mut self, path: &str, given: &LocatedValue) -> Option<Vec<RawEntry>> {
        let entries = match given.structured().map(|given| given.raw) {
            Ok(Raw::Table(entries)) => Ok(entries),
            Ok(_) => given.expected("a table", &format!("write [{path}] and its keys below")),
            Err(complaints) => Err(complaints),
        };
        let complained = |complaints| self.complain(path, &given.origin, complaints);
        entries.map_err(complained).ok()
    }

    fn complain(&mut self, path: &str, origin: &KeyOrigin, complaints: Vec<ValueError>) {
        // Recorded as set: a key with an invalid value must not be reported as missing in addition.
        self.origins.insert(path.to_owned(), origin.clone());
        self.problems
            .extend(complaints.into_iter().map(|complaint| Problem {
                kind: complaint.kind,
                origin: complaint.at.unwrap_or_else(|| origin.clone()),
                key: path.to_owned(),
                message: complaint.message,
                help: Some(complaint.help),
            }));
    }

    fn unknown(&mut self, path: &str, entry: &RawEntry, siblings: impl Iterator<Item = &'static str>) {
        let dot = if path.is_empty() { "" } else { "." };
        let key = format!("{path}{dot}{}", entry.key);
        let elsewhere = || keys::all().find(|(known, _)| known.ends_with(&format!(".{}", entry.key)));
        let meant = match closest_name(&entry.key, siblings) {
            Some(name) => Some(format!("{path}{dot}{name}")),
            None => elsewhere().map(|(known, _)| known),
        };
        let help = match meant {
            Some(known) => format!("did you mean `{}`?", spelled(&known, &entry.key_origin)),
            None => "delete it; `baton check --defaults` prints every key".to_owned(),
        };
        let what = if path.is_empty() { "section" } else { "key" };
        self.problems.push(Problem {
            kind: ProblemKind::Unknown,
            origin: entry.key_origin.clone(),
            message: format!("there is no {what} `{}`", entry.key),
            key,
            help: Some(help),
        });
    }

    /// Returns the environment as a layer.
    fn environment(&mut self, config: &Config) -> Vec<RawEntry> {
        let mut layer = Vec::new();
        for (name, value) in self.env.iter() {
            let Some(rest) = name.strip_prefix(PREFIX) else {
                continue;
            };
            let origin = KeyOrigin::Variable(name.to_owned());
            let mut path: Vec<String> = rest.to_lowercase().split("__").map(str::to_owned).collect();
            if path.len() == 1 && path[0] != CLIENTS {
                // Not a key: an orchestrator sets `BATON_PORT` and the like. Reported only if it looks like a
                // misspelled key.
                if !self.variables.iter().any(|named| named == name) {
                    self.problems.extend(single_underscore(rest, origin));
                }
                continue;
            }
            if let [section, upstream, ..] = path.as_mut_slice()
                && section == UPSTREAMS
            {
                // Variable names cannot contain a dash, so `_` matches the `-` of a known upstream's name.
                let mut known = config.upstreams.keys();
                if let Some(known) = known.find(|known| known.replace('-', "_") == *upstream) {
                    upstream.clone_from(known);
                }
            }
            self.variables.push(name.to_owned());
            layer.push(nested(&path, value, &origin));
        }
        layer
    }
}

/// Spells a key in the notation of its origin.
fn spelled(key: &str, origin: &KeyOrigin) -> String {
    match origin {
        KeyOrigin::Variable(_) => variable_name(key),
        _ => key.to_owned(),
    }
}

/// Returns the environment variable that sets a key.
fn variable_name(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', "__"))
}

/// Reports a variable that misses an underscore, such as `BATON_SERVER_LISTEN` for `BATON_SERVER__LISTEN`.
fn single_underscore(rest: &str, origin: KeyOrigin) -> Option<Problem> {
    let word = rest.to_lowercase();
    let mut keys = keys::all().map(|(key, _)| key);
    let key = keys.find(|key| key.replace('.', "_") == word)?;
    Some(Problem {
        kind: ProblemKind::Unknown,
        origin,
        message: "a section and its key are separated by two underscores".to_owned(),
        help: Some(format!("did you mean `{}`?", variable_name(&key))),
        key,
    })
}

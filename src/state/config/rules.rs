//! Rules that involve several keys: required combinations and conflicts.

use std::collections::BTreeMap;

use baton_core::record::LOCAL;

use super::problem::{KeyOrigin, Problem, ProblemKind};
use super::{Config, StoreKind, UpstreamConfig};

/// Words in the names of headers that hold a credential, such as `x-gateway-key`.
const CREDENTIAL_WORDS: [&str; 9] = [
    "apikey",
    "auth",
    "authorization",
    "cookie",
    "credential",
    "key",
    "password",
    "secret",
    "token",
];

/// Upstreams with the path prefix of their requests, which `base_url` must not repeat.
const DOUBLED: &[(&str, &str)] = &[
    ("anthropic", "/v1"),
    ("openai", "/v1"),
    ("gemini", "/v1beta"),
    ("chatgpt", "/backend-api"),
    ("chatgpt", "/backend-api/codex"),
    ("codeassist", "/v1internal"),
];

/// Completes the config and reports conflicts.
pub(super) fn check(config: &mut Config, origins: &BTreeMap<String, KeyOrigin>, problems: &mut Vec<Problem>) {
    let mut rules = RuleChecker { origins, problems };
    rules.tls(config);
    rules.state(config);
    rules.seal_keys(config);
    rules.store(config);
    rules.upstreams(config);
    rules.reached_upstreams(config);
    rules.clients(config);
    rules.admin_tokens(config);
    // After `reached_upstreams`, since the key of a removed upstream is in nobody's reach.
    rules.exposure(config);
    rules.addresses(config);
    rules.limits(config);
}

struct RuleChecker<'a> {
    origins: &'a BTreeMap<String, KeyOrigin>,
    problems: &'a mut Vec<Problem>,
}

impl RuleChecker<'_> {
    fn missing(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.report(ProblemKind::Missing, key, message, help);
    }

    fn conflict(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.report(ProblemKind::Conflict, key, message, help);
    }

    fn report(&mut self, kind: ProblemKind, key: &str, message: impl Into<String>, help: impl Into<String>) {
        let origin = self.origins.get(key).cloned();
        self.problems.push(Problem {
            kind,
            origin: origin.unwrap_or_else(|| KeyOrigin::File("config".to_owned())),
            key: key.to_owned(),
            message: message.into(),
            help: Some(help.into()),
        });
    }

    fn tls(&mut self, config: &Config) {
        let mut lacks = |given: &str, other: &str| {
            // An invalid path was reported already.
            if !self.origins.contains_key(other) {
                let help = format!("set `{other}`, or leave both out for plain HTTP");
                self.missing(given, format!("it needs `{other}` as well"), help);
            }
        };
        for (section, at) in [("server", &config.server.at), ("admin", &config.admin.at)] {
            let [named_chain, named_key] = ["tls_cert", "tls_key"].map(|name| format!("{section}.{name}"));
            match (&at.tls_cert, &at.tls_key) {
                (Some(_), None) => lacks(&named_chain, &named_key),
                (None, Some(_)) => lacks(&named_key, &named_chain),
                _ => {}
            }
        }
    }

    fn seal_keys(&mut self, config: &Config) {
        let both = ["handoff.seal_key", "handoff.seal_key_dir"];
        // An invalid path was reported already: it has an origin and no value.
        if both.iter().all(|key| self.origins.contains_key(*key)) && config.handoff.seal_key_dir.is_some() {
            let message = "the seal keys are given as `handoff.seal_key` as well";
            self.conflict("handoff.seal_key_dir", message, "give one of the two");
        }
    }

    fn state(&mut self, config: &mut Config) {
        let platform = || {
            let directories = directories::ProjectDirs::from("", "", "baton")?;
            Some(
                directories
                    // Only Linux has a separate directory for state.
                    .state_dir()
                    .unwrap_or(directories.data_local_dir())
                    .to_owned(),
            )
        };
        // An invalid directory was reported already.
        if self.origins.contains_key("state.dir") {
            return;
        }
        match platform() {
            Some(dir) => config.state_dir = dir,
            None => {
                let message = "this user has no home directory to keep state in";
                self.missing("state.dir", message, "set `state.dir`, or give --state-dir");
            }
        }
    }

    fn store(&mut self, config: &Config) {
        let store = &config.store;
        // An invalid URL was reported already.
        if store.kind == StoreKind::Redis
            && store.address.is_none()
            && !self.origins.contains_key("store.url")
        {
            let help = "set `store.url`, such as \"redis://127.0.0.1:6379\"";
            self.missing("store.kind", "\"redis\" needs `store.url` as well", help);
        }
    }

    fn upstreams(&mut self, config: &Config) {
        for (name, upstream) in &config.upstreams {
            let path = format!("upstreams.{name}");
            let key = format!("{path}.base_url");
            if upstream.base_url.is_empty() && !self.origins.contains_key(&key) {
                let help = "set its `base_url`, such as \"https://api.example.com\"";
                self.missing(&path, "the upstream has no `base_url`", help);
            }
            let doubled = DOUBLED
                .iter()
                .find(|(native, version)| native == name && upstream.base_url.ends_with(version));
            if let Some((_, version)) = doubled {
                let short = upstream.base_url.trim_end_matches(version);
                let message =
                    format!("the path of each request begins with {version}, so it would be sent twice");
                self.conflict(&key, message, format!("write \"{short}\""));
            }
        }
    }

    /// Removes the upstreams that requests must not reach.
    ///
    /// If `server.upstreams` is empty, a listener that other machines can reach serves only the upstreams that the
    /// operator has configured. Otherwise anybody could use it to reach all built-in ones.
    fn reached_upstreams(&mut self, config: &mut Config) {
        let listed = &config.server.upstreams;
        for name in listed.iter().filter(|name| !config.upstreams.contains_key(*name)) {
            let message = format!("there is no upstream {name:?}");
            let help = "add it as [upstreams.NAME], or correct the name";
            self.conflict("server.upstreams", message, help);
        }
        let is_named = |name: &String| {
            let path = format!("upstreams.{name}");
            // `upstreams.open` is also the beginning of `upstreams.openai`, so the end of the name is compared below.
            let from = self.origins.range(path.clone()..);
            let mut origins = from.take_while(|(key, _)| key.starts_with(&path));
            origins.any(|(key, origin)| {
                (*key == path || key[path.len()..].starts_with('.')) && !origin.is_built_in()
            })
        };
        let named: Vec<String> = match listed.is_empty() {
            false => listed.clone(),
            true if config.server.at.listen.ip().is_loopback() => return,
            true => {
                let names = config.upstreams.keys().filter(|name| is_named(name));
                names.cloned().collect()
            }
        };
        // An operator who configures no upstream wants the built-in ones.
        if !named.is_empty() {
            config.upstreams.retain(|name, _| named.contains(name));
        }
    }

    fn clients(&mut self, config: &Config) {
        let clients = &config.clients;
        for (index, client) in clients.iter().enumerate() {
            let path = format!("clients.{index}");
            let has_digest = self.origins.contains_key(&format!("{path}.key_sha256"));
            for (name, empty) in [
                ("name", client.name.is_empty()),
                ("key", client.key.is_none() && !has_digest),
            ] {
                if empty && !self.origins.contains_key(&format!("{path}.{name}")) {
                    let message = format!("the client has no `{name}`");
                    self.missing(&path, message, format!("set its `{name}`"));
                }
            }
            // That client would share the handoffs from before there were clients, and no log line would name it.
            let is_reserved = client.name == LOCAL;
            if is_reserved || client.name.contains(char::is_control) {
                let message = match is_reserved {
                    true => "this name stands for requests without a client",
                    false => "the client's name contains a control character",
                };
                let key = format!("{path}.name");
                self.report(ProblemKind::Value, &key, message, "choose another name");
            }
            // Compared only with earlier entries, so that each duplicate is reported once.
            let earlier = &clients[..index];
            if !client.name.is_empty() && earlier.iter().any(|other| other.name == client.name) {
                let message = format!("there is another client {:?}", client.name);
                let help = "give each client a name of its own";
                self.conflict(&format!("{path}.name"), message, help);
            }
            let key = match client.key {
                Some(_) => format!("{path}.key"),
                None => format!("{path}.key_sha256"),
            };
            if client.key.is_some() && client.key_sha256.is_some() {
                let help = "give one of the two";
                self.conflict(&key, "`key_sha256` is given as well", help);
            }
            let digest = client.digest();
            if digest.is_some() && earlier.iter().any(|other| other.digest() == digest) {
                let help = "give each client a key of its own";
                self.conflict(&key, "another client has the same key", help);
            }
        }
    }

    /// Requires that each secret has one purpose. A client whose key is also an admin token could read the prompts of
    /// others.
    fn admin_tokens(&mut self, config: &Config) {
        let admin = &config.admin;
        if admin.token.is_none() && !self.origins.contains_key("admin.token") {
            for (key, _) in admin.tokens() {
                let help = "set `admin.token`: with only this token nobody could open the rest";
                self.missing(key, "it needs `admin.token` as well", help);
            }
        }
        let tokens = admin.tokens().map(|(key, token)| (key, token, token.digest()));
        let tokens: Vec<_> = tokens.collect();
        for (at, (key, token, digest)) in tokens.iter().enumerate() {
            if let Some((other, ..)) = tokens[..at].iter().find(|(_, other, _)| other == token) {
                let message = format!("`{other}` has the same value");
                let help = "give each token a value of its own";
                self.conflict(key, message, help);
            }
            let mut clients = config.clients.iter();
            if let Some(client) = clients.find(|client| client.digest() == Some(*digest)) {
                let name = &client.name;
                let message = format!("it is the key of the client {name:?}, who could read all prompts");
                let help = "give the token a value of its own";
                self.conflict(key, message, help);
            }
        }
    }

    /// Requires authentication on listeners that other machines can reach.
    fn exposure(&mut self, config: &Config) {
        let mut upstreams = config.upstreams.iter();
        let keyed = upstreams.find(|(_, upstream)| upstream.has_own_key());
        if let Some((name, _)) = keyed
            && !config.server.at.listen.ip().is_loopback()
            && !config.requires_clients()
        {
            let message = format!(
                "{} is not loopback, and upstream `{name}` has a key of the proxy's own: anybody who reaches it could use that key",
                config.server.at.listen
            );
            let help = "add a [[clients]] entry for each user, or listen on 127.0.0.1, or remove the key";
            self.conflict("server.listen", message, help);
        }
        if !config.admin.at.listen.ip().is_loopback()
            && config.admin.token.is_none()
            // An invalid token was reported already.
            && !self.origins.contains_key("admin.token")
        {
            let listen = config.admin.at.listen;
            let message = format!(
                "{listen} is not loopback, and there is no `admin.token`: anybody who reaches it could read prompts"
            );
            self.conflict(
                "admin.listen",
                message,
                "set `admin.token`, or listen on 127.0.0.1",
            );
        }
    }

    /// The limit of all bodies must hold at least one body, both compressed and decompressed.
    fn limits(&mut self, config: &Config) {
        let (one, all) = (config.limits.body_bytes, config.limits.bodies_bytes);
        // Zero means that an invalid value was reported already.
        let least = one.saturating_mul(2);
        if one == 0 || all == 0 || all >= least {
            return;
        }
        let message =
            format!("{all} is less than twice `limits.body_bytes`: one compressed body would not fit");
        let help = format!("write {least} or more, or lower `limits.body_bytes`");
        self.conflict("limits.bodies_bytes", message, help);
    }

    fn addresses(&mut self, config: &Config) {
        let (data, admin) = (config.server.at.listen, config.admin.at.listen);
        // Port 0 picks a different free port for each listener.
        if data == admin && data.port() != 0 {
            let message = format!("{admin} is the address of `server.listen` too");
            self.conflict("admin.listen", message, "give each listener a port of its own");
        }
    }
}

impl UpstreamConfig {
    /// Whether requests to this upstream carry one of the proxy's credentials.
    pub fn has_own_key(&self) -> bool {
        self.api_key.is_some() || self.headers.iter().any(|(name, _)| Self::is_credential(name))
    }

    /// Whether a header of this name holds a credential.
    pub fn is_credential(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        name.split(['-', '_'])
            .any(|word| CREDENTIAL_WORDS.contains(&word))
    }
}

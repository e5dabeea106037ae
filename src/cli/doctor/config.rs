//! Checks that need only the config, and the store's server that it names: `baton check`.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

use super::finding::Finding;
use super::installation::read_store;
use crate::cli::output::shown;
use baton_core::nudge;
use baton_serve::proxy::certificate::{self, Certificate};
use baton_serve::proxy::upstream::Upstreams;
use baton_state::access::hosts;
use baton_state::config::{
    Config, HandoffPolicy, ListenAddress, Problem, ServerDurability, StoreKind, Topology,
};
use baton_state::{disk, prices};

/// Findings for an invalid config.
pub(super) fn problems(problems: &[Problem]) -> Vec<Finding> {
    let finding = |problem: &Problem| {
        let subject = match problem.key.as_str() {
            "" => problem.origin.to_string(),
            key => format!("{}: {key}", problem.origin),
        };
        let help = match &problem.help {
            // A question ("did you mean …?") does not read as an instruction.
            Some(help) if help.ends_with('?') => format!("correct it: {help}"),
            Some(help) => help.clone(),
            None => "correct it; `baton check` checks it again".to_owned(),
        };
        Finding::error(subject, problem.message.clone(), help)
    };
    problems.iter().map(finding).collect()
}

/// Warnings about valid settings that the owner may not want.
pub(super) fn warnings(config: &Config) -> Vec<Finding> {
    let mut findings = problems(&config.refused_clients);
    findings.extend(problems(&config.directory_problems()));
    findings.extend(unreached_thresholds(&config.handoff));
    findings.extend(open_listener(config, config.server.at.listen));
    findings.extend(team(config));
    findings.extend(plain_http(config));
    findings.extend(sentinels(config));
    findings.extend(refused_files(config));
    findings.extend(expired_certificates(config));
    findings.extend(broken_proxies());
    findings.extend(open_to_others(config));
    if findings.is_empty() {
        findings.push(Finding::ok("all keys", "no problems"));
    }
    findings
}

/// Errors of the config's files that `baton serve` refuses: certificates, prompts, prices.
pub(in crate::cli) fn refused_files(config: &Config) -> Vec<Finding> {
    let certificate = |key, at: &ListenAddress| (key, Certificate::configured(at.tls()).err());
    let prices = config.bill.prices.as_deref();
    let rows = [
        certificate("server.tls_cert", &config.server.at),
        certificate("admin.tls_cert", &config.admin.at),
        ("draft.prompts_dir", config.prompts().err()),
        ("bill.prices", prices::table(prices).err().map(io::Error::other)),
        ("upstreams", Upstreams::new(config).err()),
    ];
    let finding = |(key, error): (&str, Option<io::Error>)| {
        Some(Finding::error(
            key,
            error?.to_string(),
            "fix the file; `baton serve` refuses it",
        ))
    };
    rows.into_iter().filter_map(finding).collect()
}

/// Warns of certificates that no client accepts any longer, or not yet.
fn expired_certificates(config: &Config) -> impl Iterator<Item = Finding> {
    let listeners = [
        ("server.tls_cert", &config.server.at),
        ("admin.tls_cert", &config.admin.at),
    ];
    listeners.into_iter().filter_map(|(key, at)| {
        let (chain, _) = at.tls()?;
        let outdated = certificate::is_outdated(chain).then(|| shown(chain))?;
        let message = format!("{outdated} has expired, or is not valid yet");
        Some(Finding::warning(
            key,
            message,
            "renew it; a running proxy follows",
        ))
    })
}

/// Warns of variables that name no outbound proxy. Their values may have a password.
fn broken_proxies() -> impl Iterator<Item = Finding> {
    Upstreams::broken_proxies().map(|name| {
        let message = "it is not the URL of a proxy, so requests that would use it fail";
        Finding::warning(
            name,
            message,
            "correct or remove the variable, or list the hosts in NO_PROXY",
        )
    })
}

/// Checks the settings of the store's server, if the store has one.
pub(super) fn store_server(config: &Config) -> Option<Finding> {
    if config.store.kind != StoreKind::Redis {
        return None;
    }
    Some(
        match read_store(config, async |store| store.settings_problem().await) {
            Ok(None) => Finding::ok("store.url", "the server answers, and its settings keep handoffs"),
            Ok(Some(why)) => Finding::error("store.durability", why, "fix the server's settings, or the key"),
            Err(error) => Finding::error("store.url", error.message, "start the server, or fix the URL"),
        },
    )
}

/// Warns of a data listener that other machines reach while no client needs a key.
///
/// `listen` is its address, bound or configured.
pub(in crate::cli) fn open_listener(config: &Config, listen: SocketAddr) -> Option<Finding> {
    (!listen.ip().is_loopback() && config.clients.is_empty()).then(|| {
        let message = format!(
            "anyone who can reach {listen} may use this proxy without a key. Only users with an API key of their own are \
             told apart: users of a subscription may resume and undo each other's handoffs"
        );
        let help = "add a [[clients]] entry for each user, or listen on 127.0.0.1";
        Finding::warning("server.listen", message, help)
    })
}

/// Warns of keys and prompts that somebody other than their client can read.
fn team(config: &Config) -> Vec<Finding> {
    let (server, admin) = (&config.server, &config.admin);
    let has_clients = !config.clients.is_empty();
    let is_open = |listen: SocketAddr| !listen.ip().is_loopback();
    let plain = |key, what: &str, listen: SocketAddr, help| {
        let message = format!("{listen} is plain HTTP: {what} can be read in transit");
        Finding::warning(key, message, help)
    };
    let rows = [
        (has_clients && is_open(server.at.listen) && server.at.tls().is_none()).then(|| {
            let help = "set `server.tls_cert` and `server.tls_key`, or leave it if a load balancer with TLS is before it";
            plain("server.listen", "the clients' keys and all prompts", server.at.listen, help)
        }),
        is_open(admin.at.listen).then(|| {
            let help = "listen on 127.0.0.1, or leave it if only a trusted network reaches it";
            plain("admin.listen", "the token and all prompts", admin.at.listen, help)
        }),
        (has_clients && admin.token.is_none()).then(|| {
            let message = "without a token every user of this machine can read the prompts of all clients";
            Finding::warning("admin.token", message, "set it")
        }),
        (!config.requires_clients() && !server.hosts.is_empty() && !is_open(server.at.listen)).then(|| {
            let message = "others reach this listener by these names, and none of them needs a key";
            Finding::warning("server.hosts", message, "add a [[clients]] entry for each user, or leave it if you are the only one")
        }),
    ];
    rows.into_iter().flatten().collect()
}

/// Warns of secrets that other users of this machine can read, and of files that they can change.
fn open_to_others(config: &Config) -> Vec<Finding> {
    let has =
        |path: &Path, bits: u32| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & bits != 0);
    // A closed directory protects its files, whatever their modes.
    let is_open = |path: &Path, bits| has(path, bits) && path.parent().is_none_or(|dir| has(dir, 0o001));
    let keys = [&config.server.at, &config.admin.at].map(|at| at.tls_key.clone());
    let secrets: Vec<_> = config
        .secret_files
        .iter()
        .cloned()
        .chain(keys.into_iter().flatten())
        .collect();
    let dir = config.server.clients_dir.clone();
    let clients = config.clients.iter().filter_map(|client| client.file.clone());
    // A client's file mostly has a digest, and the config refers to secrets elsewhere: both may be readable then.
    let written = config.file.iter().cloned().chain(clients.clone());
    let written = written.filter(|path| holds_secret(config, path));
    let rows = [
        (secrets.clone(), 0o004, "can read this secret", "o-r"),
        (written.collect(), 0o004, "can read a secret in it", "o-r"),
        (secrets, 0o002, "can change this secret", "o-w"),
        (
            dir.into_iter().chain(clients).collect(),
            0o002,
            "can add or change clients",
            "o-w",
        ),
        (
            config.file.iter().cloned().collect(),
            0o002,
            "can change the config",
            "o-w",
        ),
    ];
    let findings = rows.into_iter().flat_map(|(paths, bits, message, fix)| {
        let open = paths.into_iter().filter(move |path| is_open(path, bits));
        open.map(move |path| {
            let message = format!("other users of this machine {message}");
            Finding::warning(shown(&path), message, format!("chmod {fix} {}", shown(&path)))
        })
    });
    findings.collect()
}

/// Whether a file has a key or token in its text.
fn holds_secret(config: &Config, path: &Path) -> bool {
    let text = disk::read_named(path).unwrap_or_default();
    config.keys().any(|key| text.contains(key.reveal()))
}

/// Warns of Sentinels with a durability that a failover does not keep.
fn sentinels(config: &Config) -> Option<Finding> {
    let address = config.store.address.as_ref()?;
    let is_sentinel = matches!(address.topology, Topology::Sentinel { .. });
    (is_sentinel && config.store.durability == ServerDurability::Fsync).then(|| {
        let message = "a failover loses handoffs that only the former primary has in its file";
        Finding::warning("store.durability", message, "set \"replicated\" and `min-replicas-to-write 1` on the servers, or leave it if that is acceptable")
    })
}

/// Warns of keys and spans that go to another machine over plain HTTP.
fn plain_http(config: &Config) -> Vec<Finding> {
    let upstreams = config.upstreams.iter();
    let keyed = upstreams.filter(|(_, upstream)| upstream.has_own_key());
    let keyed = keyed.map(|(name, upstream)| {
        let key = format!("upstreams.{name}.base_url");
        (key, upstream.base_url.as_str(), "the key")
    });
    let otlp = config.telemetry.otlp_endpoint.as_deref();
    let traced = otlp.map(|url| ("telemetry.otlp_endpoint".to_owned(), url, "every trace"));
    let plain = keyed.chain(traced).filter(|(_, url, _)| is_plain_elsewhere(url));
    plain
        .map(|(key, url, what)| {
            let message = format!("{url} is plain HTTP to another machine: {what} can be read in transit");
            let help = "use https, or leave it if you trust the network in between";
            Finding::warning(key, message, help)
        })
        .collect()
}

/// Whether a URL is plain HTTP to a host that is neither this machine nor in a private network.
fn is_plain_elsewhere(url: &str) -> bool {
    let Ok(url) = url.parse::<http::Uri>() else {
        return false;
    };
    url.scheme_str() == Some("http") && !hosts::is_private(url.host().unwrap_or_default())
}

/// Warns of thresholds that an agent never reaches because it compacts earlier, at least in its older windows.
fn unreached_thresholds(policy: &HandoffPolicy) -> Vec<Finding> {
    let thresholds = [
        ("handoff.nudge_at", Some(policy.thresholds.nudge_at)),
        ("handoff.auto_at", Some(policy.thresholds.auto_at)),
        ("handoff.subagent_nudge_at", policy.subagents.nudge_at),
        ("handoff.subagent_auto_at", policy.subagents.auto_at),
    ];
    let warning = |(key, share): (&'static str, Option<f64>)| {
        let share = share?;
        let windows = nudge::AGENTS.iter().filter_map(|agent| {
            let mut windows = [nudge::PRESENT, nudge::OLDER].into_iter();
            let (window, point) = windows
                .find_map(|window| Some((window, agent.share(window))).filter(|(_, point)| share > *point))?;
            let name = agent.agent;
            let percent = point * 100.0;
            Some(match window == nudge::PRESENT {
                true => format!("{name} ({percent:.0}%)"),
                false => format!("{name} ({percent:.0}% with a window of {window} tokens)"),
            })
        });
        let windows: Vec<String> = windows.collect();
        let (percent, agents) = (share * 100.0, windows.join(", "));
        (!windows.is_empty()).then(|| {
            let message = format!("{percent:.0}% of the window is above the point at which some agents compact on their own, so they never reach it: {agents}");
            Finding::warning(key, message, "change the key, or leave it if that is intended")
        })
    };
    thresholds.into_iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_state::config::Config;

    #[test]
    fn a_threshold_that_an_agent_never_reaches_is_warned_of() {
        let mut policy = Config::default_for_tests().handoff;
        assert_eq!(unreached_thresholds(&policy), []);
        policy.thresholds.nudge_at = 0.75;
        let [warning] = &unreached_thresholds(&policy)[..] else {
            panic!()
        };
        assert_eq!(warning.subject, "handoff.nudge_at");
        let agents = "never reach it: gemini (50%), qwen (70%)";
        assert!(warning.message.ends_with(agents), "{warning:?}");
        policy.thresholds.auto_at = 0.75;
        policy.subagents.nudge_at = Some(0.5);
        policy.subagents.auto_at = Some(0.95);
        let warnings = unreached_thresholds(&policy);
        let keys = warnings.iter().map(|warning| warning.subject.as_str());
        let expected = ["handoff.nudge_at", "handoff.auto_at", "handoff.subagent_auto_at"];
        assert_eq!(keys.collect::<Vec<_>>(), expected);
        let late = &warnings[2].message;
        for agent in ["claude (84% with a window of 200000 tokens)", "codex (90%)"] {
            assert!(late.contains(agent), "{late}");
        }
    }

    #[test]
    fn a_key_that_goes_elsewhere_in_plain_is_warned_of() {
        for (url, warned) in [
            ("http://gateway.example.com", true),
            ("http://203.0.113.5:8080/v1", true),
            ("https://gateway.example.com", false),
            ("http://localhost:11434", false),
            ("http://127.0.0.1:1", false),
            ("http://[::1]:1", false),
            ("http://10.0.0.5", false),
            ("http://litellm:4000", false),
        ] {
            assert_eq!(is_plain_elsewhere(url), warned, "{url}");
            let mut config = Config::default_for_tests();
            let openai = config.upstreams.get_mut("openai").unwrap();
            url.clone_into(&mut openai.base_url);
            assert_eq!(plain_http(&config).len(), 0, "without a key");
            openai_key(&mut config);
            config.telemetry.otlp_endpoint = Some(url.to_owned());
            assert_eq!(plain_http(&config).len(), if warned { 2 } else { 0 }, "{url}");
        }
    }

    fn openai_key(config: &mut Config) {
        let text = "[upstreams.openai]\napi_key = 'k'";
        let keyed = Config::from_text(Some(("f", text)), &Default::default(), &Default::default()).unwrap();
        let openai = config.upstreams.get_mut("openai").unwrap();
        openai.api_key.clone_from(&keyed.upstreams["openai"].api_key);
    }

    #[test]
    fn an_open_listener_without_clients_is_warned_of() {
        let mut config = Config::default_for_tests();
        for (listen, open) in [
            ("127.0.0.1:8787", false),
            ("[::1]:8787", false),
            ("0.0.0.0:8787", true),
            ("[::]:8787", true),
            ("10.0.0.5:0", true),
        ] {
            config.server.at.listen = listen.parse().unwrap();
            let warning = open_listener(&config, config.server.at.listen);
            assert_eq!(warning.is_some(), open, "{listen}");
            if let Some(warning) = warning {
                assert!(warning.message.contains(listen), "{warning:?}");
                assert!(warning.help.unwrap().contains("[[clients]]"), "{listen}");
            }
        }
    }

    #[test]
    fn files_with_secrets_that_others_can_read_or_change_are_warned_of() {
        let dir = tempfile::tempdir().unwrap();
        let set =
            |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(dir.path(), 0o755);
        let clients = dir.path().join("clients");
        fs::create_dir(&clients).unwrap();
        let key = "key = 'key-of-ada-012345'\n";
        let digest = format!("key_sha256 = '{}'\n", "ab".repeat(32));
        let files = [
            ("tls.key", "a private key"),
            ("token", "words-of-the-operators"),
            ("clients/ada.toml", key),
            ("clients/bob.toml", &digest),
        ];
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let text = format!(
            "[server]\nclients_dir = '{0}/clients'\ntls_cert = '{0}/tls.key'\ntls_key = '{0}/tls.key'\n[admin]\ntoken = {{ file = '{0}/token' }}",
            dir.path().display()
        );
        let config = Config::from_text(Some(("f", &text)), &Default::default(), &Default::default()).unwrap();
        let found = |mode: u32| {
            for (name, _) in files {
                set(&dir.path().join(name), mode);
            }
            let found = open_to_others(&config).into_iter();
            let named = found.map(|finding| {
                let subject = finding.subject.rsplit('/').next().unwrap().to_owned();
                format!("{subject}: {}", finding.message)
            });
            let mut named: Vec<_> = named.collect();
            named.sort();
            named
        };
        assert_eq!(found(0o640), [""; 0]);
        let told = |file: &str, what: &str| format!("{file}: other users of this machine {what}");
        let read = "can read this secret";
        assert_eq!(
            found(0o644),
            [
                told("ada.toml", "can read a secret in it"),
                told("tls.key", read),
                told("token", read)
            ]
        );
        let change = "can add or change clients";
        assert_eq!(
            found(0o602)[..2],
            [told("ada.toml", change), told("bob.toml", change)]
        );
        set(dir.path(), 0o700);
        set(&clients, 0o700);
        assert_eq!(found(0o644), [""; 0], "a closed directory");
    }

    #[test]
    fn a_team_is_warned_of_what_others_can_read() {
        let subjects = |text: &str| {
            let config =
                Config::from_text(Some(("f", text)), &Default::default(), &Default::default()).unwrap();
            let found = team(&config).into_iter().map(|finding| finding.subject);
            found.collect::<Vec<_>>().join(" ")
        };
        let clients = "[[clients]]\nname = 'ada'\nkey = '0123456789abcdef'\n";
        let token = "admin.token = 'words-of-the-operators'\n";
        let open = "server.listen = '0.0.0.0:1'\n";
        let hosts = "server.hosts = ['baton.example']\n";
        for (parts, expected) in [
            (&[][..], ""),
            (&[clients], "admin.token"),
            (&[token, open, clients], "server.listen"),
            (&[token, "admin.listen = '0.0.0.0:2'\n"], "admin.listen"),
            (&[hosts], "server.hosts"),
            (&[token, hosts, clients], ""),
        ] {
            assert_eq!(subjects(&parts.concat()), expected, "{parts:?}");
        }
    }
}

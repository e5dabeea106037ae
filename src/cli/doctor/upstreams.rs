//! Checks whether the upstreams answer, and names their protocol.

use std::collections::BTreeSet;

use http::Version;

use super::finding::Finding;
use super::installation::{Installation, UpstreamProbe};
use crate::state::config::{Config, Environment, Flags};

/// Checks whether each upstream answers.
///
/// Any status below 500 counts, because most upstreams refuse a request without a credential.
pub(super) fn reachable(installation: &Installation) -> Vec<Finding> {
    let journal = installation.journal.as_ref().ok().and_then(Option::as_ref);
    // On a server a client's request does not tell what the operator wants.
    let journal = journal.filter(|_| !installation.is_server());
    let recorded = journal.map(|summary| &summary.upstreams);
    findings(&installation.probes, &used(&installation.config, recorded))
}

/// Returns the upstreams that are in use according to the journal or the config.
///
/// A built-in upstream is not enough, because nobody uses all of them.
pub(super) fn used(config: &Config, recorded: Option<&BTreeSet<String>>) -> BTreeSet<String> {
    let mut used = recorded.cloned().unwrap_or_default();
    let built_in = Config::from_text(None, &Environment::default(), &Flags::default());
    let built_in = built_in.map(|config| config.upstreams).unwrap_or_default();
    let own = config.upstreams.iter().filter(|(name, upstream)| {
        let same = built_in
            .get(*name)
            .is_some_and(|known| known.base_url == upstream.base_url);
        // A changed URL or a key shows that the owner wants this upstream.
        !same || upstream.api_key.is_some()
    });
    used.extend(own.map(|(name, _)| name.clone()));
    used
}

pub(super) fn findings(probes: &[UpstreamProbe], used: &BTreeSet<String>) -> Vec<Finding> {
    let finding = |probe: &UpstreamProbe| {
        let subject = probe.name.clone();
        match &probe.answer {
            Ok((status, _)) if status.is_server_error() => Finding::warning(
                subject,
                format!("{} answers with status {}", probe.base_url, status.as_u16()),
                "check the provider's status page, or the gateway of that URL",
            ),
            Ok((status, version)) => {
                let protocol = protocol(*version, &probe.base_url);
                let message = format!(
                    "{} answers, {protocol} (status {})",
                    probe.base_url,
                    status.as_u16()
                );
                Finding::ok(subject, message)
            }
            Err(why) => {
                let message = format!("{} cannot be reached: {why}", probe.base_url);
                let help = format!("check network, DNS and firewall, or `upstreams.{subject}.base_url`");
                match used.contains(&subject) {
                    true => Finding::error(subject, message, help),
                    false => {
                        let unused = format!("ignore this if you do not use it; otherwise {help}");
                        Finding::warning(subject, message, unused)
                    }
                }
            }
        }
    };
    match no_network(probes, used) {
        Some(finding) => vec![finding],
        None => probes.iter().map(finding).collect(),
    }
}

/// Reports a single problem if none of several upstreams can be reached, because the network is then the
/// likely cause.
fn no_network(probes: &[UpstreamProbe], used: &BTreeSet<String>) -> Option<Finding> {
    let (first, others) = probes.split_first()?;
    let why = first.answer.as_ref().err()?;
    if others.is_empty() || others.iter().any(|probe| probe.answer.is_ok()) {
        return None;
    }
    let (subject, help) = ("network", "check network, DNS and firewall, or the base URLs");
    let message = format!(
        "none of {} upstreams can be reached; {}: {why}",
        probes.len(),
        first.base_url
    );
    Some(match probes.iter().any(|probe| used.contains(&probe.name)) {
        true => Finding::error(subject, message, help),
        false => Finding::warning(subject, message, help),
    })
}

fn protocol(version: Version, base_url: &str) -> String {
    let http = match version {
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    };
    match base_url.starts_with("https:") {
        true => format!("{http} over TLS"),
        false => format!("{http} without TLS"),
    }
}

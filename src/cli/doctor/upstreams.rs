//! Whether the upstreams answer, and with which protocol.

use http::Version;

use super::finding::Finding;
use super::installation::Installation;
use super::probe::{ProbeAnswer, UpstreamProbe};

/// Whether each upstream answers. Any status below 500 counts, since most refuse a request without a credential.
pub(super) fn reachable(installation: &Installation) -> Vec<Finding> {
    findings(&installation.probes)
}

pub(super) fn findings(probes: &[UpstreamProbe]) -> Vec<Finding> {
    // Nobody uses all providers of the default config, so an unreachable one is an error only if none answers.
    let any = probes.iter().any(|probe| probe.answer.is_ok());
    let finding = |probe: &UpstreamProbe| {
        let subject = probe.name.clone();
        match &probe.answer {
            Ok(ProbeAnswer { status, .. }) if status.is_server_error() => Finding::warning(
                subject,
                format!("{} answers with status {}", probe.base_url, status.as_u16()),
                "check the provider's status page, or the gateway of that URL",
            ),
            Ok(ProbeAnswer { status, version }) => {
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
                let help = format!(
                    "check network, DNS and firewall, or `upstreams.{subject}.base_url`; nothing to do if you do not use it"
                );
                match any {
                    true => Finding::warning(subject, message, help),
                    false => Finding::error(subject, message, help),
                }
            }
        }
    };
    probes.iter().map(finding).collect()
}

fn protocol(version: Version, base_url: &str) -> String {
    let http = match version {
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    };
    match base_url.starts_with("https:") {
        true => format!("{http} over TLS"),
        false => format!("{http} without TLS"),
    }
}

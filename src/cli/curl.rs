//! The `baton show EXCHANGE --curl` command: prints the command that sends a journaled request again, with
//! variables for credentials.

use super::exit::{CliResult, Exit};
use super::shells::ShellSyntax;
use baton_core::record::WireId;
use baton_core::wire::error::{CREDENTIAL_HEADERS, KeyHeader};
use baton_core::wire::wire;
use baton_state::config::Config;
use baton_state::journal::ExchangeDetail;

/// Prefix of the placeholder that the journal writes for a redacted value.
const REDACTED: &str = "[redacted:";

/// Headers that curl sets itself.
const OF_THE_CLIENT: [&str; 6] = [
    "host",
    "content-length",
    "accept-encoding",
    "connection",
    "content-encoding",
    "user-agent",
];

/// Formats a shell line that sends the request of a leg (counted from 0) again, with the body from `baton
/// show`.
pub(super) fn line(config: &Config, exchange: &ExchangeDetail, leg: u32) -> CliResult<String> {
    let row = &exchange.exchange;
    let sent = exchange.legs.iter().find(|found| found.n == leg);
    let sent = sent.ok_or_else(|| Exit::NO_INPUT.failure("nothing was sent upstream in this exchange"))?;
    let url = sent.sent.url.as_str();
    let method = row.route.as_deref().and_then(|route| route.split_once(' '));
    let quoted = |word: &str| ShellSyntax::Sh.quoted(word);
    let mut line = format!(
        "baton show {} --sent --leg {} | curl -sS -X {} {}",
        row.id,
        leg + 1,
        quoted(method.map_or("POST", |(method, _)| method)),
        quoted(&[url, query(url)].concat())
    );
    for (name, value) in &sent.sent.headers {
        // A redacted header would send the placeholder itself, so it is left out like a credential.
        let credential = CREDENTIAL_HEADERS.contains(&name.as_str()) || value.contains(REDACTED);
        if !credential && !OF_THE_CLIENT.contains(&name.as_str()) {
            line.push_str(&format!(" -H {}", quoted(&format!("{name}: {value}"))));
        }
    }
    if let Some((variable, KeyHeader { name, prefix })) = key(config, exchange, url) {
        line.push_str(&format!(" -H \"{name}: {prefix}${variable}\""));
    }
    line.push_str(" --data-binary @-");
    Ok(line)
}

/// Returns the variable that usually holds the key for the exchange's wire, and the header for that key.
fn key(config: &Config, exchange: &ExchangeDetail, url: &str) -> Option<(&'static str, KeyHeader)> {
    let row = &exchange.exchange;
    let wire = wire(WireId::named(row.wire.as_deref()?)?);
    let upstream = config.upstreams.get(row.upstream.as_deref()?);
    let path = upstream.and_then(|upstream| url.strip_prefix(&upstream.base_url));
    let variable = wire.key_variables.first()?;
    Some((variable, wire.key_header(path.unwrap_or(url), "")))
}

/// Returns the query to append to a journaled URL. The journal stores no queries, and without `alt=sse` Gemini would
/// not stream events.
fn query(url: &str) -> &'static str {
    if url.ends_with(":streamGenerateContent") {
        "?alt=sse"
    } else {
        ""
    }
}

//! The inspector's page and what it loads.

use http::StatusCode;

use super::routes::{Answer, respond};

const HTML: &str = "text/html; charset=utf-8";

/// The page's files by path; `None` for any other path.
pub(super) fn serve(path: &str) -> Option<Answer> {
    (path == "/").then(|| respond(StatusCode::OK, HTML, INDEX.replace("{version}", VERSION)))
}

/// Replaced in the page below.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const INDEX: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>baton</title>
<h1>baton {version}</h1>
<ul>
  <li><a href="/healthz">/healthz</a>: the process is up</li>
  <li><a href="/readyz">/readyz</a>: requests can be served</li>
  <li><a href="/metrics">/metrics</a>: counters for Prometheus</li>
</ul>
<p>Handoffs: <code>baton handoffs list</code>
</html>
"#;

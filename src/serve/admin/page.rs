//! The inspector page: static files compiled into the binary. All data comes from the API.
//!
//! Everything the page shows was written by others. The content security policy is a second line of defence:
//! it forbids foreign scripts, styles and images, requests to other hosts, and framing.

use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Response};
use http_body_util::Full;
use sha2::{Digest, Sha256};

use baton_core::text::units::hex;

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! assets {
    ($($name:literal $kind:ident)*) => {
        [$(($name, $kind, include_str!(concat!("page/", $name)))),*]
    };
}

/// Name, content type and content of each file.
const ASSETS: &[(&str, &str, &str)] = &assets! {
    "align.js" SCRIPT
    "api.js" SCRIPT
    "app.js" SCRIPT
    "chain.js" SCRIPT
    "chart.js" SCRIPT
    "conversation.js" SCRIPT
    "did.js" SCRIPT
    "diff.js" SCRIPT
    "dom.js" SCRIPT
    "draft.js" SCRIPT
    "exchange.js" SCRIPT
    "exchanges.js" SCRIPT
    "frame.css" STYLE
    "handoff.js" SCRIPT
    "home.js" SCRIPT
    "keys.js" SCRIPT
    "lines.js" SCRIPT
    "markdown.js" SCRIPT
    "parts.js" SCRIPT
    "reply.js" SCRIPT
    "savings.js" SCRIPT
    "side.js" SCRIPT
    "views.css" STYLE
    "words.js" SCRIPT
};

const INDEX: &str = include_str!("page/index.html");

/// Hash over all assets. Scripts import each other by relative URLs, so they share it.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (name, _, content) in ASSETS {
        hash.update(name);
        // Separates the name from the content.
        hash.update([0]);
        hash.update(content);
    }
    // Enough to distinguish builds.
    hex(&hash.finalize()[..8])
});

static PAGE: LazyLock<String> = LazyLock::new(|| INDEX.replace("{hash}", &HASH));

/// Content security policy of all responses.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                                 img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Security headers of every response: no framing, sniffing or foreign content, and only baton's files as
/// scripts.
pub(super) const SAFETY: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// `cache-control` of assets. Their URLs contain the hash, so their content never changes.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";
/// `cache-control` of the page. It names the hash, so it must be revalidated.
const ANEW: &str = "no-cache";

/// Returns the file at `path`, which is `/` or `/assets/HASH/NAME` of this build. `None` for other paths.
pub(super) fn serve(path: &str) -> Option<Response<Full<Bytes>>> {
    if path == "/" {
        return Some(file("text/html; charset=utf-8", ANEW, &PAGE));
    }
    let (hash, name) = path.strip_prefix("/assets/")?.split_once('/')?;
    let (_, kind, content) = ASSETS.iter().find(|(asset, ..)| *asset == name)?;
    // Files of another build do not fit this page.
    (hash == *HASH).then(|| file(kind, FOR_GOOD, content))
}

fn file(kind: &'static str, keep: &'static str, content: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(content.as_bytes())));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(keep));
    for (name, value) in SAFETY {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_assets_that_are_there() {
        let mut named = 0;
        for rest in PAGE.split("\"/assets/").skip(1) {
            let path = format!("/assets/{}", rest.split('"').next().unwrap());
            let response = serve(&path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(response.headers()[CACHE_CONTROL], FOR_GOOD);
            named += 1;
        }
        assert!(named > 1);
    }

    #[test]
    fn what_a_script_imports_is_there() {
        for (name, _, content) in ASSETS {
            for rest in content.split(" from \"./").skip(1) {
                let import = rest.split('"').next().unwrap();
                let path = format!("/assets/{}/{import}", *HASH);
                assert!(serve(&path).is_some(), "{name} imports {import}");
            }
        }
    }

    #[test]
    fn nothing_else_is_there() {
        for path in [
            "/assets/",
            "/assets/0/app.js",
            "/assets/app.js",
            "/index.html",
            "",
        ] {
            assert!(serve(path).is_none(), "{path}");
        }
        assert!(serve(&format!("/assets/{}/../page.rs", *HASH)).is_none());
    }

    #[test]
    fn every_file_is_under_the_policy() {
        let paths = ASSETS
            .iter()
            .map(|(name, ..)| format!("/assets/{}/{name}", *HASH));
        for path in paths.chain(["/".to_owned()]) {
            let response = serve(&path).unwrap();
            for (name, value) in SAFETY {
                assert_eq!(response.headers()[name], value, "{path}");
            }
        }
    }

    #[test]
    fn no_script_parses_markup_or_runs_text() {
        let banned = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "srcdoc",
            "DOMParser",
            "createContextualFragment",
            "setHTMLUnsafe",
            "parseHTMLUnsafe",
        ];
        for (name, _, content) in ASSETS {
            for word in banned {
                assert!(!content.contains(word), "{name} uses {word}");
            }
            assert!(
                !content.contains("://") || *name == "home.js" || content.matches("://").count() == 1,
                "{name}"
            );
        }
    }
}

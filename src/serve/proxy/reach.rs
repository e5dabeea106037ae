//! Parts of an upstream that clients may use, if it does not check credentials of their own.
//!
//! The proxy's key reaches whatever belongs to the provider's organization: files, batches, stored responses, other
//! keys. A server of this network often asks for no key, and its own paths load and delete models. A client needs
//! models. `upstreams.NAME.paths` adds paths.

use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::RequestContext;
use super::fault::{Code, Fault};
use super::route::{self, Route, stored_response};
use super::upstream::Upstream;
use crate::state::config::{Config, UpstreamConfig};
use crate::state::store::Store;
use baton_core::wire::wire;

/// Paths that list models, or show that the provider is reachable. Paths below them are included.
const LISTS: &[&str] = &[
    "/v1/models",
    "/v1beta/models",
    "/openai/v1/models",
    "/openai/models",
    "/backend-api/codex/models",
    "/api/hello",
    "/api/tags",
    "/api/ps",
    "/api/version",
];

/// Directories of APIs, before `/v1/messages`, `/chat/completions` and the like. A star is one name.
///
/// With another one, a path may mean something else to the server: it may route by it, or take the rest for a parameter.
const DIRECTORIES: &[&str] = &[
    "",
    "/v1",
    "/api",
    "/api/v1",
    "/v1beta/openai",
    "/openai",
    "/openai/v1",
    "/openai/deployments/*",
    "/backend-api/codex",
    "/endpoints/*",
    "/serving-endpoints/*",
];

/// Versions of Google's APIs.
const VERSIONS: &[&str] = &["/v1beta1", "/v1beta", "/v1alpha", "/v1", ""];

/// Directories of models after the version, including those of Vertex.
const PUBLISHERS: &[&str] = &[
    "",
    "/publishers/*",
    "/projects/*/locations/*",
    "/projects/*/locations/*/publishers/*",
];

/// Directory of Anthropic's API at the upstream of this name.
const ANTHROPICS: (&str, &str) = ("azure", "/anthropic");

/// Path that describes a model (Ollama), requested with `POST`.
const SHOW: &str = "/api/show";

/// Paths of stored responses: the id follows.
const STORED_RESPONSES: &[&str] = &[
    "/v1/responses/",
    "/responses/",
    "/api/v1/responses/",
    "/openai/v1/responses/",
    "/openai/responses/",
    "/backend-api/codex/responses/",
];

/// Header for the project that Google bills.
const PROJECT: &str = "x-goog-user-project";

/// Headers that make some servers take a request for one with another method.
const METHOD_HEADERS: &[&str] = &["x-http-method-override", "x-http-method", "x-method-override"];

/// Query parameters with the same effect.
const METHOD_PARAMETERS: &[&str] = &["_method", "$httpMethod"];

/// Checks that a client may use the path of a request.
///
/// # Errors
/// Returns a fault if the path is not one of models and the config does not add it, or if the request names
/// another method.
pub(super) fn check(parts: &Parts, route: &Route, upstream: &Upstream) -> Result<(), Fault> {
    if !upstream.is_guarded || is_added(&upstream.config.paths, &route.target) {
        return Ok(());
    }
    if names_method(parts) {
        return Err(Fault::because(Code::PATH, "the request names another method"));
    }
    let method = &parts.method;
    let path = path(&route.target);
    if is_other_project(&upstream.config, path) {
        return Err(Fault::because(
            Code::PATH,
            "the config of this upstream names another project",
        ));
    }
    let is_call = || route.operation.is_some() && is_of_api(&route.upstream, path);
    let asks_model = *method == Method::POST && (is_call() || path == SHOW);
    let is_list = |list: &str| {
        path.strip_prefix(list)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let reads = matches!(*method, Method::GET | Method::HEAD);
    // An encoded character could mean another path upstream.
    let is_plain = !path.contains('%');
    let is_allowed = asks_model || (reads && LISTS.iter().any(|list| is_list(list)));
    match is_plain && (is_allowed || is_stored_response(method, path)) {
        true => Ok(()),
        false => Err(Code::PATH.into()),
    }
}

/// Whether the directory of a call's path is that of an API.
fn is_of_api(upstream: &str, path: &str) -> bool {
    let Some(directory) = route::directory(path) else {
        return false;
    };
    let is_listed = |list: &[&str], directory: &str| list.iter().any(|form| has_form(directory, form));
    let mut versions = VERSIONS
        .iter()
        .filter_map(|version| directory.strip_prefix(version));
    is_listed(DIRECTORIES, directory)
        || (upstream, directory) == ANTHROPICS
        || (path.contains(':') && versions.any(|rest| is_listed(PUBLISHERS, rest)))
}

/// Whether a directory has these names. A star is any name.
fn has_form(directory: &str, form: &str) -> bool {
    let names = directory.split('/');
    let mut pairs = names.zip(form.split('/'));
    directory.matches('/').count() == form.matches('/').count()
        && pairs.all(|(name, form)| name == form || (form == "*" && !name.is_empty()))
}

fn path(target: &str) -> &str {
    target.split('?').next().unwrap_or(target)
}

/// Whether the config adds a path, literally or by a prefix that ends with `*`.
fn is_added(added: &[String], target: &str) -> bool {
    let path = path(target);
    added.iter().any(|added| match added.strip_suffix('*') {
        Some(begin) => path.starts_with(begin),
        None => path == added,
    })
}

/// Whether a path of Vertex names another project than the config, by the header for it or by `paths`.
///
/// The account of the key may reach several projects, each with its own bill.
fn is_other_project(config: &UpstreamConfig, path: &str) -> bool {
    let project = |path: &'_ str| Some(path.split_once("/projects/")?.1.split('/').next()?.to_owned());
    let header = config
        .headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(PROJECT));
    let header = header.map(|(_, value)| value.reveal().to_owned());
    let added = config
        .paths
        .iter()
        .filter_map(|added| project(added.trim_end_matches('*')));
    let mut known = header.into_iter().chain(added).peekable();
    project(path).is_some_and(|named| known.peek().is_some() && known.all(|known| known != named))
}

fn names_method(parts: &Parts) -> bool {
    let mut parameters = parts.uri.query().into_iter().flat_map(|query| query.split('&'));
    METHOD_HEADERS
        .iter()
        .any(|name| parts.headers.contains_key(*name))
        || parameters.any(|parameter| {
            let name = parameter.split('=').next().unwrap_or_default();
            let name = percent_decode_str(name).decode_utf8_lossy();
            METHOD_PARAMETERS.contains(&&*name)
        })
}

/// Whether a request is about one stored response, whose owner is checked later.
fn is_stored_response(method: &Method, path: &str) -> bool {
    let acts = matches!(*method, Method::GET | Method::DELETE | Method::POST);
    acts && stored_response(path).is_some_and(|(before, ..)| STORED_RESPONSES.contains(&before))
}

impl RequestContext {
    /// Whether the upstream's account belongs to several clients, and no path of the config opens this one to all.
    fn is_restricted(&self) -> bool {
        self.upstream.is_guarded && !is_added(&self.upstream.config.paths, &self.target)
    }

    /// Whether the provider's stored responses belong to different clients, which must not reach each other's.
    pub fn owns_responses(&self) -> bool {
        let keeps = self.wire.is_some_and(|id| wire(id).items.is_some());
        keeps && self.is_restricted()
    }

    /// Checks that a stored response is this client's.
    ///
    /// # Errors
    /// Returns a fault if the response is another client's or unknown, or the store cannot be read.
    pub async fn check_response(&self, store: &dyn Store, id: &str) -> Result<(), Fault> {
        // Whatever the wire: the path of a stored response need not reveal it.
        if !self.is_restricted() {
            return Ok(());
        }
        match store.response_id(&self.principal, id).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Fault::because(
                Code::PATH,
                "the stored response is not one of this client's",
            )),
            Err(error) => {
                tracing::error!(exchange = self.id, %error, "failed to look up whose response it is; refusing the request");
                Err(Code::STORE.into())
            }
        }
    }

    /// Checks that a request whose body is not read cannot name another client's response, nor evade a budget.
    ///
    /// # Errors
    /// Returns a fault if the body may name a stored response, or if the client has a budget.
    pub fn check_unread(&self, config: &Config) -> Result<(), Fault> {
        let is_counted = self.upstream.is_guarded && !config.brake_of(&self.principal).is_off();
        match self.operation.is_some() && (is_counted || self.owns_responses()) {
            true => Err(Fault::because(
                Code::PATH,
                "the body cannot be read, and may name stored responses or cost more than a budget",
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::config::Secret;

    #[test]
    fn a_path_names_the_project_of_the_config_where_that_is_known() {
        let path = |project: &str| {
            format!("/v1/projects/{project}/locations/l/publishers/google/models/m:generateContent")
        };
        let mut config = UpstreamConfig::default();
        assert!(!is_other_project(&config, &path("any")));
        config.headers = vec![("X-Goog-User-Project".to_owned(), Secret::new("ours"))];
        config.paths = vec!["/v1/projects/second/*".to_owned(), "/v1/files".to_owned()];
        for project in ["ours", "second"] {
            assert!(!is_other_project(&config, &path(project)), "{project}");
        }
        assert!(is_other_project(&config, &path("theirs")));
        assert!(!is_other_project(&config, "/v1beta/models/m:generateContent"));
    }

    #[test]
    fn a_call_is_one_of_an_api_at_a_known_place() {
        for path in [
            "/v1/messages",
            "/v1/messages/count_tokens",
            "/api/v1/messages",
            "/v1/chat/completions",
            "/chat/completions",
            "/openai/deployments/d/chat/completions",
            "/v1beta/openai/chat/completions",
            "/v1/responses",
            "/v1/responses/compact",
            "/backend-api/codex/responses",
            "/serving-endpoints/m/invocations",
            "/messages",
            "/api/chat",
            "/v1beta/models/g:generateContent",
            "/v1beta/tunedModels/g:generateContent",
            "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
            "/projects/p/locations/l/publishers/anthropic/models/c:streamRawPredict",
            "/projects/p/locations/l/endpoints/1:generateContent",
            "/v1internal:generateContent",
        ] {
            assert!(is_of_api("x", path), "{path}");
        }
        for path in [
            "/x/v1/messages",
            "/admin/delete/v1/messages",
            "/v1/files/v1/messages",
            "/v1/messages/batches/v1/messages",
            "/bedrock/v1/messages",
            "/anthropic/v1/messages",
            "/v1/organizations/api_keys/v1/messages/count_tokens",
            "/v1/files/chat/completions",
            "/v1/fine_tuning/jobs/responses",
            "/openai/deployments//chat/completions",
            "/openai/deployments/a/b/chat/completions",
            "/v1/threads/t/messages",
            "/v1/files/models/g:generateContent",
            "/v1beta/models/a/models/g:generateContent",
            "/v1beta/cachedContents/models/g:generateContent",
            "/x/v1internal:generateContent",
        ] {
            assert!(!is_of_api("x", path), "{path}");
        }
        assert!(is_of_api("azure", "/anthropic/v1/messages"));
    }

    #[test]
    fn paths_are_added_exactly_or_by_their_beginning() {
        let added = ["/v1/files*".to_owned(), "/v1/embeddings".to_owned()];
        for (target, expected) in [
            ("/v1/files", true),
            ("/v1/files/f?x=1", true),
            ("/v1/embeddings?x", true),
            ("/v1/embeddings/x", false),
            ("/v1/batches", false),
        ] {
            assert_eq!(is_added(&added, target), expected, "{target}");
        }
        assert!(is_added(&["*".to_owned()], "/anything"));
    }
}

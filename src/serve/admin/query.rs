//! Requests to the inspector's JSON API: parameters, errors, and reading the journal.

use http::{HeaderMap, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Inspector;
use super::responses::{FullResponse, JSON, error, failed, respond};
use crate::state::journal::{FilterError, JournalError, JournalReader};
use crate::state::store::StoreError;

/// Default length of a list.
const ROWS: usize = 100;

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The resource does not exist.
    NotFound(&'static str),
    /// The request is invalid.
    Bad(String),
    /// A member of its body is invalid.
    Field {
        /// Its name.
        field: String,
        /// What is wrong with it.
        why: String,
    },
    /// A filter cannot be parsed.
    Filter(FilterError),
    /// The journal or the store cannot be read.
    Unavailable(String),
}

impl Unanswered {
    /// The response.
    pub(super) fn answer(self) -> FullResponse {
        match self {
            Self::NotFound(message) => error(StatusCode::NOT_FOUND, "not_found", message),
            Self::Bad(message) => error(StatusCode::BAD_REQUEST, "bad_request", &message),
            Self::Field { field, why } => failed(
                StatusCode::UNPROCESSABLE_ENTITY,
                &json!({"code": "bad_field", "field": field, "message": format!("{field}: {why}")}),
            ),
            Self::Filter(FilterError { position, message }) => failed(
                StatusCode::BAD_REQUEST,
                &json!({"code": "bad_filter", "position": position, "message": message}),
            ),
            Self::Unavailable(message) => {
                tracing::warn!(target: "baton", message, "the inspector cannot answer");
                error(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &message)
            }
        }
    }
}

/// The result of a request.
pub(super) type ApiResult = Result<FullResponse, Unanswered>;

impl From<JournalError> for Unanswered {
    fn from(error: JournalError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<StoreError> for Unanswered {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.message)
    }
}

/// A body in JSON. Forms of other sites' pages cannot have that type.
pub(super) fn body_in_json<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Unanswered> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with(JSON)) {
        return Err(Unanswered::Bad(format!("the body's content-type is {JSON}")));
    }
    serde_json::from_slice(body).map_err(|why| Unanswered::Bad(why.to_string()))
}

/// Query parameters.
pub(super) struct QueryParams {
    pairs: Vec<(String, String)>,
}

impl QueryParams {
    pub(super) fn of(query: &str) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes());
        Self {
            pairs: pairs.into_owned().collect(),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        let found = self.pairs.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.clone())
            .filter(|value| !value.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<usize>, Unanswered> {
        let number = self.text(name).map(|text| text.parse()).transpose();
        number.map_err(|_| Unanswered::Bad(format!("{name} is not a whole number")))
    }

    pub(super) fn limit(&self) -> Result<usize, Unanswered> {
        Ok(self.number("limit")?.unwrap_or(ROWS))
    }

    pub(super) fn leg(&self) -> Result<u32, Unanswered> {
        let leg = self.number("leg")?.unwrap_or(0);
        u32::try_from(leg).map_err(|_| Unanswered::Bad("there is no such leg".to_owned()))
    }
}

/// Reads the journal on a blocking thread; `None` where nothing was ever written.
///
/// # Errors
/// The journal cannot be read.
pub(super) async fn read<T: Send + 'static>(
    inspector: &Inspector,
    ask: impl FnOnce(&JournalReader) -> Result<T, JournalError> + Send + 'static,
) -> Result<Option<T>, Unanswered> {
    let dir = inspector.dir.clone();
    let read = tokio::task::spawn_blocking(move || match JournalReader::open(&dir)? {
        Some(query) => ask(&query).map(Some),
        None => Ok(None),
    });
    match read.await {
        Ok(answer) => Ok(answer?),
        Err(error) => Err(Unanswered::Unavailable(error.to_string())),
    }
}

/// Reads one thing of the journal, where it is there.
pub(super) async fn read_one<T: Send + 'static>(
    inspector: &Inspector,
    otherwise: Unanswered,
    ask: impl FnOnce(&JournalReader) -> Result<Option<T>, JournalError> + Send + 'static,
) -> Result<T, Unanswered> {
    read(inspector, ask).await?.flatten().ok_or(otherwise)
}

pub(super) fn shown(value: &impl Serialize) -> ApiResult {
    match serde_json::to_vec(value) {
        Ok(body) => Ok(respond(StatusCode::OK, JSON, body)),
        Err(error) => Err(Unanswered::Unavailable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_unescaped() {
        let params = QueryParams::of("q=a+b%20%C3%A4%zz&limit=7&x=");
        assert_eq!(params.text("q").as_deref(), Some("a b ä%zz"));
        assert_eq!(params.limit().unwrap(), 7);
        assert_eq!(params.text("x"), None);
        assert!(QueryParams::of("limit=-1").limit().is_err());
    }
}

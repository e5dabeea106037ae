//! Parameters and bodies of requests to the inspector's JSON API, and access to the journal.

use http::{HeaderMap, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::AdminState;
use super::error::{ApiError, ApiResult, JSON, respond};
use crate::state::journal::{JournalReader, JournalResult};

/// Default length of a list.
const ROWS: usize = 100;

/// Parses a JSON body. Its content type is required, because forms of other sites' pages cannot have it.
pub(super) fn body_in_json<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> ApiResult<T> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok());
    // Parameters such as a charset may follow.
    if !kind.is_some_and(|kind| kind.starts_with(JSON)) {
        return Err(ApiError::bad(format!("the body's content-type must be {JSON}")));
    }
    serde_json::from_slice(body).map_err(|why| ApiError::bad(why.to_string()))
}

/// Decoded query parameters.
pub(super) struct QueryParams {
    pairs: Vec<(String, String)>,
}

impl QueryParams {
    pub(super) fn parse(query: &str) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes());
        Self {
            pairs: pairs.into_owned().collect(),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        let found = self.pairs.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.clone())
            // An empty parameter counts as missing.
            .filter(|value| !value.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> ApiResult<Option<usize>> {
        let number = self.text(name).map(|text| text.parse()).transpose();
        number.map_err(|_| ApiError::bad(format!("{name} is not a whole number")))
    }

    pub(super) fn limit(&self) -> ApiResult<usize> {
        Ok(self.number("limit")?.unwrap_or(ROWS))
    }

    pub(super) fn leg(&self) -> ApiResult<u32> {
        let leg = self.number("leg")?.unwrap_or(0);
        u32::try_from(leg).map_err(|_| ApiError::NO_SUCH_LEG)
    }
}

/// Reads the journal on a blocking thread. Returns `None` if nothing was ever written.
///
/// # Errors
/// The journal cannot be read.
pub(super) async fn read<T: Send + 'static>(
    state: &AdminState,
    ask: impl FnOnce(&JournalReader) -> JournalResult<T> + Send + 'static,
) -> ApiResult<Option<T>> {
    let dir = state.config.state_dir.clone();
    let read = tokio::task::spawn_blocking(move || match JournalReader::open(&dir)? {
        Some(query) => ask(&query).map(Some),
        None => Ok(None),
    });
    match read.await {
        Ok(answer) => Ok(answer?),
        Err(error) => Err(ApiError::unavailable(error)),
    }
}

/// Reads the item of the journal with this id. Returns the error `otherwise` if it is missing.
pub(super) async fn read_one<T: Send + 'static>(
    state: &AdminState,
    id: &str,
    otherwise: ApiError,
    ask: impl FnOnce(&JournalReader, &str) -> JournalResult<Option<T>> + Send + 'static,
) -> ApiResult<T> {
    let id = id.to_owned();
    let found = read(state, move |journal| ask(journal, &id)).await?;
    found.flatten().ok_or(otherwise)
}

pub(super) fn shown(value: &impl Serialize) -> ApiResult {
    let body = serde_json::to_vec(value).map_err(ApiError::unavailable)?;
    Ok(respond(StatusCode::OK, JSON, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_unescaped() {
        let params = QueryParams::parse("q=a+b%20%C3%A4%zz&limit=7&x=");
        assert_eq!(params.text("q").as_deref(), Some("a b ä%zz"));
        assert_eq!(params.limit().unwrap(), 7);
        assert_eq!(params.text("x"), None);
        assert!(QueryParams::parse("limit=-1").limit().is_err());
    }
}

//! Stores headers compactly.
//!
//! Most values repeat, while some (dates, ids) never do. A list is stored as a reference to an earlier list
//! with the same names, its model, plus the values that differ.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use foldhash::fast::RandomState;
use http::{HeaderMap, HeaderName, HeaderValue};
use rusqlite::{Connection, Row as SqlRow};

use super::chunk_store::{ChunkStore, FirstSeen, TextKind};
use crate::keyed_hash::{self, KeyedHash};
use baton_core::redact::is_credential_header;

/// Maximum number of models kept in memory. Each agent and provider has a few.
const MAX_MODELS: usize = 1024;

/// A stored list of headers.
#[derive(Debug, Default)]
pub(super) struct StoredHeaders {
    /// Chunk of the model.
    pub(super) model: i64,
    /// Values that differ from the model, as JSON, by index in the list.
    pub(super) own: Option<String>,
}

impl StoredHeaders {
    /// Reads two adjacent columns of a row.
    pub(super) fn in_row(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            model: row.get(column)?,
            own: row.get(column + 1)?,
        })
    }
}

/// Earlier lists that serve as models.
#[derive(Default)]
pub(super) struct HeaderModels(HashMap<KeyedHash, HeaderModel, RandomState>);

struct HeaderModel {
    chunk: i64,
    values: Vec<ModelValue>,
}

struct ModelValue {
    /// Hash of the value, because some values are credentials.
    hash: KeyedHash,
    /// Whether the header's name marks the value as a credential.
    is_credential: bool,
}

/// Values that differ from the model, by index in the list.
type OwnValues<'a> = BTreeMap<usize, Cow<'a, str>>;

impl HeaderModels {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Removes deleted chunks.
    pub(super) fn collected(&mut self, chunks: &[i64]) {
        self.0.retain(|_, model| !chunks.contains(&model.chunk));
    }

    /// Stores a list and adds one reference to its model.
    pub(super) fn keep(
        &mut self,
        chunk_store: &mut ChunkStore,
        conn: &Connection,
        headers: &PackedHeaders,
        seen: FirstSeen,
    ) -> rusqlite::Result<StoredHeaders> {
        let mut rows = Vec::with_capacity(headers.len());
        rows.extend(headers.rows());
        // A program sends the same names in the same order each time, so they select its model.
        let names = names(&rows);
        if let Some(model) = self.0.get(&names)
            && let Some(own) = own(chunk_store, model, &rows)
        {
            chunk_store.point_to(model.chunk);
            let own = (!own.is_empty()).then(|| serde_json::to_string(&own).unwrap_or_default());
            let model = model.chunk;
            return Ok(StoredHeaders { model, own });
        }
        // No model, or too many differences: this list becomes the model.
        let shown = serde_json::to_vec(&shown(chunk_store, headers)).unwrap_or_default();
        let chunk = chunk_store.blob(conn, &shown.into(), TextKind::Json, seen)?;
        if self.0.len() >= MAX_MODELS {
            self.0.clear();
        }
        let values = headers.iter().map(|(name, value)| ModelValue {
            hash: keyed_hash::hash(value),
            is_credential: is_credential_header(name),
        });
        let values = values.collect();
        self.0.insert(names, HeaderModel { chunk, values });
        Ok(StoredHeaders {
            model: chunk,
            own: None,
        })
    }
}

fn names(rows: &[(&[u8], &[u8])]) -> KeyedHash {
    let mut all = Vec::with_capacity(rows.len() * 20);
    for (name, _) in rows {
        all.extend_from_slice(name);
        all.push(b'\n');
    }
    keyed_hash::hash(&all)
}

/// Returns the values that differ from the model.
///
/// Returns `None` if more than half of them do: then another program uses the same names.
fn own<'a>(
    chunk_store: &ChunkStore,
    model: &HeaderModel,
    rows: &[(&[u8], &'a [u8])],
) -> Option<OwnValues<'a>> {
    let both = rows.iter().zip(&model.values).enumerate();
    let differ = both.filter(|(_, ((_, value), known))| keyed_hash::hash(value) != known.hash);
    let differ: Vec<_> = differ
        .map(|(i, ((_, value), known))| (i, *value, known.is_credential))
        .collect();
    if differ.len() * 2 > rows.len() {
        return None;
    }
    let own = differ.into_iter().map(|(i, value, is_credential)| {
        let value = chunk_store.redactor.header_value(is_credential, value);
        (i, value)
    });
    Some(own.collect())
}

/// Returns names and values, with credentials redacted.
fn shown(chunk_store: &ChunkStore, headers: &PackedHeaders) -> Vec<(String, String)> {
    let shown = headers.iter().map(|(name, value)| {
        let is_credential = is_credential_header(name);
        let shown = chunk_store.redactor.header_value(is_credential, value);
        (name.to_owned(), shown.into_owned())
    });
    shown.collect()
}

/// Restores a list from its model and the values that differ.
pub(super) fn read(model: &[u8], own: Option<&str>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = serde_json::from_slice(model).unwrap_or_default();
    let own = own.and_then(|own| serde_json::from_str::<OwnValues<'_>>(own).ok());
    for (i, value) in own.unwrap_or_default() {
        // An index beyond the model means a damaged row, which is shown as far as possible.
        if let Some((_, old)) = all.get_mut(i) {
            *old = value.into_owned();
        }
    }
    all
}

/// Replaces a value that is marked as sensitive.
const SENSITIVE: &[u8] = b"[redacted:credential]";

/// A copy of a header map, in order.
#[derive(Clone, Default)]
pub struct PackedHeaders {
    /// Name, line feed, value, line feed, for each header. Neither part can contain a line feed.
    text: Bytes,
    count: usize,
}

impl PackedHeaders {
    /// Packs headers unchanged.
    pub fn new(headers: &HeaderMap) -> Self {
        Self::from_headers(headers, HeaderValue::as_bytes)
    }

    /// Packs headers without values marked as sensitive: the proxy's own credentials.
    pub fn without_sensitive(headers: &HeaderMap) -> Self {
        Self::from_headers(headers, |value| match value.is_sensitive() {
            true => SENSITIVE,
            false => value.as_bytes(),
        })
    }

    fn from_headers<'a>(headers: &'a HeaderMap, value: impl Fn(&'a HeaderValue) -> &'a [u8]) -> Self {
        let rows = || headers.iter().map(|(n, v)| [n.as_str().as_bytes(), value(v)]);
        let room = rows().flatten().map(|part| part.len() + 1).sum();
        let mut text = Vec::with_capacity(room);
        for part in rows().flatten() {
            text.extend_from_slice(part);
            text.push(b'\n');
        }
        Self {
            text: text.into(),
            count: headers.len(),
        }
    }

    /// Returns the number of headers.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no headers.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the names, in lower case, and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.rows()
            .map(|(name, value)| (std::str::from_utf8(name).unwrap_or_default(), value))
    }

    /// Returns names and values as bytes.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut ends = memchr::memchr_iter(b'\n', &self.text);
        let mut at = 0;
        std::iter::from_fn(move || {
            let (name, end) = (ends.next()?, ends.next()?);
            let row = (&self.text[at..name], &self.text[name + 1..end]);
            at = end + 1;
            Some(row)
        })
    }

    /// Returns the first value of `name`, which must be in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// Unpacks the headers. All values share one buffer.
    pub fn map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.count);
        for (name, value) in self.iter() {
            let value = HeaderValue::from_maybe_shared(self.text.slice_ref(value));
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value) {
                map.append(name, value);
            }
        }
        map
    }
}

impl std::fmt::Debug for PackedHeaders {
    /// Omits the values, which may be credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::chunk_store::unpack;
    use crate::journal::schema;
    use baton_core::redact::Redactor;

    fn headers(all: &[(&'static str, &str)]) -> PackedHeaders {
        let map: http::HeaderMap = all
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        PackedHeaders::new(&map)
    }

    #[test]
    fn a_list_refers_to_an_earlier_one_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let conn = schema::make(dir.path()).unwrap();
        let (mut chunk_store, mut models) = (
            ChunkStore::new(Redactor::new(&[]), 1 << 20),
            HeaderModels::default(),
        );
        let seen = FirstSeen {
            exchange: 1,
            side: "shown",
        };
        let names = ["date", "server", "x-api-key", "request-id"];
        let valued = |values: [&str; 4]| headers(&std::array::from_fn::<_, 4, _>(|i| (names[i], values[i])));
        let lists = [
            valued(["1", "a", "k1", "r1"]),
            valued(["2", "a", "k1", "r2"]),
            valued(["1", "a", "k2", "r1"]),
            // Different names, or mostly different values.
            headers(&[("date", "2"), ("server", "a")]),
            valued(["3", "b", "k1", "r9"]),
        ];
        let kept: Vec<StoredHeaders> = lists
            .iter()
            .map(|list| models.keep(&mut chunk_store, &conn, list, seen).unwrap())
            .collect();
        assert_eq!(kept[1].own.as_deref(), Some(r#"{"0":"2","3":"r2"}"#));
        assert_eq!(kept[2].own.as_deref(), Some(r#"{"2":"[redacted:credential]"}"#));
        // A credential of a known format in another header, and characters that JSON escapes.
        let token = format!("\"ghp_{}\"", "a1B2c3D4e5F6".repeat(3));
        let odd = valued([&token, "b", "k1", "r9"]);
        let kept_odd = models.keep(&mut chunk_store, &conn, &odd, seen).unwrap();
        let own = kept_odd.own.unwrap();
        let date = serde_json::to_string(&shown(&chunk_store, &odd)[0].1).unwrap();
        assert_eq!(own, format!(r#"{{"0":{date}}}"#));
        assert!(own.contains("redacted") && !own.contains("ghp_a1B2"), "{own}");
        assert!(kept[3].own.is_none() && kept[4].own.is_none());
        for (list, kept) in lists.iter().zip(&kept) {
            let ask = "SELECT body, packed, size FROM pieces WHERE id = ?1";
            let model = conn.query_row(ask, [kept.model], |row| {
                Ok(unpack(row.get(0)?, row.get(1)?, row.get(2)?))
            });
            let read = read(&model.unwrap(), kept.own.as_deref());
            assert_eq!(read, shown(&chunk_store, list));
        }
        models.collected(&[kept[0].model]);
        let again = models.keep(&mut chunk_store, &conn, &lists[1], seen).unwrap();
        assert!(again.own.is_none());
    }
}

#[cfg(test)]
mod packed_tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-b", &b"2"[..]),
            ("accept", b""),
            ("x-b", b"1, \t\xff~"),
            ("content-type", b"application/json"),
        ] {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        let packed = PackedHeaders::new(&headers);
        let back = packed.map();
        assert_eq!(back, headers);
        assert!(back.iter().eq(headers.iter()), "in the same order");
        assert_eq!(packed.len(), 4);
        assert_eq!(packed.get("x-b"), Some(&b"2"[..]));
        assert_eq!(packed.get("x-c"), None);
        assert_eq!(PackedHeaders::new(&HeaderMap::new()).map(), HeaderMap::new());
    }

    #[test]
    fn sensitive_values_are_left_out() {
        let mut headers = HeaderMap::new();
        headers.append("accept", HeaderValue::from_static("a"));
        let mut key = HeaderValue::from_static("secret");
        key.set_sensitive(true);
        headers.append("x-api-key", key);
        let packed = PackedHeaders::without_sensitive(&headers);
        assert_eq!(packed.get("accept"), Some(&b"a"[..]));
        assert_eq!(packed.get("x-api-key"), Some(SENSITIVE));
        assert!(!format!("{:?}", PackedHeaders::new(&headers)).contains("secret"));
    }
}

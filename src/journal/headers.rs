//! Headers: most values repeat, some (dates, ids) never do. A list is stored as a reference to an earlier list with the same
//! names, and the values that differ.

use std::collections::{BTreeMap, HashMap};

use rusqlite::Connection;

use super::chunk_store::{ChunkStore, FirstSeen, TextKind};
use super::keyed_hash::KeyedHash;
use super::packed::PackedHeaders;

/// Earlier lists that are kept in memory as models; agents and providers have a few each.
const MOST_MODELS: usize = 1024;

/// A stored list of headers.
#[derive(Debug, Default)]
pub(super) struct StoredHeaders {
    /// The chunk of its model.
    pub(super) model: i64,
    /// The values that differ from the model, as JSON, by their index in the list.
    pub(super) own: Option<String>,
}

/// Earlier lists that serve as models.
#[derive(Default)]
pub(super) struct Models(HashMap<KeyedHash, Model>);

struct Model {
    chunk: i64,
    /// Hashes of the values, since some are credentials.
    values: Vec<KeyedHash>,
}

impl Models {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// These chunks were deleted.
    pub(super) fn collected(&mut self, chunks: &[i64]) {
        self.0.retain(|_, model| !chunks.contains(&model.chunk));
    }

    /// Stores a list, and adds one reference to its model.
    pub(super) fn keep(
        &mut self,
        chunk_store: &mut ChunkStore,
        conn: &Connection,
        headers: &PackedHeaders,
        seen: FirstSeen,
    ) -> rusqlite::Result<StoredHeaders> {
        let names = names(chunk_store, headers);
        if let Some(model) = self.0.get(&names) {
            let own = own(chunk_store, model, headers);
            // More than half differ: another program that uses the same names.
            if own.len() * 2 <= headers.len() {
                chunk_store.point_to(model.chunk);
                let own = (!own.is_empty()).then(|| serde_json::to_string(&own).unwrap_or_default());
                let model = model.chunk;
                return Ok(StoredHeaders { model, own });
            }
        }
        let shown = serde_json::to_vec(&shown(chunk_store, headers)).unwrap_or_default();
        let chunk = chunk_store.blob(conn, &shown.into(), TextKind::Json, seen)?;
        if self.0.len() >= MOST_MODELS {
            self.0.clear();
        }
        let values = headers.iter().map(|(_, value)| chunk_store.fast(value)).collect();
        self.0.insert(names, Model { chunk, values });
        Ok(StoredHeaders {
            model: chunk,
            own: None,
        })
    }
}

fn names(chunk_store: &ChunkStore, headers: &PackedHeaders) -> KeyedHash {
    let mut all = Vec::with_capacity(headers.len() * 20);
    for (name, _) in headers.iter() {
        all.extend_from_slice(name.as_bytes());
        all.push(b'\n');
    }
    chunk_store.fast(&all)
}

fn own(chunk_store: &ChunkStore, model: &Model, headers: &PackedHeaders) -> BTreeMap<usize, String> {
    let both = headers.iter().zip(&model.values).enumerate();
    let differ = both.filter(|(_, ((_, value), known))| chunk_store.fast(value) != **known);
    differ
        .map(|(i, ((name, value), _))| (i, chunk_store.redactor.header(name, value)))
        .collect()
}

/// Names and values, credentials replaced.
fn shown(chunk_store: &ChunkStore, headers: &PackedHeaders) -> Vec<(String, String)> {
    let shown = headers.iter().map(|(name, value)| {
        let shown = chunk_store.redactor.header(name, value);
        (name.to_owned(), shown)
    });
    shown.collect()
}

/// Restores the list.
pub(super) fn read(model: &[u8], own: Option<&str>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = serde_json::from_slice(model).unwrap_or_default();
    let own: BTreeMap<usize, String> = own
        .and_then(|own| serde_json::from_str(own).ok())
        .unwrap_or_default();
    for (i, value) in own {
        if let Some((_, old)) = all.get_mut(i) {
            *old = value;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::keyed_hash::HashKey;
    use crate::journal::{Redactor, schema};

    fn headers(all: &[(&'static str, &str)]) -> PackedHeaders {
        let map: http::HeaderMap = all
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        PackedHeaders::new(&map)
    }

    #[test]
    fn a_list_is_told_by_an_earlier_one_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let conn = schema::make(dir.path()).unwrap();
        let (mut chunk_store, mut models) = (
            ChunkStore::new(Redactor::new(&[]), HashKey::new()),
            Models::default(),
        );
        let seen = FirstSeen {
            exchange: 1,
            side: "shown",
        };
        let lists = [
            headers(&[
                ("date", "1"),
                ("server", "a"),
                ("x-api-key", "k1"),
                ("request-id", "r1"),
            ]),
            headers(&[
                ("date", "2"),
                ("server", "a"),
                ("x-api-key", "k1"),
                ("request-id", "r2"),
            ]),
            headers(&[
                ("date", "1"),
                ("server", "a"),
                ("x-api-key", "k2"),
                ("request-id", "r1"),
            ]),
            // Other names, or mostly other values.
            headers(&[("date", "2"), ("server", "a")]),
            headers(&[
                ("date", "3"),
                ("server", "b"),
                ("x-api-key", "k1"),
                ("request-id", "r9"),
            ]),
        ];
        let kept: Vec<StoredHeaders> = lists
            .iter()
            .map(|list| models.keep(&mut chunk_store, &conn, list, seen).unwrap())
            .collect();
        assert_eq!(kept[1].own.as_deref(), Some(r#"{"0":"2","3":"r2"}"#));
        assert_eq!(kept[2].own.as_deref(), Some(r#"{"2":"[redacted:credential]"}"#));
        assert!(kept[3].own.is_none() && kept[4].own.is_none());
        for (list, kept) in lists.iter().zip(&kept) {
            let ask = "SELECT body, packed, size FROM pieces WHERE id = ?1";
            let model = conn.query_row(ask, [kept.model], |row| {
                Ok(super::super::packing::unpack(
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                ))
            });
            assert_eq!(
                read(&model.unwrap(), kept.own.as_deref()),
                shown(&chunk_store, list)
            );
        }
        models.collected(&[kept[0].model]);
        assert!(
            models
                .keep(&mut chunk_store, &conn, &lists[1], seen)
                .unwrap()
                .own
                .is_none()
        );
    }
}

//! Headers: most are the same each time, some (dates, ids) never are. A list is kept as an earlier one with the same
//! names, and the values that differ.

use std::collections::{BTreeMap, HashMap};

use rusqlite::Connection;

use super::fast::Fast;
use super::packed::PackedHeaders;
use super::pool::{Pool, Seen, Text};

/// Lists that others are told by; agents and providers have a few each.
const MOST_MODELS: usize = 1024;

/// A list of headers as it is kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The piece of the list that it is told by.
    pub(super) model: i64,
    /// Its own values, as JSON, by their place in the list.
    pub(super) own: Option<String>,
}

/// The lists that others are told by.
#[derive(Default)]
pub(super) struct Models(HashMap<Fast, Model>);

struct Model {
    piece: i64,
    /// Hashes, since some values are credentials.
    values: Vec<Fast>,
}

impl Models {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// These pieces are gone.
    pub(super) fn collected(&mut self, pieces: &[i64]) {
        self.0.retain(|_, model| !pieces.contains(&model.piece));
    }

    /// Writes a list down, and points to its model once.
    pub(super) fn keep(
        &mut self,
        pool: &mut Pool,
        conn: &Connection,
        headers: &PackedHeaders,
        seen: Seen,
    ) -> rusqlite::Result<Kept> {
        let names = names(pool, headers);
        if let Some(model) = self.0.get(&names) {
            let own = own(pool, model, headers);
            // More than half: another program with the same names.
            if own.len() * 2 <= headers.len() {
                pool.point_to(model.piece);
                let own = (!own.is_empty()).then(|| serde_json::to_string(&own).unwrap_or_default());
                let model = model.piece;
                return Ok(Kept { model, own });
            }
        }
        let shown = serde_json::to_vec(&shown(pool, headers)).unwrap_or_default();
        let piece = pool.blob(conn, &shown.into(), Text::Json, seen)?;
        if self.0.len() >= MOST_MODELS {
            self.0.clear();
        }
        let values = headers.iter().map(|(_, value)| pool.fast(value)).collect();
        self.0.insert(names, Model { piece, values });
        Ok(Kept {
            model: piece,
            own: None,
        })
    }
}

fn names(pool: &Pool, headers: &PackedHeaders) -> Fast {
    let mut all = Vec::with_capacity(headers.len() * 20);
    for (name, _) in headers.iter() {
        all.extend_from_slice(name.as_bytes());
        all.push(b'\n');
    }
    pool.fast(&all)
}

fn own(pool: &Pool, model: &Model, headers: &PackedHeaders) -> BTreeMap<usize, String> {
    let both = headers.iter().zip(&model.values).enumerate();
    let differ = both.filter(|(_, ((_, value), known))| pool.fast(value) != **known);
    differ
        .map(|(i, ((name, value), _))| (i, pool.redactor.header(name, value)))
        .collect()
}

/// Names and values, credentials replaced.
fn shown(pool: &Pool, headers: &PackedHeaders) -> Vec<(String, String)> {
    let shown = headers.iter().map(|(name, value)| {
        let shown = pool.redactor.header(name, value);
        (name.to_owned(), shown)
    });
    shown.collect()
}

/// The list again.
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
    use crate::journal::fast::Key;
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
        let (mut pool, mut models) = (Pool::new(Redactor::new(&[]), Key::new()), Models::default());
        let seen = Seen {
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
            // Other names, and mostly other values.
            headers(&[("date", "2"), ("server", "a")]),
            headers(&[
                ("date", "3"),
                ("server", "b"),
                ("x-api-key", "k1"),
                ("request-id", "r9"),
            ]),
        ];
        let kept: Vec<Kept> = lists
            .iter()
            .map(|list| models.keep(&mut pool, &conn, list, seen).unwrap())
            .collect();
        assert_eq!(kept[1].own.as_deref(), Some(r#"{"0":"2","3":"r2"}"#));
        assert_eq!(kept[2].own.as_deref(), Some(r#"{"2":"[redacted:credential]"}"#));
        assert!(kept[3].own.is_none() && kept[4].own.is_none());
        for (list, kept) in lists.iter().zip(&kept) {
            let ask = "SELECT body, packed, size FROM pieces WHERE id = ?1";
            let model = conn.query_row(ask, [kept.model], |row| {
                Ok(super::super::pool::unpack(row.get(0)?, row.get(1)?, row.get(2)?))
            });
            assert_eq!(read(&model.unwrap(), kept.own.as_deref()), shown(&pool, list));
        }
        models.collected(&[kept[0].model]);
        assert!(
            models
                .keep(&mut pool, &conn, &lists[1], seen)
                .unwrap()
                .own
                .is_none()
        );
    }
}

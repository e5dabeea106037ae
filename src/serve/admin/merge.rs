//! Merges the answers of several replicas into the answer that a single process would give. Pure.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value, json};

/// One replica's answer.
pub(super) struct Part {
    pub(super) replica: String,
    pub(super) body: Value,
}

/// Conversations of all replicas, the one used last first. Where several replicas have one, their counts are added.
pub(super) fn conversations(parts: &[Part], limit: usize) -> Vec<Value> {
    let mut all: Vec<Map<String, Value>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for part in parts {
        for row in list(&part.body, "conversations") {
            let Some(row) = row.as_object() else { continue };
            let key = row.get("key").and_then(Value::as_str).unwrap_or_default();
            match places.entry(key.to_owned()) {
                Entry::Vacant(place) => {
                    place.insert(all.len());
                    let mut row = row.clone();
                    row.insert("replicas".to_owned(), json!([part.replica]));
                    all.push(row);
                }
                Entry::Occupied(place) => add_conversation(&mut all[*place.get()], row, &part.replica),
            }
        }
    }
    newest_first(all.into_iter().map(Value::Object).collect(), "last_ms", limit)
}

/// Sums of the counts of two replicas.
const ADDED: [&str; 6] = [
    "exchanges",
    "failures",
    "handoffs",
    "received_bytes",
    "sent_bytes",
    "unsent_tokens",
];

fn add_conversation(known: &mut Map<String, Value>, more: &Map<String, Value>, replica: &str) {
    for name in ADDED {
        let sum = signed(known.get(name)).saturating_add(signed(more.get(name)));
        known.insert(name.to_owned(), json!(sum));
    }
    let is_newer = number(more.get("last_ms")) > number(known.get("last_ms"));
    for name in ["title", "model", "wire"] {
        let says = |row: &Map<String, Value>| {
            row.get(name)
                .and_then(Value::as_str)
                .is_some_and(|text| !text.is_empty())
        };
        if says(more) && (is_newer && name == "model" || !says(known)) {
            known.insert(name.to_owned(), more[name].clone());
        }
    }
    let first = number(known.get("first_ms")).min(number(more.get("first_ms")));
    let last = number(known.get("last_ms")).max(number(more.get("last_ms")));
    known.insert("first_ms".to_owned(), json!(first));
    known.insert("last_ms".to_owned(), json!(last));
    if let Some(Value::Array(replicas)) = known.get_mut("replicas") {
        replicas.push(json!(replica));
    }
}

/// One conversation with its exchanges, oldest first; `None` where no replica has it.
pub(super) fn conversation(parts: &[Part]) -> Option<Value> {
    let shorts = parts
        .iter()
        .filter(|part| part.body.get("conversation").is_some());
    let shorts = shorts.map(|part| Part {
        replica: part.replica.clone(),
        body: json!({"conversations": [part.body["conversation"]]}),
    });
    let conversation = conversations(&shorts.collect::<Vec<_>>(), 1).pop()?;
    let mut exchanges = exchanges(parts, 0);
    exchanges.reverse();
    Some(json!({
        "conversation": conversation,
        "exchanges": exchanges,
        "handoffs": handoffs(parts, 0),
        // Of replicas that share a store all say the same; of others, one serves the conversation.
        "limits": first(parts, "limits"),
        "draft": first(parts, "draft"),
        "undo": first(parts, "undo"),
    }))
}

/// The value of the first replica that has one.
fn first(parts: &[Part], name: &str) -> Value {
    let mut body = parts.iter().filter_map(|part| part.body.get(name));
    body.find(|body| !body.is_null()).cloned().unwrap_or_default()
}

/// Exchanges, newest first, each with its replica. Ids begin with their time.
pub(super) fn exchanges(parts: &[Part], limit: usize) -> Vec<Value> {
    by_id(rows(parts, "exchanges"), limit)
}

/// Handoffs, newest first, each once: replicas may share a store.
pub(super) fn handoffs(parts: &[Part], limit: usize) -> Vec<Value> {
    let each = parts.iter().flat_map(|part| list(&part.body, "handoffs"));
    let mut all = by_id(each.cloned().collect(), 0);
    all.dedup_by(|a, b| a["id"] == b["id"]);
    cut(all, limit)
}

/// Places where something was found, newest first, each with its replica, and whether everything was searched.
pub(super) fn hits(parts: &[Part], limit: usize) -> (Vec<Value>, bool) {
    let complete = parts.iter().all(|part| part.body["complete"] != json!(false));
    (newest_first(rows(parts, "hits"), "at_ms", limit), complete)
}

/// The same object with the name of its replica.
pub(super) fn of_replica(mut row: Value, replica: &str) -> Value {
    if row.is_object() {
        row["replica"] = json!(replica);
    }
    row
}

/// The rows of all answers, each with its replica.
fn rows(parts: &[Part], name: &str) -> Vec<Value> {
    let of_part = |part: &'_ Part| -> Vec<Value> {
        let rows = list(&part.body, name).iter();
        rows.map(|row| of_replica(row.clone(), &part.replica)).collect()
    };
    parts.iter().flat_map(of_part).collect()
}

fn list<'a>(body: &'a Value, name: &str) -> &'a [Value] {
    body.get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Totals of the status that are added over the replicas. A conversation on two replicas counts in both.
const TOTALS: [&str; 5] = [
    "conversations",
    "failures",
    "received_bytes",
    "sent_bytes",
    "unsent_tokens",
];

/// Adds up the totals of all replicas. Handoffs are added where each replica has a store of its own.
pub(super) fn totals(parts: &[Part], shared_store: bool) -> Map<String, Value> {
    let of = |name: &str| {
        parts
            .iter()
            .map(|part| signed(part.body.get(name)))
            .collect::<Vec<_>>()
    };
    let mut totals: Map<String, Value> = TOTALS
        .iter()
        .map(|name| ((*name).to_owned(), json!(of(name).iter().sum::<i64>())))
        .collect();
    let handoffs = match shared_store {
        true => of("handoffs").into_iter().max().unwrap_or_default(),
        false => of("handoffs").iter().sum(),
    };
    totals.insert("handoffs".to_owned(), json!(handoffs));
    totals
}

fn signed(value: Option<&Value>) -> i64 {
    value.and_then(Value::as_i64).unwrap_or_default()
}

fn number(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).unwrap_or_default()
}

fn by_id(mut all: Vec<Value>, limit: usize) -> Vec<Value> {
    let id = |row: &Value| row["id"].as_str().unwrap_or_default().to_owned();
    all.sort_by_cached_key(|row| std::cmp::Reverse(id(row)));
    cut(all, limit)
}

fn newest_first(mut all: Vec<Value>, time: &str, limit: usize) -> Vec<Value> {
    all.sort_by_key(|row| std::cmp::Reverse(number(row.get(time))));
    cut(all, limit)
}

/// Maximum number; 0 is no limit.
fn cut(mut all: Vec<Value>, limit: usize) -> Vec<Value> {
    if limit > 0 {
        all.truncate(limit);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(replica: &str, body: Value) -> Part {
        Part {
            replica: replica.to_owned(),
            body,
        }
    }

    #[test]
    fn a_conversation_on_two_replicas_is_one() {
        let row = |key: &str, title: &str, model: &str, count: u64, first: u64, last: u64| {
            json!({"key": key, "title": title, "wire": "anthropic", "model": model, "exchanges": count, "handoffs": 1, "failures": 1,
                   "first_ms": first, "last_ms": last, "received_bytes": 10, "sent_bytes": 4, "unsent_tokens": -2})
        };
        let parts = [
            part(
                "one",
                json!({"conversations": [row("a", "", "old", 2, 5, 20), row("b", "B", "m", 1, 1, 30)]}),
            ),
            part("two", json!({"conversations": [row("a", "A", "new", 3, 7, 40)]})),
            part("three", json!({"of": "another version"})),
        ];
        let all = conversations(&parts, 0);
        assert_eq!(
            all[0],
            json!({"key": "a", "title": "A", "wire": "anthropic", "model": "new", "exchanges": 5, "handoffs": 2, "failures": 2,
                   "first_ms": 5, "last_ms": 40, "received_bytes": 20, "sent_bytes": 8, "unsent_tokens": -4,
                   "replicas": ["one", "two"]})
        );
        assert_eq!((all.len(), &all[1]["replicas"]), (2, &json!(["one"])));
        assert_eq!(conversations(&parts, 1).len(), 1);
    }

    #[test]
    fn totals_are_added_and_a_shared_store_counts_once() {
        let body = |unsent: i64| json!({"conversations": 2, "handoffs": 5, "received_bytes": 10, "sent_bytes": 20, "unsent_tokens": unsent});
        let parts = [part("one", body(-7)), part("two", body(3))];
        let sums = totals(&parts, false);
        assert_eq!(
            (&sums["unsent_tokens"], &sums["handoffs"]),
            (&json!(-4), &json!(10))
        );
        assert_eq!(totals(&parts, true)["handoffs"], 5);
    }

    #[test]
    fn rows_are_in_the_order_of_time_whoever_has_them() {
        let of = |ids: &[&str]| {
            let rows: Vec<_> = ids.iter().map(|id| json!({"id": id})).collect();
            json!({"conversation": {"key": "a", "last_ms": 1}, "exchanges": rows, "handoffs": rows})
        };
        let parts = [part("one", of(&["3", "1"])), part("two", of(&["2", "1"]))];
        let ids = |rows: &[Value]| {
            rows.iter()
                .map(|row| row["id"].as_str().unwrap().to_owned())
                .collect::<String>()
        };
        assert_eq!(ids(&exchanges(&parts, 2)), "32");
        assert_eq!(exchanges(&parts, 2)[1]["replica"], "two");
        assert_eq!(ids(&handoffs(&parts, 0)), "321");
        let one = conversation(&parts).unwrap();
        assert_eq!(ids(one["exchanges"].as_array().unwrap()), "1123");
        assert_eq!(conversation(&[part("one", json!({"error": {}}))]), None);
    }

    #[test]
    fn a_search_is_complete_where_all_are() {
        let body = |at: u64, complete: bool| json!({"hits": [{"at_ms": at}], "complete": complete});
        let (found, complete) = hits(&[part("one", body(1, true)), part("two", body(2, false))], 1);
        assert_eq!(
            (found, complete),
            (vec![json!({"at_ms": 2, "replica": "two"})], false)
        );
    }
}

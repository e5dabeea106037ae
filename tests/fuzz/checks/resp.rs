//! Whatever a Redis server answers, each of the store's calls reads it to an end; a record that is read is written, and read
//! again as the same.

use redis::{Parser, Value};

use super::super::StoreError;
use super::super::records::{RecordKind, StoredRecord};
use super::answers;
use super::kinds::{self, RedisRecord};
use super::settings::WriteWait;
use crate::config::ServerDurability::{Fsync, Memory, Replicated};

/// Answers that are read of one input.
const MAX_ANSWERS: usize = 16;

#[cfg(test)]
#[path = "replay.rs"]
mod replay;

pub fn check(input: &[u8]) {
    let [call, text @ ..] = input else { return };
    let mut rest = text;
    let mut parser = Parser::new();
    let answers: Vec<Value> = (0..MAX_ANSWERS)
        .map_while(|_| parser.parse_value(&mut rest).ok())
        .collect();
    answers.iter().cloned().for_each(fault);
    read(*call, answers);
}

/// Reads the answers as those of the call that a number chooses.
fn read(call: u8, answers: Vec<Value>) {
    let what = "try";
    let first = answers.first().cloned().unwrap_or_default();
    match call % 11 {
        0 => drop(answers::first(what, answers).and_then(|answer| answers::written(what, answer))),
        1 => read_records(answers),
        2 => drop(answers::first::<(String, Vec<(String, f64)>)>(what, answers)),
        3 => drop(answers::first::<(u32, u32)>(what, answers)),
        4 => drop(answers::first::<Option<String>>(what, answers)),
        5 => drop(answers::first(what, answers).and_then(|answer| answers::document_written(what, answer))),
        6 => drop(answers::first::<(usize, Vec<(String, String)>)>(what, answers)),
        7 => drop(answers::first::<bool>(what, answers)),
        8 => drop(answers::read::<Option<(String, u16)>>(first)),
        9 => drop(answers::durable(WriteWait::File, Some(first))),
        _ => greeting(answers),
    }
}

/// The fault that a value is, and where it leads.
fn fault(value: Value) {
    if let Some(fault) = answers::server_fault(&value) {
        let (answers::LinkFault::Broken(text) | answers::LinkFault::Refused(text)) = fault;
        answers::redirection(&text);
        assert_eq!(answers::read::<String>(value), Err(text));
    }
}

fn greeting(answers: Vec<Value>) {
    let Ok((digests, server)) = answers::greeting(2, answers) else {
        return;
    };
    assert!(digests.len() <= 2);
    for durability in [Memory, Replicated, Fsync] {
        let wait = server.wait(durability);
        assert!(wait.is_ok() || server.fit(durability).is_err(), "{server:?}");
    }
}

fn read_records(answers: Vec<Value>) {
    let Ok(rows) = answers::first::<Vec<(String, answers::UsedFields<5>)>>("try", answers) else {
        return;
    };
    for (id, (used_ms, fields)) in rows {
        let kinds = RecordKind::ALL.into_iter();
        for kind in kinds.filter(|kind| kind.name().starts_with(id.as_str())) {
            if let Ok(record) = answers::record(kind, (used_ms, fields.clone())) {
                record.size();
                read_again(&record);
            }
        }
    }
}

fn read_again(record: &StoredRecord) {
    let Some(stored) = stored(record) else { return };
    let stored = stored.unwrap_or_else(|error| panic!("{error}: {record:?}"));
    let mut args = Vec::new();
    stored.args(&mut args);
    let mut args = args
        .into_iter()
        .map(|arg| String::from_utf8(arg).unwrap_or_else(|error| panic!("{error}")));
    let mut next = || args.next().unwrap_or_else(|| panic!("too few arguments"));
    let (_kind, _id, owner, _version) = (next(), next(), next(), next());
    // Fields, fields of a new record, indexes, times.
    let mut lists = [(); 4].map(|()| {
        let length: usize = next().parse().unwrap_or_else(|error| panic!("{error}"));
        (0..length).map(|_| (next(), next())).collect::<Vec<_>>()
    });
    let used_ms = lists[3]
        .remove(0)
        .1
        .parse()
        .unwrap_or_else(|error| panic!("{error}"));
    let all = lists[1].iter().chain(&lists[0]);
    let field = |name| {
        all.clone()
            .rfind(|(key, _)| key == name)
            .map(|(_, value)| value.clone())
    };
    let fields = [kinds::ARCHIVED, kinds::HEAD, ""].map(|name| field(name).unwrap_or_default());
    let [archived, head, status] = fields;
    let fields = [owner, field("r").unwrap_or_default(), archived, head, status];
    let again = answers::record(record.kind(), (used_ms, fields))
        .unwrap_or_else(|error| panic!("{error}: {record:?}"));
    assert_eq!(again, *record);
    assert!(again.covers(record), "{record:?}");
}

/// What is written of a record; `None` where a script of its own writes it.
fn stored(record: &StoredRecord) -> Option<Result<RedisRecord, StoreError>> {
    match record {
        StoredRecord::Document(_) => None,
        StoredRecord::Handoff(handoff) => {
            Some(RedisRecord::from_record(record, 0).map(|stored| stored.archived(handoff.archived)))
        }
        _ => Some(RedisRecord::from_record(record, 0)),
    }
}

#[cfg(test)]
#[test]
fn the_corpus_passes() {
    replay::replay("resp", check);
}

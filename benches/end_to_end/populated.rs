//! A store with months of handoffs compared with an empty one: the same requests and handoffs through both.

use std::path::Path;
use std::time::{Duration, Instant};

use baton_core::record::{Conversation, Handoff, Update};
use baton_llm::state::store::records::StoredRecord;
use baton_llm::state::store::sqlite::SqliteStore;
use baton_llm::state::store::{SharedStore, Store};
use bytes::Bytes;
use futures_util::future::join_all;
use tempfile::TempDir;
use uuid::Uuid;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::history::{self, Seeded, Shape};
use crate::report::Report;
use crate::stats::{Figure, median, micros};

/// Number of handoffs in the store, and of live conversations among them.
const HANDOFFS: usize = 10_000;
const LIVE: usize = 5_000;

/// Approximate length of a carry-over prompt: the length that models write for a task of an hour.
const PROMPT: usize = 4_000;

/// Number of connections that open the conversations.
const AGENTS: usize = 16;

/// Number of requests to one proxy before the other one's turn.
const BLOCK: usize = 10;

/// Size, name, and requests of one repetition.
const SIZES: [(usize, &str, usize); 3] = [
    (2_000, "2 KB", 400),
    (100_000, "100 KB", 150),
    (1_000_000, "1 MB", 60),
];

/// Placeholder in a body for the id of a handoff.
pub(crate) const ANY: &str = "00000000-0000-7000-8000-000000000000";

/// Step between conversations: a prime number, so that all have a turn, but not in order.
const STRIDE: usize = 1_613;

pub(crate) struct Side {
    proxy: Proxy,
    client: Client,
    /// Handoff of each live conversation.
    ids: Vec<Uuid>,
    turn: usize,
}

#[derive(Clone, Default)]
pub(crate) struct Row {
    pub(crate) time: Figure,
    pub(crate) cpu: Figure,
}

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (_, addr) = bench.upstream();
    let mut starts = [Figure::default(), Figure::default()];
    let mut sides = Vec::new();
    for (count, start) in [1, HANDOFFS].into_iter().zip(&mut starts) {
        let (state, ids) = filled(count).await;
        let begun = Instant::now();
        let proxy = Proxy::start_on(Kind::Baton, addr, Some(state));
        start.push(begun.elapsed().as_secs_f64() * 1e3);
        sides.push(side(proxy, ids).await);
    }
    let mut rows = Vec::new();
    for (bytes, name, requests) in SIZES {
        let body = body(bytes, Some(&format!("[[handoff-resume:{ANY}]]")));
        let pair = repeated(bench, &mut sides, async |side, row| {
            request_all(side, row, &body, requests).await;
        });
        rows.push(shown(&format!("request of {name}, pinned"), &pair.await));
    }
    let pair = repeated(bench, &mut sides, async |side, row| {
        hand_over(bench, side, row).await
    });
    rows.push(shown("handoff, end of call to next request", &pair.await));
    let columns = [
        "empty, µs",
        "populated, µs",
        "ratio",
        "empty, CPU µs",
        "populated, CPU µs",
        "ratio ",
    ];
    let title = format!("{HANDOFFS} handoffs stored and {LIVE} conversations live, beside one of each");
    report.table(&title, &columns, &rows);
    let rows = ["one handoff", "populated"]
        .into_iter()
        .enumerate()
        .map(|(i, name)| {
            let weight = Figure(vec![sides[i].proxy.resident() as f64 / 1024.0]);
            (name.to_owned(), vec![starts[i].clone(), weight])
        });
    let columns = ["first line after ms", "resident at the end, MiB"];
    report.table("Start on it, and weight", &columns, &rows.collect::<Vec<_>>());
}

/// Creates a state directory with this many handoffs, each of a separate conversation.
async fn filled(count: usize) -> (TempDir, Vec<Uuid>) {
    let state = tempfile::tempdir().unwrap();
    let all = handoffs(count);
    let store = SqliteStore::open(state.path()).unwrap();
    write_all(&store, &all).await;
    drop(store);
    assert!(Path::new(state.path()).join("baton.db").is_file());
    let ids = all.iter().take(LIVE).map(|(handoff, _)| handoff.id).collect();
    (state, ids)
}

/// Writes handoffs of separate conversations, numbered from `from` on.
pub(crate) async fn fill_from(store: &SharedStore, from: usize, count: usize) {
    let all = handoffs_from(from, count);
    write_all(&**store, &all).await;
}

/// Writes handoffs with their conversations.
pub(crate) async fn write_all(store: &dyn Store, all: &[(Handoff, Update)]) {
    for some in all.chunks(256) {
        let writes = some.iter().map(|(handoff, update)| {
            let records = vec![StoredRecord::Handoff(Box::new(handoff.clone()))];
            store.put_with("write a handoff", records, update)
        });
        let written = join_all(writes).await;
        written.into_iter().for_each(|written| drop(written.unwrap()));
    }
}

pub(crate) fn handoffs(count: usize) -> Vec<(Handoff, Update)> {
    handoffs_from(0, count)
}

fn handoffs_from(from: usize, count: usize) -> Vec<(Handoff, Update)> {
    let mut random = Seeded::new(9 + from as u64);
    let one = |n: usize| {
        let prompt = history::text(&mut random, PROMPT).replace(['\\', '"'], " ");
        let handoff = Handoff {
            id: Uuid::now_v7(),
            principal: "local".to_owned(),
            conversation: format!("{n:032x}"),
            head: format!(r#"{{"role":"user","content":[{{"type":"text","text":"{prompt}"}}]}}"#),
            prompt,
            reason: Some("task done".to_owned()),
            model: Some("claude-opus-4-8".to_owned()),
            created_ms: 1_700_000_000_000 + n as u64,
            history_bytes: 400_000,
            ..Handoff::default()
        };
        let conversation = Conversation {
            key: handoff.conversation.clone(),
            principal: "local".to_owned(),
            tooled: Some(true),
            active: Some(handoff.id),
            created_ms: handoff.created_ms,
            ..Conversation::default()
        };
        let update = Update {
            known: conversation,
            changes: Vec::new(),
            now_ms: handoff.created_ms,
        };
        (handoff, update)
    };
    (from..from + count).map(one).collect()
}

/// Opens the conversations, with one cut request for each.
pub(crate) async fn side(proxy: Proxy, ids: Vec<Uuid>) -> Side {
    let template = body(2_000, Some(&format!("[[handoff-resume:{ANY}]]")));
    let agents = (0..AGENTS.min(ids.len())).map(|agent| {
        let (addr, template, ids) = (proxy.addr, template.clone(), ids.clone());
        tokio::spawn(async move {
            let mut client = Client::connect(addr).await;
            for conversation in (agent..ids.len()).step_by(AGENTS) {
                client.speak_for(conversation);
                client.ask("fixed", &pinned(&template, ids[conversation])).await;
            }
        })
    });
    for agent in agents.collect::<Vec<_>>() {
        agent.await.unwrap();
    }
    // The background writes, and their log, are finished by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let client = Client::connect(proxy.addr).await;
    Side {
        proxy,
        client,
        ids,
        turn: 0,
    }
}

/// Inserts another id into the body.
pub(crate) fn pinned(template: &Bytes, id: Uuid) -> Bytes {
    let at = memchr::memmem::find(template, ANY.as_bytes()).unwrap();
    let mut body = template.to_vec();
    body[at..at + ANY.len()].copy_from_slice(id.to_string().as_bytes());
    body.into()
}

impl Side {
    /// Switches to the next conversation and returns its handoff.
    fn next(&mut self) -> Uuid {
        self.turn += STRIDE;
        let conversation = self.turn % self.ids.len();
        self.client.speak_for(conversation);
        self.ids[conversation]
    }
}

/// Measures all sides in turn, for the requested number of repetitions.
pub(crate) async fn repeated(
    bench: &Bench,
    sides: &mut [Side],
    mut measure: impl AsyncFnMut(&mut Side, &mut (Vec<f64>, Duration)),
) -> Vec<Row> {
    let count = sides.len();
    let mut rows = vec![Row::default(); count];
    for _ in 0..bench.repetitions {
        let mut found = vec![(Vec::new(), Duration::ZERO); count];
        // Small steps, so that a disturbance of the machine affects all sides.
        for step in 0..STEPS {
            for i in (0..count).map(|turn| (turn + step) % count) {
                measure(&mut sides[i], &mut found[i]).await;
            }
        }
        for (row, (times, cpu)) in rows.iter_mut().zip(found) {
            row.cpu.push(micros(cpu) / times.len() as f64);
            row.time.push(median(times));
        }
    }
    rows
}

/// Time after which background work is finished.
const REST: Duration = Duration::from_millis(2);

/// Number of parts of a repetition.
const STEPS: usize = 6;

pub(crate) async fn request_all(
    side: &mut Side,
    found: &mut (Vec<f64>, Duration),
    template: &Bytes,
    requests: usize,
) {
    for _ in 0..(requests / STEPS / BLOCK).max(1) {
        // A session that continues does not repeat the lookups of its last request.
        let turn = side.turn;
        for _ in 0..BLOCK {
            let body = pinned(template, side.next());
            side.client.ask("fixed", &body).await;
        }
        side.turn = turn;
        tokio::time::sleep(REST).await;
        let before = side.proxy.cpu();
        for _ in 0..BLOCK {
            let body = pinned(template, side.next());
            found.0.push(micros(side.client.ask("fixed", &body).await));
        }
        tokio::time::sleep(REST).await;
        found.1 += side.proxy.cpu() - before;
    }
}

pub(crate) async fn hand_over(bench: &Bench, side: &mut Side, found: &mut (Vec<f64>, Duration)) {
    let (shared, _) = bench.upstream();
    let body = body(100_000, None);
    let before = side.proxy.cpu();
    shared.gaps.lock().unwrap().clear();
    for _ in 0..BLOCK {
        side.next();
        side.client.ask("handoff", &body).await;
    }
    tokio::time::sleep(REST).await;
    found.1 += side.proxy.cpu() - before;
    found
        .0
        .extend(shared.gaps.lock().unwrap().iter().map(|gap| micros(*gap)));
}

fn shown(name: &str, rows: &[Row]) -> (String, Vec<Figure>) {
    let (empty, populated) = (&rows[0], &rows[1]);
    let figures = vec![
        empty.time.clone(),
        populated.time.clone(),
        populated.time.over(&empty.time),
        empty.cpu.clone(),
        populated.cpu.clone(),
        populated.cpu.over(&empty.cpu),
    ];
    (name.to_owned(), figures)
}

pub(crate) fn body(bytes: usize, sentinel: Option<&str>) -> Bytes {
    let shape = Shape {
        bytes,
        sentinel: sentinel.map(str::to_owned),
        kept: 50_000,
    };
    history::body(2, &shape).into()
}

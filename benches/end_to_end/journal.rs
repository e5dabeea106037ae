//! The cost of the journal: the same requests through a proxy with a journal and one without.
//!
//! The journal's thread works after the requests, so CPU time is read once that work is finished.

use std::time::Duration;

use bytes::Bytes;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::history::{self, Seeded, Shape};
use crate::report::Report;
use crate::requests::SETTLED;
use crate::stats::{Figure, median, micros};

/// Number of requests to one proxy before the other one's turn.
const BLOCK: usize = 10;

/// Size, name, and requests of one repetition.
const SIZES: [(usize, &str, usize); 4] = [
    (2_000, "2 KB", 1_000),
    (100_000, "100 KB", 500),
    (1_000_000, "1 MB", 100),
    (4_000_000, "4 MB", 20),
];

#[derive(Default, Clone)]
struct Row {
    latency: Figure,
    cpu: Figure,
}

/// Measures one repeated body, and a conversation with new text in each request.
pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (_, addr) = bench.upstream();
    let proxies = [Kind::Baton, Kind::Journal].map(|kind| Proxy::start(kind, addr));
    for (name, grows) in [("the same body", false), ("a growing conversation", true)] {
        for (bytes, size, requests) in SIZES {
            let shape = Shape {
                bytes,
                sentinel: None,
                kept: 0,
            };
            let mut agent = Agent::new(&shape, grows);
            let mut rows = vec![Row::default(); proxies.len()];
            for _ in 0..bench.repetitions {
                let requests = if bench.quick { requests / 2 } else { requests };
                repeat(&proxies, &mut rows, &mut agent, requests).await;
            }
            table(report, &format!("Journal, {size}, {name}"), &rows);
        }
    }
    streams(bench, report, &proxies).await;
}

/// An agent and its history.
struct Agent {
    random: Seeded,
    first: String,
    body: String,
    grows: bool,
}

impl Agent {
    fn new(shape: &Shape, grows: bool) -> Self {
        let first = String::from_utf8(history::body(5, shape)).unwrap();
        Self {
            random: Seeded::new(6),
            body: first.clone(),
            first,
            grows,
        }
    }

    fn next(&mut self) -> Bytes {
        if self.grows {
            // Starts over when it has grown by a fifth, because the size must stay about the same.
            if self.body.len() > self.first.len() * 6 / 5 + 20_000 {
                self.body.clone_from(&self.first);
            }
            history::go_on(&mut self.random, &mut self.body);
        }
        self.body.clone().into()
    }
}

async fn repeat(proxies: &[Proxy], rows: &mut [Row], agent: &mut Agent, requests: usize) {
    let mut clients = Vec::new();
    for proxy in proxies {
        let mut client = Client::connect(proxy.addr).await;
        for _ in 0..3 {
            client.ask("fixed", &agent.next()).await;
        }
        clients.push(client);
    }
    tokio::time::sleep(SETTLED).await;
    let before: Vec<Duration> = proxies.iter().map(Proxy::cpu).collect();
    let mut times = vec![Vec::new(); proxies.len()];
    for _ in 0..requests / BLOCK {
        let bodies: Vec<Bytes> = (0..BLOCK).map(|_| agent.next()).collect();
        for (client, times) in clients.iter_mut().zip(&mut times) {
            for body in &bodies {
                times.push(micros(client.ask("fixed", body).await));
            }
        }
    }
    tokio::time::sleep(SETTLED).await;
    for (i, times) in times.into_iter().enumerate() {
        rows[i].latency.push(median(times));
        rows[i]
            .cpu
            .push(micros(proxies[i].cpu() - before[i]) / requests as f64);
    }
}

/// A burst of events, and one with a pause between events.
async fn streams(bench: &Bench, report: &mut Report, proxies: &[Proxy]) {
    let shape = Shape {
        bytes: 2_000,
        sentinel: None,
        kept: 0,
    };
    let body: Bytes = history::body(2, &shape).into();
    for (script, name) in [
        ("burst=1", "burst, one event in a chunk"),
        ("burst=64", "burst, 64 events in a chunk"),
        ("paced=150", "150 events, one each millisecond"),
    ] {
        let mut rows = vec![Row::default(); proxies.len()];
        for _ in 0..bench.repetitions {
            for (row, proxy) in rows.iter_mut().zip(proxies) {
                let before = proxy.cpu();
                let took = Client::connect(proxy.addr).await.ask(script, &body).await;
                tokio::time::sleep(SETTLED).await;
                row.latency.push(micros(took));
                row.cpu.push(micros(proxy.cpu() - before));
            }
        }
        table(report, &format!("Journal, {name}"), &rows);
    }
}

fn table(report: &mut Report, title: &str, rows: &[Row]) {
    let shown = ["off", "on"].iter().zip(rows).map(|(name, row)| {
        let figures = vec![
            row.latency.clone(),
            row.latency.over(&rows[0].latency),
            row.cpu.clone(),
            row.cpu.over(&rows[0].cpu),
        ];
        ((*name).to_owned(), figures)
    });
    let columns = ["median µs", "÷ off", "CPU µs", "CPU ÷ off"];
    report.table(title, &columns, &shown.collect::<Vec<_>>());
}

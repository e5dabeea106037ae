//! Requests at a steady rate from many concurrent agents, with the proxy on one core.
//!
//! Measures the latency of the slowest requests, without other load and next to an agent whose large requests
//! are always new to the journal.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::goal::Goal;
use crate::history::{self, Seeded, Shape};
use crate::report::Report;
use crate::requests::{SETTLED, body};
use crate::stats::{Figure, micros, turns};

/// Requests per second of all connections together.
const RATE: u32 = 1_000;

const CONNECTIONS: u32 = 16;

/// Bytes of a request.
const BYTES: usize = 2_000;

/// Upper bound for the slowest hundredth as shipped, as a ratio to hyper's.
const SLOWEST: f64 = 1.5;

const KINDS: [Kind; 5] = [
    Kind::Direct,
    Kind::Collecting,
    Kind::Twin,
    Kind::Baton,
    Kind::Journal,
];

#[derive(Default, Clone)]
struct Row {
    half: Figure,
    slowest: Figure,
    cpu: Figure,
}

/// Bytes of a neighbour's request, and the pause between two of them.
///
/// The whole text is new, so that the journal has to redact, hash, compress and commit it.
const NEIGHBOUR: usize = 1_000_000;
const NEIGHBOUR_PAUSE: Duration = Duration::from_millis(250);

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (_, addr) = bench.upstream();
    let proxies = KINDS.map(|kind| Proxy::start(kind, addr));
    let body = body(BYTES, None);
    let seconds = if bench.quick { 2 } else { 5 };
    for proxy in &proxies {
        steady(proxy, &body, 1).await;
    }
    let alone = measure(bench, &proxies, &body, seconds, None).await;
    let title = format!("{RATE} requests a second of 2 KB, sixteen connections");
    let slowest = table(report, &title, &alone);
    report.goal(Goal::at_most(
        &format!("2 KB at {RATE} requests/s, as shipped, p99 ÷ collecting"),
        slowest,
        SLOWEST,
    ));
    let mut neighbour = Neighbour { seed: 1_000 };
    let beside = measure(bench, &proxies, &body, seconds, Some(&mut neighbour)).await;
    let title = format!("{title}, beside one that sends 1 MB of new text four times a second");
    table(report, &title, &beside);
}

/// Creates requests whose text was never sent before.
struct Neighbour {
    seed: u64,
}

impl Neighbour {
    /// Returns enough requests for this many seconds.
    fn bodies(&mut self, seconds: u32) -> Vec<Bytes> {
        let count = Duration::from_secs(seconds.into()).div_duration_f64(NEIGHBOUR_PAUSE) as u64;
        let shape = Shape {
            bytes: NEIGHBOUR,
            sentinel: None,
            kept: 0,
        };
        self.seed += count;
        let seeds = self.seed - count..self.seed;
        seeds.map(|seed| history::body(seed, &shape).into()).collect()
    }
}

/// Sends these requests until it is aborted.
async fn send_all(addr: SocketAddr, bodies: Vec<Bytes>) {
    let mut client = Client::connect(addr).await;
    client.speak_for(CONNECTIONS as usize);
    for body in bodies {
        client.ask("fixed", &body).await;
        tokio::time::sleep(NEIGHBOUR_PAUSE).await;
    }
}

async fn measure(
    bench: &Bench,
    proxies: &[Proxy],
    body: &Bytes,
    seconds: u32,
    mut neighbour: Option<&mut Neighbour>,
) -> Vec<Row> {
    let mut rows = vec![Row::default(); proxies.len()];
    let mut random = Seeded::new(13);
    for _ in 0..bench.repetitions {
        for i in turns(&mut random, proxies.len()) {
            let bodies = neighbour.as_mut().map(|neighbour| neighbour.bodies(seconds));
            let before = proxies[i].cpu();
            let beside = bodies.map(|bodies| tokio::spawn(send_all(proxies[i].addr, bodies)));
            let mut times = steady(&proxies[i], body, seconds).await;
            if let Some(beside) = beside {
                beside.abort();
            }
            times.sort_by(f64::total_cmp);
            rows[i].half.push(times[times.len() / 2]);
            rows[i].slowest.push(times[times.len() * 99 / 100]);
            tokio::time::sleep(SETTLED).await;
            let cpu = proxies[i].cpu() - before;
            rows[i].cpu.push(micros(cpu) / times.len() as f64);
        }
    }
    rows
}

/// Prints the rows. Returns the slowest requests of the shipped proxy, as a ratio to hyper's.
fn table(report: &mut Report, title: &str, rows: &[Row]) -> Figure {
    let at = |kind| KINDS.iter().position(|k| *k == kind).unwrap();
    let hyper = &rows[at(Kind::Collecting)];
    let shown = KINDS.iter().zip(rows).map(|(kind, row)| {
        let figures = vec![
            row.half.clone(),
            row.slowest.clone(),
            row.slowest.over(&hyper.slowest),
            row.cpu.clone(),
            row.cpu.over(&hyper.cpu),
        ];
        (kind.name().to_owned(), figures)
    });
    let columns = [
        "median µs",
        "p99 µs",
        "p99 ÷ collecting",
        "CPU µs",
        "CPU ÷ collecting",
    ];
    report.table(title, &columns, &shown.collect::<Vec<_>>());
    rows[at(Kind::Journal)].slowest.over(&hyper.slowest)
}

/// Returns the duration of each request. The connections begin one after the other, and each keeps its own
/// time.
async fn steady(proxy: &Proxy, body: &Bytes, seconds: u32) -> Vec<f64> {
    let each = RATE / CONNECTIONS * seconds;
    let gap = Duration::from_secs(1) * CONNECTIONS / RATE;
    let agents = (0..CONNECTIONS).map(|n| {
        let (addr, body) = (proxy.addr, body.clone());
        tokio::spawn(async move {
            let mut client = Client::connect(addr).await;
            client.speak_for(n as usize);
            let mut due = tokio::time::Instant::now() + gap * n / CONNECTIONS;
            let mut times = Vec::new();
            for _ in 0..each {
                tokio::time::sleep_until(due).await;
                let begun = Instant::now();
                client.ask("fixed", &body).await;
                times.push(micros(begun.elapsed()));
                due += gap;
            }
            times
        })
    });
    let mut all = Vec::new();
    for agent in agents.collect::<Vec<_>>() {
        all.extend(agent.await.unwrap());
    }
    all
}

//! Requests at a steady rate from many agents at once, with the proxy on one core: the latency of the slowest.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::history::Seeded;
use crate::report::{Goal, Report};
use crate::requests::{SETTLED, body};
use crate::stats::{Figure, micros, turns};

/// Requests of all connections together in a second.
const RATE: u32 = 1_000;

const CONNECTIONS: u32 = 16;

/// Bytes of a request.
const BYTES: usize = 2_000;

/// The most that the slowest hundredth may wait as shipped, as a ratio to hyper's.
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

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (_, addr) = bench.upstream();
    let proxies = KINDS.map(|kind| Proxy::start(kind, addr));
    let body = body(BYTES, None);
    let seconds = if bench.quick { 2 } else { 5 };
    let mut rows = vec![Row::default(); KINDS.len()];
    let mut random = Seeded::new(13);
    for proxy in &proxies {
        steady(proxy, &body, 1).await;
    }
    for _ in 0..bench.repetitions {
        for i in turns(&mut random, KINDS.len()) {
            let before = proxies[i].cpu();
            let mut times = steady(&proxies[i], &body, seconds).await;
            times.sort_by(f64::total_cmp);
            rows[i].half.push(times[times.len() / 2]);
            rows[i].slowest.push(times[times.len() * 99 / 100]);
            tokio::time::sleep(SETTLED).await;
            let cpu = proxies[i].cpu() - before;
            rows[i].cpu.push(micros(cpu) / times.len() as f64);
        }
    }
    let at = |kind| KINDS.iter().position(|k| *k == kind).unwrap();
    let hyper = rows[at(Kind::Collecting)].clone();
    let shown = KINDS.iter().zip(&rows).map(|(kind, row)| {
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
    let title = format!("{RATE} requests a second of 2 KB, sixteen connections");
    report.table(&title, &columns, &shown.collect::<Vec<_>>());
    report.goal(Goal::at_most(
        &format!("2 KB at {RATE} requests/s, as shipped, p99 ÷ collecting"),
        rows[at(Kind::Journal)].slowest.over(&hyper.slowest),
        SLOWEST,
    ));
}

/// How long each request took. The connections begin one after the other, each keeps its own time.
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

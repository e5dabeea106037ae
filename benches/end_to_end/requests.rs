//! What requests cost: latency added over no proxy, CPU, throughput.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::history::{self, Shape};
use crate::report::Report;
use crate::stats::{Figure, median, micros};
use crate::upstream::{PROMPT, Shared};
use crate::{Bench, upstream};

/// Requests to one proxy before the next one has its turn.
const BLOCK: usize = 10;

/// Size, name, and requests of one repetition.
const SIZES: [(usize, &str, usize); 4] = [
    (2_000, "2 KB", 200),
    (100_000, "100 KB", 100),
    (1_000_000, "1 MB", 40),
    (4_000_000, "4 MB", 20),
];

struct Target {
    proxy: Proxy,
    latency: Figure,
    cpu: Figure,
}

/// Agent requests of each size, the history whole and cut: tool injected in both.
pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (shared, addr) = bench.upstream();
    let mut targets = Kind::ALL.map(|kind| Target {
        proxy: Proxy::start(kind, addr),
        latency: Figure::default(),
        cpu: Figure::default(),
    });
    let sentinel = sentinel(&targets[3].proxy, &shared).await;
    for (name, sentinel) in [("pinned", Some(sentinel)), ("whole", None)] {
        for (bytes, size, requests) in SIZES {
            let sentinel = sentinel.clone().filter(|_| name == "pinned");
            let body: Bytes = history::body(
                2,
                &Shape {
                    bytes,
                    sentinel,
                    kept: 50_000,
                },
            )
            .into();
            for target in &mut targets {
                target.latency = Figure::default();
                target.cpu = Figure::default();
            }
            for _ in 0..bench.repetitions {
                repeat(&mut targets, &body, requests).await;
            }
            let title = format!("Request of {size}, tool injected, history {name}");
            table(report, &title, &targets);
        }
    }
    many(bench, report, &targets).await;
}

async fn repeat(targets: &mut [Target], body: &Bytes, requests: usize) {
    let mut clients = Vec::new();
    for target in targets.iter() {
        let mut client = Client::connect(target.proxy.addr).await;
        for _ in 0..3 {
            client.ask("fixed", body).await;
        }
        clients.push(client);
    }
    let mut times = vec![Vec::new(); targets.len()];
    let mut cpu = vec![Duration::ZERO; targets.len()];
    for _ in 0..requests / BLOCK {
        for (i, client) in clients.iter_mut().enumerate() {
            let before = targets[i].proxy.cpu();
            client.ask("fixed", body).await;
            for _ in 1..BLOCK {
                times[i].push(micros(client.ask("fixed", body).await));
            }
            // The last answer's end may still be under way inside.
            tokio::time::sleep(Duration::from_millis(2)).await;
            cpu[i] += targets[i].proxy.cpu() - before;
        }
    }
    for (target, (times, cpu)) in targets.iter_mut().zip(times.into_iter().zip(cpu)) {
        target.latency.push(median(times));
        target.cpu.push(micros(cpu) / requests as f64);
    }
}

fn table(report: &mut Report, title: &str, targets: &[Target]) {
    let direct = &targets[0].latency;
    let collect = targets[2].latency.minus(direct);
    let rows: Vec<_> = [Kind::Direct, Kind::Pass, Kind::Collect, Kind::Baton]
        .into_iter()
        .zip(targets)
        .map(|(kind, target)| {
            if kind == Kind::Direct {
                return (kind.name().to_owned(), vec![target.latency.clone()]);
            }
            let added = target.latency.minus(direct);
            let ratio = Figure(vec![added.median() / collect.median()]);
            let cpu_ratio = target.cpu.over(&targets[2].cpu);
            let figures = vec![
                target.latency.clone(),
                added,
                ratio,
                target.cpu.clone(),
                cpu_ratio,
            ];
            (kind.name().to_owned(), figures)
        })
        .collect();
    let columns = [
        "median µs",
        "added µs",
        "added ÷ collecting",
        "CPU µs",
        "CPU ÷ collecting",
    ];
    report.table(title, &columns, &rows);
}

/// Sixteen connections at once.
async fn many(bench: &Bench, report: &mut Report, targets: &[Target]) {
    for (bytes, size, each) in [(2_000, "2 KB", 100), (100_000, "100 KB", 40)] {
        let body: Bytes = history::body(
            2,
            &Shape {
                bytes,
                sentinel: None,
                kept: 0,
            },
        )
        .into();
        let mut rate = vec![Figure::default(); targets.len()];
        let mut cpu = rate.clone();
        for _ in 0..bench.repetitions {
            for (i, target) in targets.iter().enumerate() {
                let before = target.proxy.cpu();
                let begun = Instant::now();
                let agents = (0..16).map(|_| {
                    let (addr, body) = (target.proxy.addr, body.clone());
                    tokio::spawn(async move {
                        let mut client = Client::connect(addr).await;
                        for _ in 0..each {
                            client.ask("fixed", &body).await;
                        }
                    })
                });
                for agent in agents.collect::<Vec<_>>() {
                    agent.await.unwrap();
                }
                let requests = 16.0 * each as f64;
                rate[i].push(requests / begun.elapsed().as_secs_f64());
                cpu[i].push(micros(target.proxy.cpu() - before) / requests);
            }
        }
        let rows = Kind::ALL.iter().enumerate().map(|(i, kind)| {
            let mut figures = vec![rate[i].clone(), rate[i].over(&rate[2])];
            if *kind != Kind::Direct {
                figures.extend([cpu[i].clone(), cpu[i].over(&cpu[2])]);
            }
            (kind.name().to_owned(), figures)
        });
        let columns = ["requests/s", "÷ collecting", "CPU µs", "CPU ÷ collecting"];
        let title = format!("Sixteen connections, {size}, tool injected");
        report.table(&title, &columns, &rows.collect::<Vec<_>>());
    }
}

/// Has the model hand off once, and returns the sentinel as the agent's transcript will hold it.
pub(crate) async fn sentinel(baton: &Proxy, _: &Shared) -> String {
    let body: Bytes = history::body(
        2,
        &Shape {
            bytes: 8_000,
            sentinel: None,
            kept: 0,
        },
    )
    .into();
    let text = Client::connect(baton.addr).await.text("handoff", &body).await;
    assert!(
        !text.contains(upstream::PROMPT) || text.contains("handoff-resume"),
        "no handoff: {text}"
    );
    let open = text.find(r"\n\n[[handoff-resume:").unwrap();
    let close = open + text[open..].find("[[/handoff-resume:").unwrap();
    let end = close + text[close..].find(r"]]\n\n").unwrap() + 6;
    assert!(text[open..end].contains(PROMPT));
    text[open..end].to_owned()
}

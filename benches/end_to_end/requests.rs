//! The cost of requests: latency added to no proxy, CPU, throughput.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::goal::Goal;
use crate::history::{self, Seeded, Shape};
use crate::report::Report;
use crate::stats::{Figure, median, micros, turns};
use crate::upstream::PROMPT;

/// Bytes, and the number of requests.
///
/// The first request of a block is not timed, because it finds the caches as the previous proxy left them.
struct Size {
    bytes: usize,
    name: &'static str,
    /// Number of requests to one proxy before the next one's turn.
    block: usize,
    /// Number of turns of each proxy in one repetition.
    rounds: usize,
    /// Upper bounds for a cut request as ratios to hyper: added latency and CPU.
    goal: (f64, f64),
    /// Upper bound for the CPU of a request as shipped, including the journal, cut and whole.
    shipped: f64,
}

const fn size(
    bytes: usize,
    name: &'static str,
    block: usize,
    rounds: usize,
    goal: (f64, f64),
    shipped: f64,
) -> Size {
    Size {
        bytes,
        name,
        block,
        rounds,
        goal,
        shipped,
    }
}

const SIZES: [Size; 4] = [
    size(2_000, "2 KB", 10, 20, (1.1, 1.15), 2.5),
    size(100_000, "100 KB", 10, 10, (1.2, 1.4), 2.5),
    size(1_000_000, "1 MB", 5, 8, (1.5, 1.35), 1.6),
    size(4_000_000, "4 MB", 5, 4, (1.5, 1.35), 1.6),
];

/// Upper bound for the CPU that the journal may add, as a ratio.
const JOURNAL: f64 = 1.1;

struct Target {
    kind: Kind,
    proxy: Proxy,
    latency: Figure,
    added: Figure,
    cpu: Figure,
}

/// The measurements of a target in one repetition.
#[derive(Default)]
struct Seen {
    times: Vec<f64>,
    /// Median of each round.
    rounds: Vec<f64>,
}

/// Time for the journal to write its pending notes, which it collects for a quarter of a second.
pub(crate) const SETTLED: Duration = Duration::from_millis(700);

/// Measures agent requests of each size, with the whole history and with a cut one. Both include the tool.
pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (_, addr) = bench.upstream();
    let mut targets = Kind::ALL.map(|kind| Target {
        kind,
        proxy: Proxy::start(kind, addr),
        latency: Figure::default(),
        added: Figure::default(),
        cpu: Figure::default(),
    });
    // Each baton has its own seal key, and so its own sentinel.
    let mut sentinels = Vec::new();
    for target in &targets {
        let made = match target.kind.is_baton() {
            true => Some(sentinel(&target.proxy).await),
            false => None,
        };
        sentinels.push(made);
    }
    let any = sentinels.iter().flatten().next().cloned();
    for pinned in [true, false] {
        for size in SIZES.iter().filter(|s| bench.size.is_none_or(|b| b == s.bytes)) {
            let bodies: Vec<Bytes> = sentinels
                .iter()
                .map(|own| body(size.bytes, own.clone().or(any.clone()).filter(|_| pinned)))
                .collect();
            for target in &mut targets {
                (target.latency, target.added, target.cpu) = Default::default();
            }
            let mut random = Seeded::new(11);
            for _ in 0..bench.repetitions {
                repeat(&mut targets, &bodies, size, &mut random).await;
            }
            table(report, size, pinned, &targets);
        }
    }
    many(bench, report, &targets).await;
    // Not killed: an instrumented program writes its profile at its end.
    targets.into_iter().for_each(|target| target.proxy.end());
}

/// Returns a history of this size, cut if there is a sentinel.
pub(crate) fn body(bytes: usize, sentinel: Option<String>) -> Bytes {
    let kept = 50_000;
    let shape = Shape {
        bytes,
        sentinel,
        kept,
    };
    history::body(2, &shape).into()
}

async fn repeat(targets: &mut [Target], bodies: &[Bytes], size: &Size, random: &mut Seeded) {
    let mut clients = Vec::new();
    for (target, body) in targets.iter().zip(bodies) {
        let mut client = Client::connect(target.proxy.addr).await;
        for _ in 0..3 {
            client.ask("fixed", body).await;
        }
        clients.push(client);
    }
    tokio::time::sleep(SETTLED).await;
    let before: Vec<Duration> = targets.iter().map(|t| t.proxy.cpu()).collect();
    let mut seen: Vec<Seen> = targets.iter().map(|_| Seen::default()).collect();
    for _ in 0..size.rounds {
        for i in turns(random, targets.len()) {
            let proxy = &targets[i].proxy;
            block(proxy, &mut clients[i], &bodies[i], size.block, &mut seen[i]).await;
        }
    }
    // Read after all turns: the journal works after a request, usually during another proxy's turn.
    tokio::time::sleep(SETTLED).await;
    let direct = targets.iter().position(|t| t.kind == Kind::Direct);
    let direct = seen[direct.unwrap()].rounds.clone();
    for ((target, seen), before) in targets.iter_mut().zip(seen).zip(before) {
        // Compared with no proxy in the same round, because a slow phase of the machine affects both.
        let added = seen.rounds.iter().zip(&direct).map(|(a, b)| a - b);
        target.added.push(median(added.collect()));
        target.latency.push(median(seen.times));
        let cpu = target.proxy.cpu() - before;
        target.cpu.push(micros(cpu) / (size.rounds * size.block) as f64);
    }
}

/// Runs one turn of one proxy.
async fn block(proxy: &Proxy, client: &mut Client, body: &Bytes, requests: usize, seen: &mut Seen) {
    client.ask("fixed", body).await;
    let mut times = Vec::new();
    for _ in 1..requests {
        times.push(micros(client.ask("fixed", body).await));
    }
    proxy.cpu_at_rest().await;
    seen.rounds.push(median(times.clone()));
    seen.times.extend(times);
}

fn table(report: &mut Report, size: &Size, pinned: bool, targets: &[Target]) {
    let of = |kind| targets.iter().find(|t| t.kind == kind).unwrap();
    let collecting = of(Kind::Collecting);
    let rows: Vec<_> = targets
        .iter()
        .map(|target| {
            let mut figures = vec![target.latency.clone()];
            if target.kind != Kind::Direct {
                figures.extend([
                    target.added.clone(),
                    target.added.over(&collecting.added),
                    target.cpu.clone(),
                    target.cpu.over(&collecting.cpu),
                ]);
            }
            (target.kind.name().to_owned(), figures)
        })
        .collect();
    let columns = [
        "median µs",
        "added µs",
        "added ÷ collecting",
        "CPU µs",
        "CPU ÷ collecting",
    ];
    let how = if pinned { "pinned" } else { "whole" };
    let title = format!("Request of {}, tool injected, history {how}", size.name);
    report.table(&title, &columns, &rows);
    let (off, on) = (of(Kind::Baton), of(Kind::Journal));
    report.goal(Goal::at_most(
        &format!("{}, {how}, as shipped, CPU ÷ collecting", size.name),
        on.cpu.over(&collecting.cpu),
        size.shipped,
    ));
    if !pinned {
        return;
    }
    let goal = |what: &str, figure, most| Goal::at_most(&format!("{}, {what}", size.name), figure, most);
    report.goal(goal(
        "added latency ÷ collecting",
        off.added.over(&collecting.added),
        size.goal.0,
    ));
    report.goal(goal(
        "CPU ÷ collecting",
        off.cpu.over(&collecting.cpu),
        size.goal.1,
    ));
    report.goal(goal("CPU, journal on ÷ off", on.cpu.over(&off.cpu), JOURNAL));
}

/// Measures sixteen concurrent connections.
async fn many(bench: &Bench, report: &mut Report, targets: &[Target]) {
    let sizes = [(2_000, "2 KB", 100), (100_000, "100 KB", 40)];
    let sizes = sizes
        .into_iter()
        .filter(|s| bench.size.is_none_or(|bytes| bytes == s.0));
    let collecting = targets.iter().position(|t| t.kind == Kind::Collecting).unwrap();
    for (bytes, size, each) in sizes {
        let body = body(bytes, None);
        let mut rate = vec![Figure::default(); targets.len()];
        let mut cpu = rate.clone();
        let mut random = Seeded::new(12);
        for _ in 0..bench.repetitions {
            for i in turns(&mut random, targets.len()) {
                let proxy = &targets[i].proxy;
                let before = proxy.cpu();
                let took = sixteen(proxy, &body, each).await;
                let requests = 16.0 * each as f64;
                rate[i].push(requests / took.as_secs_f64());
                tokio::time::sleep(SETTLED).await;
                cpu[i].push(micros(proxy.cpu() - before) / requests);
            }
        }
        let rows = targets.iter().enumerate().map(|(i, target)| {
            let mut figures = vec![rate[i].clone(), rate[i].over(&rate[collecting])];
            if target.kind != Kind::Direct {
                figures.extend([cpu[i].clone(), cpu[i].over(&cpu[collecting])]);
            }
            (target.kind.name().to_owned(), figures)
        });
        let columns = ["requests/s", "÷ collecting", "CPU µs", "CPU ÷ collecting"];
        let title = format!("Sixteen connections, {size}, tool injected");
        report.table(&title, &columns, &rows.collect::<Vec<_>>());
    }
}

async fn sixteen(proxy: &Proxy, body: &Bytes, each: usize) -> Duration {
    let begun = Instant::now();
    let agents = (0..16).map(|_| {
        let (addr, body) = (proxy.addr, body.clone());
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
    begun.elapsed()
}

/// Makes the model hand off once. Returns the sentinel as in the agent's transcript.
pub(crate) async fn sentinel(baton: &Proxy) -> String {
    let body = body(8_000, None);
    let text = Client::connect(baton.addr).await.text("handoff", &body).await;
    let open = text
        .find(r"\n\n[[handoff-resume:")
        .unwrap_or_else(|| panic!("no handoff: {text}"));
    let close = open + text[open..].find("[[/handoff-resume:").unwrap();
    let end = close + text[close..].find(r"]]\n\n").unwrap() + 6;
    assert!(text[open..end].contains(PROMPT));
    text[open..end].to_owned()
}

//! The cost of streams: the time to the first event, the delay of each event, CPU, throughput.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::BodyExt;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::goal::Goal;
use crate::history::Seeded;
use crate::report::Report;
use crate::requests::body;
use crate::stats::{Figure, median, micros, turns};
use crate::upstream::{BURST, Shared};

/// Number of events of a paced stream, one each millisecond.
const PACED: usize = 150;

/// Turns of each proxy in a repetition, and short streams in a turn.
const ROUNDS: usize = 5;
const SHORT: usize = 8;

#[derive(Default, Clone)]
struct Row {
    /// Time since the request, minus that of no proxy in the same round.
    first: Figure,
    /// Time since the upstream sent the event, minus that of no proxy.
    each: Figure,
    cpu: Figure,
}

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (shared, addr) = bench.upstream();
    let proxies = Kind::STREAMS.map(|kind| (kind, Proxy::start(kind, addr)));
    let body = body(2_000, None);
    paced(bench, report, &proxies, &shared, &body).await;
    for per_chunk in [1, 64] {
        burst(bench, report, &proxies, &body, per_chunk).await;
    }
    proxies.into_iter().for_each(|(_, proxy)| proxy.end());
}

fn index(proxies: &[(Kind, Proxy)], kind: Kind) -> usize {
    proxies.iter().position(|p| p.0 == kind).unwrap()
}

async fn paced(bench: &Bench, report: &mut Report, proxies: &[(Kind, Proxy)], shared: &Shared, body: &Bytes) {
    let direct = index(proxies, Kind::Direct);
    let mut rows = vec![Row::default(); proxies.len()];
    let mut random = Seeded::new(13);
    for _ in 0..bench.repetitions {
        let firsts = firsts(proxies, body, &mut random).await;
        let mut each = vec![0.0; proxies.len()];
        for i in turns(&mut random, proxies.len()) {
            let (delay, cpu) = long(&proxies[i].1, shared, body).await;
            each[i] = delay;
            rows[i].cpu.push(cpu);
        }
        for (i, row) in rows.iter_mut().enumerate() {
            let added = |round: &Vec<f64>| round[i] - if i == direct { 0.0 } else { round[direct] };
            row.first.push(median(firsts.iter().map(added).collect()));
            row.each
                .push(each[i] - if i == direct { 0.0 } else { each[direct] });
        }
    }
    let base = &rows[index(proxies, Kind::Streaming)];
    let shown = proxies.iter().zip(&rows).map(|((kind, _), row)| {
        let figures = match kind {
            Kind::Direct => vec![row.first.clone(), Figure::default(), row.each.clone()],
            _ => vec![
                row.first.clone(),
                row.first.over(&base.first),
                row.each.clone(),
                row.each.over(&base.each),
                row.cpu.clone(),
                row.cpu.over(&base.cpu),
            ],
        };
        (kind.name().to_owned(), figures)
    });
    let columns = [
        "first event: added µs",
        "÷ streaming",
        "each event: added µs",
        "÷ streaming ",
        "CPU µs per event",
        "÷ streaming  ",
    ];
    report.table(
        "Stream of one event each millisecond, tool injected and not called",
        &columns,
        &shown.collect::<Vec<_>>(),
    );
    for kind in [Kind::Baton, Kind::Journal] {
        let row = &rows[index(proxies, kind)];
        let name = kind.name();
        for (what, figure, most) in [
            (
                "first event, added ÷ streaming",
                row.first.over(&base.first),
                1.05,
            ),
            ("each event, added ÷ streaming", row.each.over(&base.each), 1.1),
            ("CPU per event ÷ streaming", row.cpu.over(&base.cpu), 1.15),
        ] {
            report.goal(Goal::at_most(&format!("{what} ({name})"), figure, most));
        }
    }
}

/// Returns the microseconds to the first event: a median for each round and proxy.
async fn firsts(proxies: &[(Kind, Proxy)], body: &Bytes, random: &mut Seeded) -> Vec<Vec<f64>> {
    let mut clients = Vec::new();
    for (_, proxy) in proxies {
        clients.push(Client::connect(proxy.addr).await);
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut round = vec![0.0; proxies.len()];
        for i in turns(random, proxies.len()) {
            let mut times = Vec::new();
            for _ in 0..=SHORT {
                times.push(first(&mut clients[i], body).await);
            }
            // Without the first one, which finds the caches that the previous proxy left.
            round[i] = median(times.split_off(1));
            proxies[i].1.cpu_at_rest().await;
        }
        rounds.push(round);
    }
    rounds
}

async fn first(client: &mut Client, body: &Bytes) -> f64 {
    let begun = Instant::now();
    let mut answer = client.send("paced=2", body).await.into_body();
    answer.frame().await.unwrap().unwrap();
    let took = micros(begun.elapsed());
    answer.collect().await.unwrap();
    took
}

/// Returns the median delay of an event and its CPU time, on one stream of many events.
async fn long(proxy: &Proxy, shared: &Shared, body: &Bytes) -> (f64, f64) {
    let mut client = Client::connect(proxy.addr).await;
    first(&mut client, body).await;
    let before = proxy.cpu_at_rest().await;
    let mut answer = client.send(&format!("paced={PACED}"), body).await.into_body();
    let mut arrived = Vec::new();
    while let Some(frame) = answer.frame().await {
        if frame.unwrap().is_data() {
            arrived.push(Instant::now());
        }
    }
    let cpu = micros(proxy.cpu_at_rest().await - before) / PACED as f64;
    let sent = shared.sent.lock().unwrap().clone();
    let delays = sent
        .iter()
        .zip(&arrived)
        .skip(1)
        .map(|(sent, arrived)| micros(arrived.saturating_duration_since(*sent)));
    (median(delays.collect()), cpu)
}

async fn burst(
    bench: &Bench,
    report: &mut Report,
    proxies: &[(Kind, Proxy)],
    body: &Bytes,
    per_chunk: usize,
) {
    let mut rate = vec![Figure::default(); proxies.len()];
    let mut per_core = rate.clone();
    let mut random = Seeded::new(14);
    for _ in 0..bench.repetitions {
        for i in turns(&mut random, proxies.len()) {
            let proxy = &proxies[i].1;
            let mut client = Client::connect(proxy.addr).await;
            let before = proxy.cpu();
            let begun = Instant::now();
            let answer = client.send(&format!("burst={per_chunk}"), body).await;
            let bytes = drain(answer.into_body()).await;
            assert!(bytes > BURST * 80, "{bytes}");
            rate[i].push(BURST as f64 / begun.elapsed().as_secs_f64());
            per_core[i].push(BURST as f64 / (proxy.cpu_at_rest().await - before).as_secs_f64());
        }
    }
    let base = index(proxies, Kind::Streaming);
    let rows = proxies.iter().enumerate().map(|(i, (kind, _))| {
        let mut figures = vec![rate[i].clone()];
        if *kind != Kind::Direct {
            figures.extend([per_core[i].clone(), per_core[i].over(&per_core[base])]);
        }
        (kind.name().to_owned(), figures)
    });
    let columns = ["events/s", "events per CPU second", "÷ streaming"];
    let title = format!("Burst of {BURST} events, {per_chunk} in a chunk");
    report.table(&title, &columns, &rows.collect::<Vec<_>>());
    for kind in [Kind::Baton, Kind::Journal] {
        let what = format!(
            "burst, {per_chunk} in a chunk, events/s of a core ({})",
            kind.name()
        );
        report.goal(Goal::at_least(&what, per_core[index(proxies, kind)].clone(), 1e6));
    }
}

/// Reads a body to its end. Returns its length.
pub(crate) async fn drain(mut body: hyper::body::Incoming) -> usize {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.unwrap().data_ref().map_or(0, Bytes::len);
    }
    bytes
}

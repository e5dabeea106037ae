//! What streams cost: the time to the first event, the delay of each one, CPU, and how many go through.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::history::{self, Shape};
use crate::report::Report;
use crate::stats::{Figure, median, micros};
use crate::upstream::{BURST, Shared};

/// Events of a paced stream, one each millisecond.
const PACED: usize = 150;

#[derive(Default, Clone)]
struct Row {
    first: Figure,
    each: Figure,
    cpu: Figure,
}

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (shared, addr) = bench.upstream();
    let proxies = Kind::ALL.map(|kind| Proxy::start(kind, addr));
    let body: Bytes = history::body(
        2,
        &Shape {
            bytes: 2_000,
            sentinel: None,
            kept: 0,
        },
    )
    .into();
    paced(bench, report, &proxies, &shared, &body).await;
    for per_chunk in [1, 64] {
        burst(bench, report, &proxies, &body, per_chunk).await;
    }
}

async fn paced(bench: &Bench, report: &mut Report, proxies: &[Proxy], shared: &Shared, body: &Bytes) {
    let mut rows = vec![Row::default(); proxies.len()];
    for _ in 0..bench.repetitions {
        for (row, proxy) in rows.iter_mut().zip(proxies) {
            one_paced(row, proxy, shared, body).await;
        }
    }
    let direct = rows[0].clone();
    let shown = Kind::ALL.iter().zip(&rows).map(|(kind, row)| {
        if *kind == Kind::Direct {
            return (
                kind.name().to_owned(),
                vec![row.first.clone(), Figure::default(), row.each.clone()],
            );
        }
        let (first, each) = (row.first.minus(&direct.first), row.each.minus(&direct.each));
        let base = (
            rows[1].first.minus(&direct.first),
            rows[1].each.minus(&direct.each),
        );
        let ratio = |a: &Figure, b: &Figure| Figure(vec![a.median() / b.median()]);
        let ratios = (ratio(&first, &base.0), ratio(&each, &base.1));
        let figures = vec![
            first,
            ratios.0,
            each,
            ratios.1,
            row.cpu.clone(),
            row.cpu.over(&rows[1].cpu),
        ];
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
}

/// One stream for the delays of its events, some short ones for the time to the first.
async fn one_paced(row: &mut Row, proxy: &Proxy, shared: &Shared, body: &Bytes) {
    let mut client = Client::connect(proxy.addr).await;
    let mut firsts = Vec::new();
    for _ in 0..40 {
        let begun = Instant::now();
        let mut answer = client.send("paced=2", body).await.into_body();
        answer.frame().await.unwrap().unwrap();
        firsts.push(micros(begun.elapsed()));
        answer.collect().await.unwrap();
    }
    row.first.push(median(firsts));
    let before = proxy.cpu();
    let mut answer = client.send(&format!("paced={PACED}"), body).await.into_body();
    let mut arrived = Vec::new();
    while let Some(frame) = answer.frame().await {
        if frame.unwrap().is_data() {
            arrived.push(Instant::now());
        }
    }
    tokio::time::sleep(Duration::from_millis(2)).await;
    row.cpu.push(micros(proxy.cpu() - before) / PACED as f64);
    let sent = shared.sent.lock().unwrap().clone();
    let delays = sent
        .iter()
        .zip(&arrived)
        .skip(1)
        .map(|(sent, arrived)| micros(arrived.saturating_duration_since(*sent)));
    row.each.push(median(delays.collect()));
}

async fn burst(bench: &Bench, report: &mut Report, proxies: &[Proxy], body: &Bytes, per_chunk: usize) {
    let script = format!("burst={per_chunk}");
    let mut rate = vec![Figure::default(); proxies.len()];
    let mut per_core = rate.clone();
    for _ in 0..bench.repetitions {
        for (i, proxy) in proxies.iter().enumerate() {
            let mut client = Client::connect(proxy.addr).await;
            let before = proxy.cpu();
            let begun = Instant::now();
            let mut answer = client.send(&script, body).await.into_body();
            let mut bytes = 0;
            while let Some(frame) = answer.frame().await {
                bytes += frame.unwrap().data_ref().map_or(0, Bytes::len);
            }
            assert!(bytes > BURST * 80, "{bytes}");
            rate[i].push(BURST as f64 / begun.elapsed().as_secs_f64());
            tokio::time::sleep(Duration::from_millis(2)).await;
            per_core[i].push(BURST as f64 / (proxy.cpu() - before).as_secs_f64());
        }
    }
    let rows = Kind::ALL.iter().enumerate().map(|(i, kind)| {
        let mut figures = vec![rate[i].clone()];
        if *kind != Kind::Direct {
            figures.extend([per_core[i].clone(), per_core[i].over(&per_core[1])]);
        }
        (kind.name().to_owned(), figures)
    });
    let columns = ["events/s", "events per CPU second", "÷ streaming"];
    let title = format!("Burst of {BURST} events, {per_chunk} in a chunk");
    report.table(&title, &columns, &rows.collect::<Vec<_>>());
}

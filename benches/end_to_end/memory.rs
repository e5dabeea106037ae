//! What it weighs: idle, with a thousand open streams, and how soon it serves.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::history::{self, Shape};
use crate::report::Report;
use crate::stats::Figure;

const STREAMS: usize = 1_000;

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (_, addr) = bench.upstream();
    let mut rows = Vec::new();
    for kind in [Kind::Pass, Kind::Collect, Kind::Baton] {
        let mut idle = Figure::default();
        let mut open = [Figure::default(), Figure::default()];
        let (mut first, mut later) = (Figure::default(), Figure::default());
        for _ in 0..bench.repetitions.min(5) {
            let begun = Instant::now();
            let proxy = Proxy::start(kind, addr);
            first.push(served(&proxy, begun).await);
            let begun = Instant::now();
            let proxy = proxy.restart(kind, addr);
            later.push(served(&proxy, begun).await);
        }
        for _ in 0..if bench.quick { 1 } else { 3 } {
            for (open, bytes) in open.iter_mut().zip([2_000, 100_000]) {
                let proxy = Proxy::start(kind, addr);
                tokio::time::sleep(Duration::from_millis(200)).await;
                idle.push(mib(&proxy));
                open.push(with_streams(&proxy, &body(bytes)).await);
            }
        }
        let [small, large] = open;
        rows.push((kind.name().to_owned(), vec![idle, small, large, first, later]));
    }
    let columns = [
        "idle MiB",
        "1,000 streams of 2 KB, MiB",
        "of 100 KB, MiB",
        "served, first start ever, ms",
        "served, later start, ms",
    ];
    report.table("Memory and start", &columns, &rows);
}

/// Milliseconds until the answer to a first request is there.
async fn served(proxy: &Proxy, begun: Instant) -> f64 {
    Client::connect(proxy.addr).await.ask("fixed", &body(2_000)).await;
    begun.elapsed().as_secs_f64() * 1e3
}

fn body(bytes: usize) -> Bytes {
    history::body(
        2,
        &Shape {
            bytes,
            sentinel: None,
            kept: 0,
        },
    )
    .into()
}

fn mib(proxy: &Proxy) -> f64 {
    proxy.resident() as f64 / 1024.0
}

async fn with_streams(proxy: &Proxy, body: &Bytes) -> f64 {
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let mut client = Client::connect(proxy.addr).await;
        let mut answer = client.send("hang", body).await.into_body();
        answer.frame().await.unwrap().unwrap();
        open.push((client, answer));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    mib(proxy)
}

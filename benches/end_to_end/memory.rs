//! Memory, idle and with a thousand open streams, and the time until a started proxy serves.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::goal::Goal;
use crate::history::Seeded;
use crate::report::Report;
use crate::requests::body;
use crate::stats::{Figure, turns};

const STREAMS: usize = 1_000;

const KINDS: [Kind; 4] = [Kind::Streaming, Kind::Collecting, Kind::Baton, Kind::Journal];

/// Upper bound of each column: MiB, then milliseconds.
const MOST: [f64; 5] = [12.0, 32.0, 48.0, 15.0, 15.0];

#[derive(Default)]
struct Row {
    idle: Figure,
    small: Figure,
    large: Figure,
    first: Figure,
    later: Figure,
}

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let mut rows: [Row; 4] = Default::default();
    let mut random = Seeded::new(15);
    for _ in 0..bench.repetitions {
        for i in turns(&mut random, KINDS.len()) {
            starts(bench, KINDS[i], &mut rows[i]).await;
        }
    }
    for _ in 0..if bench.quick { 1 } else { 3 } {
        for i in turns(&mut random, KINDS.len()) {
            weights(bench, KINDS[i], &mut rows[i]).await;
        }
    }
    let rows = rows.map(|row| vec![row.idle, row.small, row.large, row.first, row.later]);
    let rows: Vec<_> = KINDS.map(|k| k.name().to_owned()).into_iter().zip(rows).collect();
    let columns = [
        "idle MiB",
        "1,000 streams of 2 KB, MiB",
        "1,000 of 100 KB, MiB",
        "served, first start ever, ms",
        "served, later start, ms",
    ];
    report.table("Memory and start", &columns, &rows);
    let baton = rows.iter().zip(KINDS).filter(|(_, kind)| kind.is_baton());
    for ((name, figures), _) in baton {
        for ((what, figure), most) in columns.iter().zip(figures).zip(MOST) {
            report.goal(Goal::at_most(&format!("{what} ({name})"), figure.clone(), most));
        }
    }
}

/// Measures the start: without any state, and with the state of an earlier run.
async fn starts(bench: &Bench, kind: Kind, row: &mut Row) {
    let (_, addr) = bench.upstream();
    let begun = Instant::now();
    let proxy = Proxy::start(kind, addr);
    row.first.push(served(&proxy, begun).await);
    let left = proxy.kill();
    let begun = Instant::now();
    let proxy = Proxy::start_on(kind, addr, left);
    row.later.push(served(&proxy, begun).await);
}

async fn weights(bench: &Bench, kind: Kind, row: &mut Row) {
    let (_, addr) = bench.upstream();
    for (open, bytes) in [(&mut row.small, 2_000), (&mut row.large, 100_000)] {
        let proxy = Proxy::start(kind, addr);
        tokio::time::sleep(Duration::from_millis(200)).await;
        row.idle.push(mib(&proxy));
        open.push(with_streams(&proxy, &body(bytes, None)).await);
    }
}

/// Returns the milliseconds until the response to a first request.
async fn served(proxy: &Proxy, begun: Instant) -> f64 {
    Client::connect(proxy.addr)
        .await
        .ask("fixed", &body(2_000, None))
        .await;
    begun.elapsed().as_secs_f64() * 1e3
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

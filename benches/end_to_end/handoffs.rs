//! From the end of the hidden call to the next leg's request, with the durable write between them, and the
//! machine's own price of a durable write beside it.

use std::io::Write as _;
use std::time::Instant;

use bytes::Bytes;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::history::{self, Shape};
use crate::report::Report;
use crate::stats::{Figure, median, micros};

const HANDOFFS: usize = 40;

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (shared, addr) = bench.upstream();
    let proxy = Proxy::start(Kind::Baton, addr);
    let (mut gap, mut bare) = (Figure::default(), Figure::default());
    let body: Bytes = history::body(
        2,
        &Shape {
            bytes: 100_000,
            sentinel: None,
            kept: 0,
        },
    )
    .into();
    for _ in 0..bench.repetitions {
        shared.gaps.lock().unwrap().clear();
        let mut client = Client::connect(proxy.addr).await;
        for _ in 0..HANDOFFS {
            client.ask("handoff", &body).await;
        }
        let gaps: Vec<_> = shared.gaps.lock().unwrap().iter().map(|g| micros(*g)).collect();
        assert_eq!(gaps.len(), HANDOFFS);
        gap.push(median(gaps));
        bare.push(bare_sync());
    }
    let rows = [(
        "baton".to_owned(),
        vec![gap.clone(), bare.clone(), gap.minus(&bare)],
    )];
    let columns = [
        "end of call to next request, µs",
        "4 KiB written and synced, µs",
        "difference µs",
    ];
    report.table("Handoff of a 100 KB history, default store", &columns, &rows);
}

/// Appends four KiB to a file and waits until they are on the disk.
fn bare_sync() -> f64 {
    let mut file = tempfile::tempfile().unwrap();
    let times = (0..HANDOFFS).map(|_| {
        let begun = Instant::now();
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
        micros(begun.elapsed())
    });
    median(times.collect())
}

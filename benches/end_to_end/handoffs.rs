//! The time from the end of the hidden call to the next leg's request, including the durable write.
//!
//! Also the time of a durable write on this machine, and the cost of a handoff with its document and without.

use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::goal::Goal;
use crate::report::Report;
use crate::requests::body;
use crate::stats::{Figure, median, micros};

const HANDOFFS: usize = 40;

/// Maximum time between the two, including the durable write, in microseconds.
const GAP: f64 = 1_000.0;

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (shared, addr) = bench.upstream();
    let body = body(100_000, None);
    let kinds = [Kind::NoDocuments, Kind::Baton, Kind::Journal];
    let proxies = kinds.map(|kind| Proxy::start(kind, addr));
    let mut gap = kinds.map(|_| Figure::default());
    let (mut bare, mut cpu) = (gap.clone(), gap.clone());
    let mut file = tempfile::tempfile().unwrap();
    for _ in 0..bench.repetitions {
        for (i, proxy) in proxies.iter().enumerate() {
            shared.gaps.lock().unwrap().clear();
            let mut client = Client::connect(proxy.addr).await;
            let mut syncs = Vec::new();
            let before = proxy.cpu();
            for _ in 0..HANDOFFS {
                client.ask("handoff", &body).await;
                proxy.cpu_at_rest().await;
                syncs.push(bare_sync(&mut file));
            }
            // Documents are written after the handoff. An idle process has finished all of them.
            cpu[i].push(micros(proxy.cpu() - before) / HANDOFFS as f64);
            let gaps: Vec<_> = shared.gaps.lock().unwrap().iter().map(|g| micros(*g)).collect();
            assert_eq!(gaps.len(), HANDOFFS);
            gap[i].push(median(gaps));
            bare[i].push(median(syncs));
        }
    }
    let rows = kinds.iter().enumerate().map(|(i, kind)| {
        let figures = vec![
            gap[i].clone(),
            bare[i].clone(),
            gap[i].minus(&bare[i]),
            cpu[i].clone(),
        ];
        (kind.name().to_owned(), figures)
    });
    let columns = [
        "end of call to next request, µs",
        "4 KiB written and synced, µs",
        "difference µs",
        "CPU µs of a handoff",
    ];
    let title = "Handoff of a 100 KB history, default store";
    report.table(title, &columns, &rows.collect::<Vec<_>>());
    for (kind, gap) in kinds.iter().zip(gap) {
        let what = format!("end of hidden call to next leg, µs ({})", kind.name());
        report.goal(Goal::at_most(&what, gap, GAP));
    }
}

/// Appends four KiB to a file and waits until they are on the disk.
fn bare_sync(file: &mut File) -> f64 {
    let begun = Instant::now();
    file.write_all(&[7; 4096]).unwrap();
    file.sync_data().unwrap();
    micros(begun.elapsed())
}

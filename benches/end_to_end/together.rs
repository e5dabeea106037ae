//! Concurrent handoffs of several conversations: the store flushes the disk once for all waiting writes.

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::populated::body;
use crate::report::Report;
use crate::stats::{Figure, median, micros};

/// Number of conversations that hand off at the same time.
const WIDTHS: [usize; 3] = [1, 4, 16];

/// Number of handoffs in one repetition.
const HANDOFFS: usize = 48;

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let (shared, addr) = bench.upstream();
    let proxy = Proxy::start(Kind::Baton, addr);
    let body = body(100_000, None);
    let mut gaps = vec![Figure::default(); WIDTHS.len()];
    let mut cpu = gaps.clone();
    for _ in 0..bench.repetitions {
        for (i, width) in WIDTHS.into_iter().enumerate() {
            shared.gaps.lock().unwrap().clear();
            let before = proxy.cpu();
            let agents = (0..width).map(|agent| {
                let (addr, body) = (proxy.addr, body.clone());
                tokio::spawn(async move {
                    let mut client = Client::connect(addr).await;
                    client.speak_for(agent);
                    for _ in 0..HANDOFFS / width {
                        client.ask(&format!("handoff={agent}"), &body).await;
                    }
                })
            });
            for agent in agents.collect::<Vec<_>>() {
                agent.await.unwrap();
            }
            let all: Vec<_> = shared.gaps.lock().unwrap().iter().map(|g| micros(*g)).collect();
            assert_eq!(all.len(), HANDOFFS);
            gaps[i].push(median(all));
            cpu[i].push(micros(proxy.cpu() - before) / HANDOFFS as f64);
        }
    }
    let rows = WIDTHS.iter().enumerate().map(|(i, width)| {
        let name = format!("{width} at a time");
        (name, vec![gaps[i].clone(), cpu[i].clone()])
    });
    let columns = ["end of call to next request, µs", "CPU µs of a handoff"];
    let title = "Handoffs at once, each of a 100 KB history of its own conversation";
    report.table(title, &columns, &rows.collect::<Vec<_>>());
}

//! Keeps one proxy busy for a profiler.

use std::time::{Duration, Instant};

use crate::Bench;
use crate::args::Args;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::requests::{body, sentinel};
use crate::stats::micros;
use crate::streams::drain;

/// The work that one connection has done.
#[derive(Default)]
struct Done {
    requests: usize,
    bytes: usize,
}

pub(crate) async fn run(bench: &Bench, args: &Args, kind: Kind) {
    let proxy = Proxy::start(kind, bench.upstream().1);
    let pinned = match args.has("--pinned") && kind.is_baton() {
        true => Some(sentinel(&proxy).await),
        false => None,
    };
    let body = body(bench.size.unwrap_or(2_000), pinned);
    let script = args.after("--script").unwrap_or("fixed").to_owned();
    let connections: u32 = args.number("--connections").unwrap_or(1);
    // The following lines contain everything that a profiler needs.
    println!(
        "{} pid {}, {} bytes a request",
        kind.name(),
        proxy.pid().unwrap_or_default(),
        body.len()
    );
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (before, begun) = (proxy.cpu(), Instant::now());
    let until = begun + args.seconds();
    let agents = (0..connections).map(|_| {
        let (addr, body, script) = (proxy.addr, body.clone(), script.clone());
        tokio::spawn(async move {
            let mut client = Client::connect(addr).await;
            let mut done = Done::default();
            while Instant::now() < until {
                let answer = client.send(&script, &body).await;
                done.bytes += drain(answer.into_body()).await;
                done.requests += 1;
            }
            done
        })
    });
    let mut all = Done::default();
    for agent in agents.collect::<Vec<_>>() {
        let one = agent.await.unwrap();
        all.requests += one.requests;
        all.bytes += one.bytes;
    }
    let took = begun.elapsed();
    let cpu = proxy.cpu_at_rest().await - before;
    println!(
        "{} requests in {:.1} s: {:.0} µs and {:.1} µs of CPU a request, {} bytes answered",
        all.requests,
        took.as_secs_f64(),
        micros(took) * f64::from(connections) / all.requests as f64,
        micros(cpu) / all.requests as f64,
        all.bytes
    );
}

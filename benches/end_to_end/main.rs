//! What baton adds, end to end: side by side with no proxy and with a plain hyper proxy, in one run.
//!
//! ```text
//! cargo bench --bench end_to_end -- [--quick] [--only requests|streams|memory|handoff|journal] [--json FILE]
//! ```
//!
//! Client and upstream share one core, each proxy is a process on another. All take turns within each
//! repetition, so that what disturbs the machine disturbs all of them.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod children;
mod client;
mod handoffs;
#[path = "../support/history.rs"]
#[allow(dead_code)]
mod history;
mod journal;
mod memory;
mod pass;
mod report;
mod requests;
mod stats;
mod streams;
mod upstream;

use std::net::SocketAddr;

use report::Report;
use serde_json::json;
use upstream::Shared;

/// What was asked for.
pub(crate) struct Bench {
    pub(crate) repetitions: usize,
    pub(crate) quick: bool,
    upstream: (Shared, SocketAddr),
}

impl Bench {
    pub(crate) fn upstream(&self) -> (Shared, SocketAddr) {
        self.upstream.clone()
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let after = |flag: &str| args.iter().position(|a| a == flag).and_then(|i| args.get(i + 1));
    if let Some(how) = after("--pass") {
        return pass::run(how == "collect", args.last().unwrap().parse().unwrap());
    }
    let cores = children::cores();
    children::pin_to_first_core(&cores);
    let shared = Shared::default();
    let quick = args.iter().any(|a| a == "--quick");
    let addr = upstream::start(shared.clone());
    let bench = Bench {
        repetitions: if quick { 3 } else { 9 },
        quick,
        upstream: (shared, addr),
    };
    let machine = machine(&cores, &bench);
    let mut report = Report::default();
    let only = after("--only").map(String::as_str);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let wanted = |name: &str| only.is_none_or(|o| o == name);
        if wanted("requests") {
            requests::run(&bench, &mut report).await;
        }
        if wanted("streams") {
            streams::run(&bench, &mut report).await;
        }
        if wanted("memory") {
            memory::run(&bench, &mut report).await;
        }
        if wanted("journal") {
            journal::run(&bench, &mut report).await;
        }
        if wanted("handoff") {
            handoffs::run(&bench, &mut report).await;
        }
    });
    if let Some(path) = after("--json") {
        report.write(path, &machine);
    }
}

fn machine(cores: &[usize], bench: &Bench) -> serde_json::Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split(": ").nth(1));
    let machine = json!({
        "cpu": model.unwrap_or("?"),
        "cores": cores.len(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "load": read("/proc/loadavg").split(' ').next(),
        "repetitions": bench.repetitions,
    });
    println!("{machine}");
    println!(
        "median [least … most] of {} interleaved repetitions",
        bench.repetitions
    );
    machine
}

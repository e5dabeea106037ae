//! The overhead of baton, end to end: compared with no proxy and with plain hyper proxies, in one run.
//!
//! ```text
//! cargo bench --bench end_to_end -- [--quick] [--repetitions N]
//!     [--only requests|streams|memory|handoff|populated|store] [--size BYTES]
//! cargo bench --bench end_to_end -- --only instructions [--case WORDS] [--profile DIR] [--counts FILE]
//!     [--script fixed|paced=N|burst=N] [--connections N] [--seconds N]
//! ```
//! Each accepts `--baton FILE`, to measure another build with the same bench.
//!
//! Client and upstream share one core. Each proxy is a process on another one. All take turns in a random
//! order, and each turn waits until the previous proxy is idle, so that other load on the machine affects all
//! of them equally. baton runs twice, with its journal and without.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod args;
mod children;
mod client;
mod counts;
#[path = "../../src/state/store/redis/tests/faulty_wire.rs"]
#[allow(dead_code, unreachable_pub)]
mod faulty_wire;
mod goal;
mod handoffs;
#[path = "../support/history.rs"]
#[allow(dead_code)]
mod history;
mod memory;
mod pass;
mod populated;
#[path = "../../tests/suite/harness/redis.rs"]
#[allow(dead_code, unreachable_pub)]
mod redis_server;
mod report;
mod requests;
mod stats;
mod stores;
mod streams;
mod upstream;

use std::net::SocketAddr;
use std::path::PathBuf;

use args::Args;
use report::Report;
use serde_json::json;
use upstream::Shared;

/// The requested measurements.
pub(crate) struct Bench {
    pub(crate) repetitions: usize,
    pub(crate) quick: bool,
    /// Only size of requests to measure.
    pub(crate) size: Option<usize>,
    /// Words in the names of the instruction counts to measure.
    pub(crate) case: Option<String>,
    /// Directory for profiles of functions.
    pub(crate) profile: Option<PathBuf>,
    /// File for the ratios of instruction counts.
    pub(crate) counts: Option<PathBuf>,
    upstream: (Shared, SocketAddr),
}

impl Bench {
    fn new(args: &Args) -> Self {
        let shared = Shared::default();
        let addr = upstream::start(shared.clone());
        let quick = args.has("--quick");
        Self {
            repetitions: args.number("--repetitions").unwrap_or(if quick { 3 } else { 9 }),
            quick,
            size: args.number("--size"),
            case: args.after("--case").map(str::to_owned),
            profile: args.after("--profile").map(PathBuf::from),
            counts: args.after("--counts").map(PathBuf::from),
            upstream: (shared, addr),
        }
    }

    pub(crate) fn upstream(&self) -> (Shared, SocketAddr) {
        self.upstream.clone()
    }
}

fn main() {
    let args = Args::of_process();
    if let Some(how) = args.after("--pass") {
        return pass::run(how == "collect", args.last().parse().unwrap());
    }
    let cores = children::cores();
    children::pin_to_first_core(&cores);
    if let Some(executable) = args.after("--baton") {
        children::use_baton(executable);
    }
    let bench = Bench::new(&args);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    name_machine(&cores, &bench);
    let mut report = Report::default();
    runtime.block_on(measure(&bench, args.after("--only"), &mut report));
    report.goals();
}

async fn measure(bench: &Bench, only: Option<&str>, report: &mut Report) {
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    if wanted("requests") {
        requests::run(bench, report).await;
    }
    if wanted("streams") {
        streams::run(bench, report).await;
    }
    if wanted("memory") {
        memory::run(bench, report).await;
    }
    if wanted("handoff") {
        handoffs::run(bench, report).await;
    }
    if wanted("populated") {
        populated::run(bench, report).await;
    }
    // Needs a Redis or Valkey server, and a gigabyte of memory.
    if only == Some("store") {
        stores::run(bench, report).await;
    }
    // Needs valgrind and some time, so it must be requested.
    if only == Some("instructions") {
        counts::run(bench, report).await;
    }
}

/// Prints what the figures were measured on.
fn name_machine(cores: &[usize], bench: &Bench) {
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
}

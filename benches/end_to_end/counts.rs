//! Instructions for a whole request through a proxy, from socket to socket.
//!
//! The process runs under valgrind, once with few requests and once with many. The difference is the cost of
//! the requests.
//!
//! Only user space counts, on all threads, including busy waiting. The load of the machine does not matter.
//! Copies by `rep movsb` would count as one instruction for each byte, so libc must copy with vectors in both
//! proxies. The journal is off: it depends on the clock, and hashes with instructions that valgrind does not
//! emulate. `--only requests` measures its cost.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use tempfile::NamedTempFile;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::report::Report;
use crate::requests::{body, sentinel};
use crate::stats::Figure;
use crate::streams::drain;

/// Work that runs `few` and `many` times, and the number of units in it.
struct Case {
    name: &'static str,
    bytes: usize,
    pinned: bool,
    work: Work,
    base: Kind,
}

#[derive(Clone, Copy)]
enum Work {
    /// This many requests.
    Requests { few: usize, many: usize },
    /// A single stream of this many chunks of this many events.
    Stream {
        few: usize,
        many: usize,
        per_chunk: usize,
    },
}

const fn request(name: &'static str, bytes: usize, pinned: bool, few: usize, many: usize) -> Case {
    Case {
        name,
        bytes,
        pinned,
        work: Work::Requests { few, many },
        base: Kind::Collecting,
    }
}

const fn stream(name: &'static str, few: usize, many: usize, per_chunk: usize) -> Case {
    Case {
        name,
        bytes: 2_000,
        pinned: false,
        work: Work::Stream { few, many, per_chunk },
        base: Kind::Streaming,
    }
}

const CASES: [Case; 8] = [
    request("request 2 KB whole", 2_000, false, 50, 250),
    request("request 2 KB pinned", 2_000, true, 50, 250),
    request("request 100 KB whole", 100_000, false, 20, 100),
    request("request 100 KB pinned", 100_000, true, 20, 100),
    request("request 1 MB whole", 1_000_000, false, 5, 25),
    request("request 1 MB pinned", 1_000_000, true, 5, 25),
    stream("event, 1 in a chunk", 100, 500, 1),
    stream("event, 64 in a chunk", 50, 250, 64),
];

/// Reports the cost of one unit, for the yardstick and for baton.
pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let mut rows = Vec::new();
    let cases = CASES.iter();
    for case in cases.filter(|c| bench.case.as_ref().is_none_or(|n| c.name.contains(n))) {
        let hyper = case.cost(bench, case.base).await;
        let baton = case.cost(bench, Kind::Baton).await;
        let figures = vec![hyper, baton, baton / hyper];
        eprintln!("{}: {figures:.2?}", case.name);
        let figures = figures.into_iter().map(|f| Figure(vec![f])).collect();
        rows.push((case.name.to_owned(), figures));
    }
    let columns = ["hyper", "baton, journal off", "÷ hyper"];
    report.table("Instructions in user space", &columns, &rows);
    if let Some(path) = &bench.counts {
        write(path, &rows);
    }
}

/// Writes the ratios that `benches/whole.sh` compares, with a name on each line.
fn write(path: &Path, rows: &[(String, Vec<Figure>)]) {
    let lines = rows
        .iter()
        .map(|(name, figures)| format!("{:.3}\t{name}, ÷ hyper\n", figures[2].median()));
    std::fs::write(path, lines.collect::<String>()).unwrap();
}

impl Case {
    async fn cost(&self, bench: &Bench, kind: Kind) -> f64 {
        let (few, many, per_unit) = match self.work {
            Work::Requests { few, many } => (few, many, 1),
            Work::Stream { few, many, per_chunk } => (few, many, per_chunk),
        };
        let (less, more) = tokio::join!(self.total(bench, kind, few), self.total(bench, kind, many));
        (more - less) / ((many - few) * per_unit) as f64
    }

    /// Returns the instructions of a process with this much work, from its start to its end.
    async fn total(&self, bench: &Bench, kind: Kind, units: usize) -> f64 {
        let (_, upstream) = bench.upstream();
        let counter = Counter::new(bench, kind, self.name, units);
        let proxy = counter.start(kind, upstream);
        let mark = match self.pinned && kind.is_baton() {
            true => Some(sentinel(&proxy).await),
            false => None,
        };
        let body = body(self.bytes, mark);
        let mut client = Client::connect(proxy.addr).await;
        for _ in 0..3 {
            client.ask("fixed", &body).await;
        }
        self.work(&proxy, &mut client, &body, units).await;
        proxy.cpu_at_rest().await;
        proxy.end();
        counter.count()
    }

    async fn work(&self, proxy: &Proxy, client: &mut Client, body: &Bytes, units: usize) {
        match self.work {
            Work::Requests { .. } => {
                for _ in 0..units {
                    client.ask("fixed", body).await;
                    // Agents think between two requests, so deferred work finishes first.
                    proxy.cpu_at_rest().await;
                }
            }
            Work::Stream { per_chunk, .. } => {
                let script = format!("slow={units}={per_chunk}");
                drain(client.send(&script, body).await.into_body()).await;
            }
        }
    }
}

/// valgrind, and the file with its count.
struct Counter {
    log: NamedTempFile,
    tool: Vec<String>,
}

/// Makes libc copy with vectors, whatever sizes the processor prefers for `rep movsb`.
const LIBC: &str =
    "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000";

impl Counter {
    fn new(bench: &Bench, kind: Kind, name: &str, units: usize) -> Self {
        let tool = match &bench.profile {
            Some(dir) => {
                let file = format!("{} {name} {units}.callgrind", kind.word());
                let file = dir.join(file.replace(", ", " ").replace(' ', "_"));
                vec![
                    "--tool=callgrind".to_owned(),
                    format!("--callgrind-out-file={}", file.display()),
                ]
            }
            // Much faster, because it does not follow calls.
            None => [
                "--tool=cachegrind",
                "--cache-sim=no",
                "--cachegrind-out-file=/dev/null",
            ]
            .map(str::to_owned)
            .to_vec(),
        };
        Self {
            log: NamedTempFile::new().unwrap(),
            tool,
        }
    }

    fn start(&self, kind: Kind, upstream: SocketAddr) -> Proxy {
        Proxy::start_counted(kind, upstream, |program| {
            let mut command = Command::new("valgrind");
            command
                .args(&self.tool)
                .arg("--fair-sched=try")
                .arg(format!("--log-file={}", self.log.path().display()))
                .arg(program)
                .env("GLIBC_TUNABLES", LIBC);
            command
        })
    }

    /// Returns the number after `I refs:` or `Collected :`.
    fn count(&self) -> f64 {
        let log = std::fs::read_to_string(self.log.path()).unwrap();
        let number = log.lines().find_map(|line| {
            let (_, number) = line
                .split_once("refs:")
                .or_else(|| line.split_once("Collected :"))?;
            number.trim().replace(',', "").parse().ok()
        });
        number.unwrap_or_else(|| panic!("valgrind counted nothing:\n{log}"))
    }
}

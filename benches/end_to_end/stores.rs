//! The cost of a store that several processes share, compared with SQLite.
//!
//! Sends the same cut requests and handoffs through baton over each store, in turn. Also measures the
//! throughput of three replicas together, and the memory of conversations on the server.
//!
//! The store's server runs on the core of client and upstream, and the replicas share the other one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_llm::state::config::{Config, Environment, Flags};
use baton_llm::state::store::{self, SharedStore};
use uuid::Uuid;

use crate::Bench;
use crate::children::{Kind, Proxy};
use crate::client::Client;
use crate::faulty_wire::FaultyWire;
use crate::populated::{
    ANY, Side, body, hand_over, handoffs, pinned, repeated, request_all, side, write_all,
};
use crate::redis_server::RedisServer;
use crate::report::Report;
use crate::stats::{Figure, micros};

/// Number of handoffs in each store, all of live conversations.
const HANDOFFS: usize = 200;

/// Number of conversations for measuring memory, each with one handoff.
const CONVERSATIONS: usize = 100_000;

/// Number of connections that keep the replicas busy.
const AGENTS: usize = 16;

/// Sizes of cut requests, and the number of them in one repetition.
const SIZES: [(usize, &str, usize); 2] = [(2_000, "2 KB", 300), (100_000, "100 KB", 120)];

/// Server settings with which every write is in its file before the reply.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let Some(server) = RedisServer::start_if_there(&DURABLE) else {
        return;
    };
    latency(bench, report, &server).await;
    throughput(bench, report, &server).await;
    memory(bench, report).await;
}

/// Returns the keys of `[store]` as environment variables for baton.
fn settings(url: Option<&str>, prefix: &str) -> Vec<(&'static str, String)> {
    match url {
        None => Vec::new(),
        Some(url) => vec![
            ("BATON_STORE__KIND", "redis".to_owned()),
            ("BATON_STORE__URL", url.to_owned()),
            ("BATON_STORE__PREFIX", prefix.to_owned()),
        ],
    }
}

/// Opens the same store in this process.
fn opened(settings: &[(&'static str, String)], dir: PathBuf) -> SharedStore {
    let settings = settings.iter().map(|(key, value)| (*key, value.clone()));
    let environment: Environment = settings.collect();
    let config = Config::from_text(None, &environment, &Flags::default()).unwrap();
    store::open(&config.store, &dir).unwrap()
}

/// Writes handoffs of separate conversations, and returns their ids.
async fn fill(store: &SharedStore, count: usize) -> Vec<Uuid> {
    let all = handoffs(count);
    write_all(&**store, &all).await;
    all.iter().map(|(handoff, _)| handoff.id).collect()
}

/// Starts baton over a store with handoffs, with the conversations in memory.
async fn started(addr: SocketAddr, url: Option<&str>, prefix: &str) -> Side {
    let state = tempfile::tempdir().unwrap();
    let settings = settings(url, prefix);
    let ids = fill(&opened(&settings, state.path().to_owned()), HANDOFFS).await;
    let proxy = Proxy::start_with(Kind::Baton, addr, Some(state), &settings);
    side(proxy, ids).await
}

async fn latency(bench: &Bench, report: &mut Report, server: &RedisServer) {
    let (_, addr) = bench.upstream();
    let network = FaultyWire::to(server.port);
    network.delay(Duration::from_millis(1));
    let (near, far) = (server.url(), network.redis_url());
    let names = ["SQLite", "Redis, loopback", "Redis behind 1 ms of network"];
    let mut sides = Vec::new();
    for (url, prefix) in [(None, ""), (Some(&*near), "near"), (Some(&*far), "far")] {
        sides.push(started(addr, url, prefix).await);
    }
    let mut tables = Vec::new();
    for (bytes, name, requests) in SIZES {
        let body = body(bytes, Some(&format!("[[handoff-resume:{ANY}]]")));
        let rows = repeated(bench, &mut sides, async |side, row| {
            request_all(side, row, &body, requests).await;
        });
        tables.push((format!("Pinned request of {name}"), rows.await));
    }
    let rows = repeated(bench, &mut sides, async |side, row| {
        hand_over(bench, side, row).await
    });
    tables.push((
        "Handoff in a known conversation, end of call to next request".to_owned(),
        rows.await,
    ));
    for (title, rows) in tables {
        let base = rows[0].time.clone();
        let shown = names.iter().zip(rows).map(|(name, row)| {
            let figures = vec![row.time.clone(), row.time.minus(&base), row.cpu];
            ((*name).to_owned(), figures)
        });
        let columns = ["µs", "over SQLite, µs", "CPU of baton, µs"];
        report.table(&title, &columns, &shown.collect::<Vec<_>>());
    }
}

/// Measures cut requests per second with all connections busy.
async fn throughput(bench: &Bench, report: &mut Report, server: &RedisServer) {
    let (_, addr) = bench.upstream();
    let url = server.url();
    let mut rows = Vec::new();
    for (name, url, replicas) in [
        ("one over SQLite", None, 1),
        ("one over Redis", Some(&*url), 1),
        ("three over Redis", Some(&*url), 3),
    ] {
        let prefix = format!("team-{replicas}");
        let state = tempfile::tempdir().unwrap();
        let settings = settings(url, &prefix);
        let ids = Arc::new(fill(&opened(&settings, state.path().to_owned()), HANDOFFS).await);
        let mut states = vec![state];
        states.extend((1..replicas).map(|_| tempfile::tempdir().unwrap()));
        let start = |state| Proxy::start_with(Kind::Baton, addr, Some(state), &settings);
        let proxies: Vec<Proxy> = states.into_iter().map(start).collect();
        let (mut rate, mut cpu, mut of_server) = Default::default();
        for round in 0..=bench.repetitions {
            let before = (cpu_of(&proxies), server.cpu());
            let (done, took) = busy(&proxies, &ids, if bench.quick { 1 } else { 4 }).await;
            // The first round opens connections and conversations.
            if round > 0 {
                let each = |cpu: Duration| micros(cpu) / done as f64;
                Figure::push(&mut rate, done as f64 / took.as_secs_f64());
                Figure::push(&mut cpu, each(cpu_of(&proxies) - before.0));
                Figure::push(&mut of_server, each(server.cpu() - before.1));
            }
        }
        let figures = match url {
            Some(_) => vec![rate, cpu, of_server],
            None => vec![rate, cpu, Figure(vec![0.0])],
        };
        rows.push((name.to_owned(), figures));
    }
    let columns = [
        "requests a second",
        "CPU of baton a request, µs",
        "CPU of the server a request, µs",
    ];
    let title = format!("Pinned requests of 2 KB, {AGENTS} connections, each request to the next replica");
    report.table(&title, &columns, &rows);
}

fn cpu_of(proxies: &[Proxy]) -> Duration {
    proxies.iter().map(Proxy::cpu).sum()
}

/// Keeps the replicas busy for some seconds. Returns the number of responses, and the time.
async fn busy(proxies: &[Proxy], ids: &Arc<Vec<Uuid>>, seconds: u64) -> (usize, Duration) {
    let template = body(2_000, Some(&format!("[[handoff-resume:{ANY}]]")));
    let addrs: Vec<SocketAddr> = proxies.iter().map(|proxy| proxy.addr).collect();
    let begun = Instant::now();
    let until = begun + Duration::from_secs(seconds);
    let agents = (0..AGENTS).map(|agent| {
        let (addrs, ids, template) = (addrs.clone(), Arc::clone(ids), template.clone());
        tokio::spawn(async move {
            let mut clients = Vec::new();
            for addr in addrs {
                clients.push(Client::connect(addr).await);
            }
            let mut done = 0;
            while Instant::now() < until {
                let conversation = (agent + done * AGENTS) % ids.len();
                let at = done % clients.len();
                clients[at].speak_for(conversation);
                clients[at]
                    .ask("fixed", &pinned(&template, ids[conversation]))
                    .await;
                done += 1;
            }
            done
        })
    });
    let mut done = 0;
    for agent in agents.collect::<Vec<_>>() {
        done += agent.await.unwrap();
    }
    (done, begun.elapsed())
}

/// Measures the memory of conversations on the server, each with one handoff of 4,000 bytes.
async fn memory(bench: &Bench, report: &mut Report) {
    let Some(server) = RedisServer::start_if_there(&[]) else {
        return;
    };
    let count = if bench.quick {
        CONVERSATIONS / 10
    } else {
        CONVERSATIONS
    };
    let used = |field: &str| {
        let info = server.cli(&["INFO", "memory"]);
        let line = info.lines().find_map(|line| line.strip_prefix(field));
        line.unwrap()
            .trim_start_matches(':')
            .trim()
            .parse::<f64>()
            .unwrap()
    };
    let before = used("used_memory:");
    let mut settings = settings(Some(&server.url()), "memory");
    settings.push(("BATON_STORE__DURABILITY", "memory".to_owned()));
    let store = opened(&settings, std::env::temp_dir());
    // In parts, because this process holds everything that it writes.
    for from in (0..count).step_by(2_000) {
        crate::populated::fill_from(&store, from, 2_000.min(count - from)).await;
    }
    let all = used("used_memory:") - before;
    let figures = [all / 1e6, all / count as f64, used("used_memory_rss:") / 1e6];
    let figures = figures.map(|figure| Figure(vec![figure])).to_vec();
    let columns = ["used_memory, MB", "bytes each", "resident, MB"];
    let title =
        format!("The server's memory for {count} conversations, each with one handoff of 4,000 bytes");
    report.table(&title, &columns, &[("Redis".to_owned(), figures)]);
}

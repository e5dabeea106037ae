//! Servers that go away, come back, or take too long.

use std::sync::atomic::{AtomicBool, AtomicU64};

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A proxy that delays what goes to the server, or stops passing it on.
struct SlowWire {
    port: u16,
    delay_ms: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
}

impl SlowWire {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let this = Self {
            port: listener.local_addr().unwrap().port(),
            delay_ms: Arc::default(),
            stopped: Arc::default(),
        };
        let (delay, stopped) = (Arc::clone(&this.delay_ms), Arc::clone(&this.stopped));
        tokio::spawn(async move {
            while let Ok((agent, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
                    continue;
                };
                let (mut from_agent, mut to_agent) = agent.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let (delay, stopped) = (Arc::clone(&delay), Arc::clone(&stopped));
                tokio::spawn(async move {
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(read @ 1..) = from_agent.read(&mut buffer).await {
                        tokio::time::sleep(Duration::from_millis(delay.load(Ordering::Relaxed))).await;
                        while stopped.load(Ordering::Relaxed) {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                        if to_server.write_all(&buffer[..read]).await.is_err() {
                            return;
                        }
                    }
                });
                tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_agent).await });
            }
        });
        this
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

#[tokio::test]
async fn a_server_that_goes_away_fails_calls_at_once_and_is_found_again_within_a_second() {
    let Some(mut server) = RedisServer::durable() else {
        return;
    };
    let store = store_in(&server.url(), |o| o.durability = Durability::Fsync);
    let kept = put(&store).await.unwrap();
    server.kill();
    assert!(put(&store).await.is_err());
    let began = Instant::now();
    for _ in 0..100 {
        assert!(store.conversation("c").await.is_err());
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    server.start_again();
    let began = Instant::now();
    while store.handoff("local", kept).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(1), "not back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(
        store.handoff("local", kept).await.unwrap().is_some(),
        "flushed before it was acknowledged"
    );
    put(&store).await.unwrap();
}

/// A connection that was cut between two calls is opened again within the next one.
#[tokio::test]
async fn a_connection_that_was_cut_fails_no_call() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = store_in(&server.url(), |_| {});
    for _ in 0..5 {
        let id = put(&store).await.unwrap();
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        assert!(store.handoff("local", id).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_slow_server_costs_bounded_waits_and_no_pile_of_tasks() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let wire = SlowWire::to(server.port).await;
    let store = store_in(&wire.url(), |o| o.time = Duration::from_millis(300));
    put(&store).await.unwrap();
    wire.delay_ms.store(20, Ordering::Relaxed);
    put(&store).await.unwrap();
    // Nothing comes through any more.
    wire.stopped.store(true, Ordering::Relaxed);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..3 {
        let began = Instant::now();
        let all = join_all((0..400).map(|_| async {
            let began = Instant::now();
            assert!(store.conversation("c").await.is_err());
            began.elapsed()
        }))
        .await;
        let longest = all.into_iter().max().unwrap();
        assert!(longest < Duration::from_millis(600), "{longest:?}");
        assert!(began.elapsed() < Duration::from_millis(900));
    }
    // The links' own, and those of the slow wire's connections.
    assert!(tasks() < before + 60, "{} after {before}", tasks());
    wire.stopped.store(false, Ordering::Relaxed);
    wire.delay_ms.store(0, Ordering::Relaxed);
    let began = Instant::now();
    while store.conversation("c").await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(2), "not back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The primary is killed under load and its replica takes over: what was acknowledged is there.
#[tokio::test]
async fn a_failover_loses_nothing_that_was_replicated() {
    let Some(mut primary) = RedisServer::start(&[]) else {
        return;
    };
    let first = primary.replica(&[]);
    let second = primary.replica(&[]);
    let wire = Switch::to(primary.port).await;
    let store = store_in(&wire.url(), |o| {
        o.durability = Durability::Replicated;
        o.time = Duration::from_millis(500);
    });
    let stop = AtomicBool::new(false);
    let writers = (0..8).map(|_| async {
        let mut written = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            match put(&store).await {
                Ok(id) => written.push(id),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        written
    });
    let failover = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        primary.kill();
        // The one that has more is promoted, as a Sentinel does.
        let offset = |server: &RedisServer| {
            let info = server.cli(&["INFO", "replication"]);
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix("slave_repl_offset:"))
                .unwrap()
                .to_owned();
            line.trim().parse::<u64>().unwrap()
        };
        let (new, other) = match offset(&first) >= offset(&second) {
            true => (&first, &second),
            false => (&second, &first),
        };
        assert_eq!(new.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
        other.cli(&["REPLICAOF", "127.0.0.1", &new.port.to_string()]);
        wire.switch(new.port);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        stop.store(true, Ordering::Relaxed);
    };
    let (written, ()) = tokio::join!(join_all(writers), failover);
    let all: Vec<HandoffId> = written.into_iter().flatten().collect();
    for id in &all {
        assert!(
            store.handoff("local", *id).await.unwrap().is_some(),
            "{id} is lost"
        );
    }
    let last = all.iter().max().unwrap();
    let went_on = last.get_timestamp().unwrap().to_unix().0;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    assert!(now - went_on < 2, "writes go on behind it: {} in all", all.len());
}

/// An address that leads to the primary, whichever that is: its connections break where it changes.
struct Switch {
    port: u16,
    target: tokio::sync::watch::Sender<u16>,
}

impl Switch {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let (target, targets) = tokio::sync::watch::channel(port);
        tokio::spawn(async move {
            while let Ok((mut agent, _)) = listener.accept().await {
                let mut targets = targets.clone();
                tokio::spawn(async move {
                    let now = *targets.borrow_and_update();
                    let Ok(mut server) = TcpStream::connect(("127.0.0.1", now)).await else {
                        return;
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut agent, &mut server) => {}
                        _ = targets.changed() => {}
                    }
                });
            }
        });
        Self { port: own, target }
    }

    fn switch(&self, port: u16) {
        self.target.send_replace(port);
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

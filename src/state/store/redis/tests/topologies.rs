//! Logins, TLS, Sentinels, clusters.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use super::*;
use crate::store::redis::dial::Dialer;

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_user_with_a_password_logs_in() {
    let server = RedisServer::start(&[]);
    let rights = [
        "~{acl}:*",
        "+@read",
        "+@write",
        "+@scripting",
        "+@connection",
        "+info",
        "+wait",
    ];
    let user = [
        &["ACL", "SETUSER", "baton", "on", ">p@ss:word", "resetkeys"][..],
        &rights,
    ]
    .concat();
    assert_eq!(server.cli(&user), "OK");
    let url = |user: &str| format!("redis://{user}@127.0.0.1:{}", server.port);
    let store = |login: &str, prefix: &str| {
        store_in(&url(login), |o| {
            o.prefix = prefix.to_owned();
            o.timeout = Duration::from_secs(1);
        })
    };
    let good = store("baton:p%40ss%3Aword", "acl");
    put(&good).await.unwrap();
    assert_eq!(good.settings_problem().await.unwrap(), None);
    let error = put(&store("baton:wrong", "acl")).await.unwrap_err();
    assert!(!error.message.contains("wrong@"), "{error}");
    // Keys outside of the user's permissions.
    assert!(put(&store("baton:p%40ss%3Aword", "other")).await.is_err());
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn connections_are_encrypted_and_the_server_is_known_by_its_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = file("cert.pem", &made.cert.pem());
    let key = file("key.pem", &made.signing_key.serialize_pem());
    let port = server::free_port().to_string();
    let args = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "no",
    ];
    let _server = RedisServer::start(&args);
    let url = format!("rediss://localhost:{port}");
    let known = store_in(&url, |o| o.ca_file = Some(cert.clone().into()));
    put(&known).await.unwrap();
    let unknown = store_in(&url, |o| o.timeout = Duration::from_secs(1));
    let error = put(&unknown).await.unwrap_err();
    assert!(error.message.contains("certificate"), "{error}");
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = file("other.pem", &other.cert.pem());
    let wrong = store_in(&url, |o| o.ca_file = Some(other.into()));
    assert!(put(&wrong).await.is_err());
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn sentinels_tell_the_primary_and_the_next_one() {
    let mut primary = RedisServer::start(&[]);
    let replica = primary.replica(&[]);
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("sentinel.conf");
    let text = format!(
        "sentinel monitor main 127.0.0.1 {} 1\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n",
        primary.port
    );
    std::fs::write(&config, text).unwrap();
    let sentinel = RedisServer::start(&[&config.display().to_string(), "--sentinel"]);
    let url = format!("redis-sentinel://127.0.0.1:1,127.0.0.1:{}/main", sentinel.port);
    let store = store_in(&url, |_| {});
    let before = put(&store).await.unwrap();
    // The Sentinel must know the replica before it can promote it.
    let began = Instant::now();
    while !sentinel
        .cli(&["SENTINEL", "REPLICAS", "main"])
        .contains(&replica.port.to_string())
    {
        assert!(began.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // `WAIT` on a new connection does not cover writes of others, so the replica itself is queried.
    let written = format!("*handoff:{before}");
    while !replica.cli(&["KEYS", &written]).contains(&before.to_string()) {
        assert!(began.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    primary.kill();
    let began = Instant::now();
    let after = loop {
        match put(&store).await {
            Ok(id) => break id,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    for id in [before, after] {
        assert!(store.handoff("local", id).await.unwrap().is_some());
        assert_eq!(
            replica.cli(&["KEYS", &format!("*handoff:{id}")]).lines().count(),
            1
        );
    }
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_cluster_is_one_slot_and_its_node_is_found() {
    let nodes = [(); 2].map(|()| RedisServer::start(&["--cluster-enabled", "yes"]));
    let [one, two] = nodes;
    // Each node has half of the slots.
    assert_eq!(one.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]), "OK");
    assert_eq!(two.cli(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]), "OK");
    two.cli(&["CONFIG", "SET", "cluster-announce-ip", "127.0.0.1"]);
    one.cli(&["CONFIG", "SET", "cluster-announce-ip", "127.0.0.1"]);
    one.cli(&["CLUSTER", "MEET", "127.0.0.1", &two.port.to_string()]);
    let began = Instant::now();
    for node in [&one, &two] {
        while !node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{}",
                node.cli(&["CLUSTER", "INFO"])
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let seeds = format!("redis-cluster://127.0.0.1:1,127.0.0.1:{}", one.port);
    // These prefixes cover both nodes.
    for n in 0..6 {
        let store = store_in(&seeds, |o| o.prefix = format!("cluster{n}"));
        let id = put(&store).await.unwrap();
        assert!(store.handoff("local", id).await.unwrap().is_some());
    }
    let keys = [&one, &two].map(|node| node.cli(&["DBSIZE"]).parse::<u32>().unwrap());
    assert!(keys.iter().all(|keys| *keys > 0), "{keys:?}");
    conforms(|| Arc::new(store_in(&seeds, |_| {}))).await;
}

/// Reads the number of a line such as `*3` or `$7`.
fn number(reader: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().get(1..)?.parse().ok()
}

/// A server that replies to each command by this function. Returns its address.
fn scripted(reply: impl Fn(&[String]) -> String + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let reply = reply.clone();
            thread::spawn(move || {
                let mut writer = client.try_clone().unwrap();
                let mut reader = BufReader::new(client);
                // A command is `*N` followed by N strings, each after a line with its length.
                while let Some(count) = number(&mut reader) {
                    let words = (0..count).map(|_| {
                        let mut word = vec![0; number(&mut reader)? + 2];
                        reader.read_exact(&mut word).ok()?;
                        Some(String::from_utf8_lossy(&word).trim_end().to_owned())
                    });
                    let Some(words) = words.collect::<Option<Vec<_>>>() else {
                        return;
                    };
                    let _ = writer.write_all(reply(&words).as_bytes());
                }
            });
        }
    });
    address
}

/// Reply of a server with this role.
fn plain(words: &[String], role: &str) -> String {
    let info = format!("redis_version:7.2.0\r\nrole:{role}\r\n");
    match &*words[0] {
        "INFO" => format!("${}\r\n{info}\r\n", info.len()),
        "GET" => "$-1\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    }
}

fn server(role: &'static str) -> String {
    scripted(move |words| plain(words, role))
}

/// A Sentinel that names this server.
fn sentinel(primary: &str) -> String {
    let (host, port) = primary.rsplit_once(':').unwrap();
    let named = format!("*2\r\n${}\r\n{host}\r\n${}\r\n{port}\r\n", host.len(), port.len());
    scripted(move |words| match &*words[0] {
        "SENTINEL" => named.clone(),
        _ => "+OK\r\n".to_owned(),
    })
}

fn dialer(url: &str) -> Dialer {
    let address = StoreAddress::parse(url).unwrap();
    Dialer::new(address, ServerDurability::Memory, "{p}:schema".to_owned(), None).unwrap()
}

#[tokio::test]
async fn a_server_that_hangs_or_lies_does_not_stop_the_others() {
    let (primary, replica) = (server("master"), server("slave"));
    let good = sentinel(&primary);
    let silent = scripted(|_| String::new());
    let wrong = [
        silent.clone(),
        sentinel(&silent),
        sentinel(&replica),
        sentinel("127.0.0.1:1"),
        sentinel("no.such.invalid:6379"),
        scripted(|_| "*-1\r\n".to_owned()),
        scripted(|_| ":5\r\n".to_owned()),
    ];
    for other in &wrong {
        for servers in [format!("{other},{good}"), format!("{good},{other}")] {
            let began = Instant::now();
            let found = dialer(&format!("redis-sentinel://{servers}/main"))
                .connect()
                .await;
            assert_eq!(
                found.map(|line| format!("{}:{}", line.address.0, line.address.1)),
                Ok(primary.clone())
            );
            assert!(
                began.elapsed() < Duration::from_millis(1_900),
                "{servers}: {:?}",
                began.elapsed()
            );
        }
    }
    // Two that agree need no third one.
    let began = Instant::now();
    let most = dialer(&format!(
        "redis-sentinel://{silent},{good},{}/main",
        sentinel(&primary)
    ));
    most.connect().await.map(drop).unwrap();
    assert!(
        began.elapsed() < Duration::from_millis(700),
        "{:?}",
        began.elapsed()
    );
    let cluster = dialer(&format!("redis-cluster://{silent},{primary}"));
    cluster.connect().await.map(drop).unwrap();
    let began = Instant::now();
    cluster.connect().await.map(drop).unwrap();
    assert!(
        began.elapsed() < Duration::from_millis(700),
        "the node that worked is the first: {:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_primary_is_left_when_most_sentinels_name_another() {
    let (former, next) = (server("master"), server("master"));
    for (named, is_left) in [
        ([&next, &next, &former], true),
        ([&former, &former, &next], false),
        ([&former, &next, &next], true),
    ] {
        let sentinels = named.map(|primary| sentinel(primary)).join(",");
        let mut dialer = dialer(&format!("redis-sentinel://{sentinels}/main"));
        dialer.ask_again = Duration::from_millis(20);
        let (host, port) = former.rsplit_once(':').unwrap();
        let former = (host.to_owned(), port.parse().unwrap());
        let replaced = tokio::time::timeout(Duration::from_millis(500), dialer.is_replaced(&former));
        assert_eq!(replaced.await.is_ok(), is_left, "{named:?}");
    }
}

#[tokio::test]
async fn only_a_cluster_follows_a_redirection() {
    let logins = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&logins);
    let other = scripted(move |words| {
        *counter.lock().unwrap() += usize::from(words[0] == "AUTH");
        plain(words, "master")
    });
    let moved = format!("-MOVED 1 {other}\r\n");
    let first = scripted(move |words| match &*words[0] {
        "GET" => moved.clone(),
        _ => plain(words, "master"),
    });
    let refused = dialer(&format!("redis://baton:word@{first}")).connect().await;
    assert!(refused.map(drop).unwrap_err().contains("MOVED"));
    assert_eq!(*logins.lock().unwrap(), 0, "the password went to another host");
    dialer(&format!("redis-cluster://baton:word@{first}"))
        .connect()
        .await
        .map(drop)
        .unwrap();
    assert_eq!(*logins.lock().unwrap(), 1);
}

#[tokio::test]
async fn strings_of_a_server_are_shortened() {
    let long = "L".repeat(2 << 20);
    let text = long.clone();
    let schema = scripted(move |words| match &*words[0] {
        "GET" => format!("${}\r\n{text}\r\n", text.len()),
        _ => plain(words, "master"),
    });
    let login = format!("-ERR {long}\r\n");
    let role = scripted({
        let long = long.clone();
        move |words| plain(words, &long)
    });
    let evicting = scripted(move |words| {
        plain(
            words,
            &format!("master\r\nmaxmemory:5\r\nmaxmemory_policy:allkeys-{long}"),
        )
    });
    for (url, part) in [
        (format!("redis://{schema}"), "schema version L"),
        (format!("redis://{role}"), "it is a L"),
        (format!("redis://u:p@{}", scripted(move |_| login.clone())), ""),
        (format!("redis://{evicting}"), "maxmemory-policy is allkeys-L"),
    ] {
        let error = match dialer(&url).connect().await {
            Err(error) => error,
            Ok(line) => line.wait.unwrap_err(),
        };
        assert!(
            error.contains(part) && error.len() < 500,
            "{part}: {} bytes",
            error.len()
        );
    }
}

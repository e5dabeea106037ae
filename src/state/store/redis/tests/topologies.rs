//! Logins, TLS, Sentinels, clusters.

use std::time::Instant;

use super::*;

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

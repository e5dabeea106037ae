//! A server that replies with anything causes errors, but neither a panic nor a call that never ends.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::store::HandoffFilter;

/// Words that the scripts reply with, among others.
const WORDS: [&str; 9] = [
    "written",
    "overtaken",
    "foreign",
    "OK",
    "",
    "1",
    "{}",
    "null",
    "é",
];

/// State reported by the server.
const INFO: &[u8] = b"$37\r\nredis_version:7.2.0\r\nrole:master\r\na:b\r\n";

/// Generates a reply in RESP2 or RESP3.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(&WORDS[..]);
    let leaf = prop_oneof![
        word.clone().prop_map(|word| format!("+{word}\r\n").into_bytes()),
        word.prop_map(|word| format!("${}\r\n{word}\r\n", word.len()).into_bytes()),
        vec(any::<u8>(), 0..40)
            .prop_map(|bytes| { [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat() }),
        any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        Just(b"$-1\r\n".to_vec()),
        Just(b"_\r\n".to_vec()),
        Just(b"#t\r\n".to_vec()),
        Just(b"-MOVED 1 127.0.0.1:1\r\n".to_vec()),
        Just(b"-NOSCRIPT none\r\n".to_vec()),
        // Not RESP, or lengths that no data matches.
        vec(any::<u8>(), 1..20),
        Just(b"$9223372036854775807\r\n".to_vec()),
        Just(b"*-7\r\n".to_vec()),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        vec(inner, 0..5).prop_map(|all| [format!("*{}\r\n", all.len()).into_bytes(), all.concat()].concat())
    })
}

/// Replies to each command. Handshake commands get a valid reply unless `rude`.
fn serve(client: TcpStream, answers: &[Vec<u8>], rude: bool, called: &AtomicUsize) {
    client.set_nodelay(true).unwrap();
    let mut writer = client.try_clone().unwrap();
    let mut lines = BufReader::new(client).lines();
    let mut next = answers.iter().cycle();
    // A command is `*N` followed by N pairs of length and string. No string in these tests contains a line
    // break.
    while let Some(Ok(line)) = lines.next() {
        let Some(words) = line
            .strip_prefix('*')
            .and_then(|count| count.parse::<usize>().ok())
        else {
            continue;
        };
        let name = lines.by_ref().nth(1).and_then(Result::ok).unwrap_or_default();
        let random = rude || (words > 1 && name == "EVALSHA");
        let bytes = match &*name {
            _ if random => next.next().map_or(&b""[..], |bytes| bytes),
            "INFO" => INFO,
            "GET" => b"$-1\r\n",
            _ => b"$2\r\nOK\r\n",
        };
        called.fetch_add(usize::from(random), Ordering::Relaxed);
        if writer.write_all(bytes).is_err() {
            return;
        }
    }
}

/// Makes calls of each kind. They may fail.
async fn call_all(store: &RedisStore) {
    let id = Uuid::now_v7();
    let record = conversation("local", "c", 1);
    let _ = put(store).await;
    let _ = store.handoff("local", id).await;
    let _ = store.handoffs(&HandoffFilter::default()).await;
    let _ = store.archive("local", id, true).await;
    let _ = store.find(PlacedKind::Pair, "local", Lookup::Ids(&[id])).await;
    let _ = store.conversation("c").await;
    let _ = store.change(&update(&record)).await;
    let _ = store.response_id("local", "r").await;
    let _ = store
        .find(PlacedKind::Insertion, "local", Lookup::Ids(&[id]))
        .await;
    let _ = store.settings_problem().await;
    let _ = store.ping().await;
}

/// Panics if a call to a server with these replies does not end.
fn assert_all_end(answers: Vec<Vec<u8>>, rude: bool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let called = Arc::new(AtomicUsize::new(0));
    let counter = called.clone();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (answers, counter) = (answers.clone(), counter.clone());
            thread::spawn(move || serve(client, &answers, rude, &counter));
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = store_in(&url, |options| options.timeout = Duration::from_millis(100));
        let all = tokio::time::timeout(Duration::from_secs(20), call_all(&store));
        assert!(all.await.is_ok(), "a call does not end");
        assert!(called.load(Ordering::Relaxed) > 0, "the server was not asked");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 32))]

    #[test]
    fn any_answer_ends_in_a_result(answers in vec(answer(), 1..12), rude in any::<bool>()) {
        assert_all_end(answers, rude);
    }
}

/// Found by the test above.
#[test]
fn an_answer_that_is_no_text_ends_in_a_result() {
    assert_all_end(vec![b"$7\r\n\x03s6\xdc\xb3\xe3\xd7\r\n".to_vec()], false);
}

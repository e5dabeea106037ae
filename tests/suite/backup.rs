//! Backups as described in `docs/operations.md`: a copy of the store, made while the program serves, is
//! restored.

use std::path::Path;

use baton_llm::state::store::{seal_key, sqlite};
use baton_strict::{Options, Queue, Reply, Strict};
use rusqlite::Connection;

use crate::harness::fixture::{PROMPT, handoff, history, texts, then};
use crate::harness::program::{Program, ask, config_for};
use crate::harness::redis::RedisServer;
use crate::harness::temp;

fn remove(file: &Path) {
    for tail in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{tail}", file.display()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_made_while_it_serves_is_put_back() {
    let script = Queue::new([handoff(), Reply::text("Fresh.")]);
    let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
    let dir = temp();
    let (config, state) = (config_for(&provider, dir.path(), ""), dir.path().join("state"));
    let (file, copy) = (state.join(sqlite::FILE), dir.path().join("copy.db"));
    let program = Program::start(&config, &state);
    let message = ask(&program, &history()).await;
    let reader = Connection::open(&file).unwrap();
    reader
        .execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
        .unwrap();
    drop(reader);
    drop(program);

    // Everything except the copy is lost, including the key, so only the store knows the handoff.
    remove(&file);
    std::fs::remove_file(state.join(seal_key::FILE)).unwrap();
    std::fs::copy(&copy, &file).unwrap();
    let program = Program::start(&config, &state);
    script.push(Reply::text("Well."));
    ask(&program, &then(&history(), &message, "More.")).await;
    let sent = texts(provider.requests().last().unwrap().messages());
    assert_eq!(sent, [&format!("u: {PROMPT}"), "a: Fresh.", "u: More."]);
    assert_eq!(provider.complaints(), []);
}

/// With a Redis server.
mod redis {
    use super::*;

    /// The methods of the operations guide for a server: its append-only file, or its snapshot, copied to a
    /// new server.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs Redis: .ci/full redis"]
    async fn a_copy_of_a_servers_files_serves_in_a_new_server() {
        for is_snapshot in [false, true] {
            let server = RedisServer::durable();
            let (provider, script) = {
                let script = Queue::new([handoff(), Reply::text("Fresh.")]);
                (
                    Strict::start(script.clone(), Options::default()).await.unwrap(),
                    script,
                )
            };
            let dir = temp();
            let config = |url: &str, durability: &str| {
                let more =
                    format!("store = {{ kind = 'redis', url = '{url}', durability = '{durability}' }}\n");
                config_for(&provider, dir.path(), &more)
            };
            let program = Program::start(&config(&server.url(), "fsync"), &dir.path().join("one"));
            let message = ask(&program, &history()).await;
            let restored = if is_snapshot {
                // Made while the server is in use.
                assert_eq!(server.cli(&["SAVE"]), "OK");
                // A server that starts with appending enabled begins with an empty file and does not read a
                // snapshot, so appending is enabled after the start.
                let files = server.restored(&["--appendonly", "no"]);
                assert_eq!(files.cli(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
                assert_eq!(files.cli(&["CONFIG", "SET", "appendfsync", "always"]), "OK");
                files
            } else {
                server.restored(&["--appendonly", "yes", "--appendfsync", "always"])
            };
            drop((program, server));

            // On another machine, only the store knows the handoff.
            let program = Program::start(&config(&restored.url(), "fsync"), &dir.path().join("two"));
            script.push(Reply::text("Well."));
            let later = then(&history(), &message, "More.");
            ask(&program, &later).await;
            let sent = texts(provider.requests().last().unwrap().messages());
            assert_eq!(
                sent,
                [&format!("u: {PROMPT}"), "a: Fresh.", "u: More."],
                "{is_snapshot}"
            );
            // The restored store accepts writes.
            for reply in [handoff(), Reply::text("Fresh again.")] {
                script.push(reply);
            }
            ask(&program, &then(&later[..3], &message, "And hand over.")).await;
            assert_eq!(provider.complaints(), []);
        }
    }
}

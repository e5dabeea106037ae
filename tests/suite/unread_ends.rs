//! The end of a response that shows a handoff goes to the socket of an agent that never reads it.
//!
//! An identical request is then a repeat, and continues after the handoff. Once the agent counts as having
//! read the end, it is a new request.

use std::time::Duration;

use baton_llm::state::config::Config;
use baton_llm::state::store::SharedStore;
use baton_strict::{Fault, Reply};
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::conversations::shared;
use crate::harness::redis::RedisServer;
use crate::harness::{Baton, memory};
use crate::matrix::fixture::{Fixture, carry, fresh, handoff, handoff_beside};
use crate::matrix::variants::{ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};

/// Time for the proxy to write the end of a response.
const MOMENT: Duration = Duration::from_millis(150);

/// Maximum bytes that an agent reads before it disconnects: a part of the head.
const BEGINNING: usize = 64;

/// An agent's connection, which stays open as long as this lives.
struct Agent(TcpStream);

impl Agent {
    /// Sends a turn over a separate connection.
    async fn asks(fixture: &Fixture, stream: bool, closes: bool) -> Self {
        let body = (fixture.variant.body)(&fixture.history(), stream).to_string();
        let path = (fixture.variant.path)(stream);
        let connection = if closes { "close" } else { "keep-alive" };
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nconnection: {connection}\r\ncontent-length: {}\r\n",
            fixture.baton.addr,
            body.len()
        );
        for (name, value) in fixture.variant.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut socket = TcpStream::connect(fixture.baton.addr).await.unwrap();
        let request = format!("{head}\r\n{body}");
        socket.write_all(request.as_bytes()).await.unwrap();
        Self(socket)
    }

    /// Reads the beginning of the response, and nothing more while its end is written.
    async fn reads_the_beginning(&mut self, fixture: &Fixture) {
        let mut beginning = [0; BEGINNING];
        self.0.read_exact(&mut beginning).await.unwrap();
        assert!(beginning.starts_with(b"HTTP/1.1 200"));
        while fixture.provider.generations().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(MOMENT).await;
    }

    /// Reads until the proxy closes the connection.
    async fn reads_all(mut self) -> String {
        let mut all = Vec::new();
        // A reset ends it as well.
        let _ = self.0.read_to_end(&mut all).await;
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Closes with a reset, whatever is unread.
    fn resets(self) {
        self.0.set_zero_linger().unwrap();
    }
}

/// Ensures that no agent counts as having read an end while a test runs.
fn unread(config: &mut Config) {
    config.limits.waits.unread = Duration::from_secs(600);
}

async fn unread_fixture(variant: Variant) -> Fixture {
    Fixture::with(variant, [handoff(), fresh()], memory(), unread).await
}

/// Asserts that a request continues after the handoff of the unread response.
async fn goes_on(fixture: &Fixture, stream: bool) {
    let before = fixture.provider.generations().len();
    fixture.push(fresh());
    let answer = fixture.ask(&fixture.history(), stream).await;
    let text = answer.text.trim_start();
    assert!(text.starts_with("[[handoff-resume:"), "{text}");
    assert!(text.ends_with("Fresh."), "{text}");
    assert_eq!(fixture.provider.generations().len() - before, 1);
    assert_eq!(fixture.sent(), [carry()]);
}

/// Asserts that a request gets a new response.
async fn begins_anew(fixture: &Fixture, stream: bool) {
    fixture.push(Reply::text("From the start."));
    let answer = fixture.ask(&fixture.history(), stream).await;
    assert_eq!(answer.text, "From the start.");
}

macro_rules! on_all_wires {
    ($($(#[$attribute:meta])* $test:ident)*) => {
        $(mod $test {
            use super::{ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES};

            #[tokio::test]
            $(#[$attribute])*
            async fn anthropic() { super::$test(ANTHROPIC).await; }
            #[tokio::test]
            $(#[$attribute])*
            async fn openai_chat() { super::$test(CHAT).await; }
            #[tokio::test]
            $(#[$attribute])*
            async fn openai_responses() { super::$test(RESPONSES).await; }
            #[tokio::test]
            $(#[$attribute])*
            async fn gemini() { super::$test(GEMINI).await; }
            #[tokio::test]
            $(#[$attribute])*
            async fn ollama() { super::$test(OLLAMA).await; }
        })*
    };
}

on_all_wires! {
    an_agent_that_closes_with_the_end_unread_repeats
    an_agent_that_resets_its_connection_repeats
    an_agent_that_wanted_no_other_request_repeats
    an_agent_that_counts_as_having_read_the_end_asks_anew
    a_repeated_request_is_answered_however_its_leg_breaks
}

mod redis {
    use super::*;

    on_all_wires! {
        #[ignore = "needs Redis: .ci/full redis"]
        an_agent_that_leaves_one_replica_repeats_at_another
    }
}

/// An agent reads the beginning of its response and leaves, and repeats its request.
async fn leaves(variant: Variant, closes: bool, resets: bool) {
    join_all([true, false].map(async |stream| {
        let fixture = unread_fixture(variant).await;
        let mut agent = Agent::asks(&fixture, stream, closes).await;
        agent.reads_the_beginning(&fixture).await;
        match resets {
            true => agent.resets(),
            false => drop(agent),
        }
        goes_on(&fixture, stream).await;
        fixture.assert_clean();
    }))
    .await;
}

/// The kernel resets a connection that is closed with unread data.
async fn an_agent_that_closes_with_the_end_unread_repeats(variant: Variant) {
    leaves(variant, false, false).await;
}

async fn an_agent_that_resets_its_connection_repeats(variant: Variant) {
    leaves(variant, false, true).await;
}

/// The proxy closes its side after the end of the response.
async fn an_agent_that_wanted_no_other_request_repeats(variant: Variant) {
    leaves(variant, true, false).await;
}

async fn an_agent_that_counts_as_having_read_the_end_asks_anew(variant: Variant) {
    join_all([true, false].map(async |stream| {
        let fixture = Fixture::new(variant, [handoff(), fresh()]).await;
        let answer = fixture.ask(&fixture.history(), stream).await;
        assert!(answer.text.ends_with("Fresh."), "{}", answer.text);
        begins_anew(&fixture, stream).await;
        fixture.assert_clean();
    }))
    .await;
}

/// A stream with only this event.
fn unended(event: &str) -> Fault {
    Fault::Raw {
        status: 200,
        content_type: "text/event-stream".to_owned(),
        body: format!("data: {event}\r\n\r\n").into(),
    }
}

/// The agent gets the sentinel and the protocol's error, or a status that names the cause.
///
/// A closed connection without either is wrong.
async fn a_repeated_request_is_answered_however_its_leg_breaks(variant: Variant) {
    let fixture = unread_fixture(variant).await;
    let mut agent = Agent::asks(&fixture, true, false).await;
    agent.reads_the_beginning(&fixture).await;
    drop(agent);
    let call = || handoff_beside(Reply::new()).whole();
    let cut = match variant.model {
        // A single event contains the whole call there.
        "gemini-strict-3" => vec![unended(
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"session_handoff","args":{"prompt":"p"}}}]}}]}"#,
        )],
        "llama-strict" => Vec::new(),
        _ => vec![Fault::EndAfterEvents(1), Fault::CutAfterEvents(1)],
    };
    for fault in cut.into_iter().chain([Fault::EndAfterEvents(0)]) {
        let what = format!("{fault:?}");
        fixture.push(call().fault(fault));
        let answer = Agent::asks(&fixture, true, true).await.reads_all().await;
        match answer.starts_with("HTTP/1.1 200") {
            true => assert!(answer.contains("[[handoff-resume:"), "{what}: {answer:?}"),
            false => assert!(answer.starts_with("HTTP/1.1 502"), "{what}: {answer:?}"),
        }
        assert!(answer.contains("\"error\""), "{what}: {answer:?}");
    }
    fixture.push(call().fault(Fault::CutAfterBytes(20)));
    let answer = Agent::asks(&fixture, false, true).await.reads_all().await;
    assert!(answer.starts_with("HTTP/1.1 "), "{answer:?}");
    goes_on(&fixture, true).await;
}

/// A replica learns through the store whether another one has delivered a response's end.
async fn an_agent_that_leaves_one_replica_repeats_at_another(variant: Variant) {
    let server = RedisServer::start(&[]);
    let cases = [(true, false), (false, false), (true, true), (false, true)];
    join_all(cases.map(async |(stream, read)| {
        let prefix = format!("unread-{stream}-{read}");
        let store = || -> SharedStore { shared(&server.url(), &prefix) };
        let change = |config: &mut Config| {
            if !read {
                unread(config)
            }
        };
        let mut fixture = Fixture::with(variant, [handoff(), fresh()], store(), change).await;
        let mut agent = Agent::asks(&fixture, stream, false).await;
        agent.reads_the_beginning(&fixture).await;
        drop(agent);
        // The first replica keeps serving. Another one takes its place for the agent.
        let first = another(&mut fixture, store());
        // Ends are written in the background.
        tokio::time::sleep(MOMENT).await;
        match read {
            true => begins_anew(&fixture, stream).await,
            false => goes_on(&fixture, stream).await,
        }
        drop(first);
        fixture.assert_clean();
    }))
    .await;
}

/// Directs the agent to another replica, and returns the previous one.
fn another(fixture: &mut Fixture, store: SharedStore) -> Baton {
    let new = fixture.replica(store);
    std::mem::replace(&mut fixture.baton, new)
}

//! The journal by itself: notes go in as the proxy makes them, and are read back.

mod keep;

use std::slice::from_ref;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::record::WireId;
use crate::rewrite::{Change, Why};
use crate::telemetry::{ExchangeEvent, Outcome};
use crate::wire::Requests;
use crate::wire::{self, Call, Stop, Usage};

const LONG: Duration = Duration::from_secs(20);

fn settings() -> Settings {
    Settings {
        enabled: true,
        max_bytes: 1 << 40,
        max_age: Duration::from_secs(86_400 * 36_500),
        redact: vec!["hunter[0-9]".to_owned()],
        secrets: vec![crate::config::Secret::new("our own key")],
        queue_bytes: 64 << 20,
        response_bytes: 1 << 20,
    }
}

fn started(dir: &Path) -> Tap {
    start(&settings(), dir, &[]).unwrap()
}

fn id(n: u32) -> String {
    uuid::Uuid::from_u128(0x0199_a3c2_0000_7000_8000_0000_0000_0000 + u128::from(n)).to_string()
}

fn begun(id: &str, conversation: &str, received: &Bytes) -> Begun {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", "sk-ant-REAL0123456789".parse().unwrap());
    headers.insert("anthropic-version", "2023-06-01".parse().unwrap());
    Begun {
        id: id.to_owned(),
        at_ms: tap::now_ms(),
        principal: "local".to_owned(),
        conversation: Some(conversation.to_owned()),
        wire: WireId::Anthropic,
        call: Call::Generate,
        upstream: "anthropic".to_owned(),
        route: "POST /v1/messages".to_owned(),
        model: Some("m".to_owned()),
        headers: PackedHeaders::new(&headers),
        received: received.clone(),
        transcript: None,
        beginnings: None,
    }
}

fn over(id: &str, conversation: &str, received: usize, sent: &[usize]) -> ExchangeEvent {
    ExchangeEvent {
        wire: Some(WireId::Anthropic),
        conversation: Some(conversation.to_owned()),
        status: 200,
        received_bytes: received as u64,
        sent_bytes: sent.iter().map(|n| *n as u64).collect(),
        outcome: Outcome::Complete,
        ..ExchangeEvent::new(id, "anthropic", "POST /v1/messages")
    }
}

fn leg_of(rope: &[Bytes], changes: &[Change]) -> SentLeg {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer sk-REAL0123456789".parse().unwrap());
    headers.insert("accept-encoding", "identity".parse().unwrap());
    SentLeg {
        url: "https://api.example/v1/messages".to_owned(),
        headers: PackedHeaders::new(&headers),
        rope: rope.to_vec(),
        changes: changes.to_vec(),
    }
}

/// One exchange with one leg, noted as the proxy does it.
fn note(tap: &Tap, n: u32, received: &Bytes, sent: &[Bytes], changes: &[Change], answer: &Bytes) -> String {
    let id = id(n);
    let recording = tap.exchange(&id);
    recording.begin(|| begun(&id, "c", received));
    recording.sent(|| leg_of(sent, changes));
    recording.answered(200, &HeaderMap::new());
    let mut leg = recording.gather_leg();
    let mut shown = recording.gather_shown(&HeaderMap::new());
    for chunk in [answer.slice(..answer.len() / 2), answer.slice(answer.len() / 2..)] {
        leg.push(&chunk);
        shown.push(&chunk);
    }
    leg.ended();
    shown.ended();
    recording.counted(Usage::default(), Stop::Done);
    drop((leg, shown));
    let bytes = sent.iter().map(Bytes::len).sum();
    tap.end(&over(&id, "c", received.len(), &[bytes]));
    id
}

fn body(messages: &[Value]) -> Bytes {
    let body = json!({"model": "m", "max_tokens": 4096, "system": "s".repeat(2000), "messages": messages,
        "tools": [{"name": "read", "description": "d".repeat(900), "input_schema": {}}]});
    body.to_string().into()
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

fn query(dir: &Path) -> Query {
    Query::open(dir).unwrap().unwrap()
}

#[test]
fn what_went_by_is_read_back_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let tap = started(dir.path());
    let received = Bytes::from_static(br#" {"messages" : [ {"role":"user","content":"a\u00e4"} , {"role":"assistant","content":"b"},{"role":"user","content":"c"} ],"x":1.50 } "#);
    let second = memchr::memmem::find(&received, b" , {\"role\":\"assistant").unwrap();
    let sent = [
        received.slice(..16),
        Bytes::from_static(b"{\"role\":\"user\",\"content\":\"P\"}"),
        received.slice(second..),
    ];
    let cut = Change {
        why: Why::Cut,
        removed: 61,
        added: 30,
        handoff: None,
    };
    let answer = Bytes::from_static(br#"{"content":[{"type":"text","text":"ok"}]}"#);
    let id = note(&tap, 1, &received, &sent, &[cut], &answer);
    assert!(tap.flush(LONG));
    let query = query(dir.path());
    assert_eq!(query.body(&id, Side::Received).unwrap().unwrap(), received);
    assert_eq!(query.body(&id, Side::Sent(0)).unwrap().unwrap(), sent.concat());
    assert_eq!(query.body(&id, Side::Response(0)).unwrap().unwrap(), answer);
    assert_eq!(query.body(&id, Side::Shown).unwrap().unwrap(), answer);
    assert_eq!(query.body(&id, Side::Sent(1)).unwrap(), None);
    let exchange = query.exchange(&id).unwrap().unwrap();
    let states = |messages: &[Message]| {
        messages
            .iter()
            .map(|m| format!("{:?}", m.state))
            .collect::<Vec<_>>()
    };
    assert_eq!(states(&exchange.received.messages), ["Cut", "Kept", "Kept"]);
    assert_eq!(states(&exchange.legs[0].sent.messages), ["New", "Kept", "Kept"]);
    assert!(
        exchange.notes[0].contains("1 of 3 messages"),
        "{:?}",
        exchange.notes
    );
    assert_eq!(
        exchange.headers.received[0],
        ("x-api-key".into(), "[redacted:credential]".into())
    );
    assert_eq!(query.ids(&id[..30]).unwrap(), *from_ref(&id));
    let har = query.har(&id).unwrap().unwrap();
    assert_eq!(har["log"]["entries"].as_array().unwrap().len(), 2);
}

/// A conversation whose turns each say something new, as long as `words` words.
fn talk(turns: usize, words: usize) -> Vec<Value> {
    let text = |turn: usize| {
        let words = (0..words).map(|i| format!("w{:x}", (turn * 7919 + i * 104_729) % 50_021));
        words.collect::<Vec<_>>().join(" ")
    };
    (0..turns)
        .flat_map(|turn| {
            [
                said("user", &format!("{turn} {}", text(2 * turn))),
                said("assistant", &text(2 * turn + 1)),
            ]
        })
        .collect()
}

/// Notes a request as the proxy does that has read it while it arrived.
fn arrive(tap: &Tap, n: u32, received: &Bytes) -> String {
    let id = id(n);
    let mut beginnings = tap.beginnings().unwrap();
    beginnings.read(received);
    let view = wire::anthropic::Anthropic.read(received, Call::Generate).unwrap();
    tap.exchange(&id).begin(|| Begun {
        transcript: Some(Transcript {
            list: view.list,
            turns: view.turns.clone(),
        }),
        beginnings: Some(beginnings),
        ..begun(&id, "c", received)
    });
    tap.end(&over(&id, "c", received.len(), &[]));
    id
}

/// Bodies begin alike for some blocks and differ in what stands before, between or behind the messages; a turn more or
/// less moves the ends of messages over the ends of blocks.
#[test]
fn bodies_that_begin_alike_are_kept_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let tap = started(dir.path());
    let mut bodies = Vec::new();
    for turns in [40, 41, 44, 44, 43, 60] {
        bodies.push(body(&talk(turns, 700)));
    }
    let whole = bodies[5].clone();
    assert!(whole.len() > 6 * fast::BLOCK);
    for at in [
        9,
        fast::BLOCK - 1,
        fast::BLOCK,
        3 * fast::BLOCK + 5,
        whole.len() - 30,
    ] {
        let mut changed = whole.to_vec();
        // A letter stays one wherever it stands.
        let at = (at..).find(|at| changed[*at].is_ascii_lowercase()).unwrap();
        changed[at] = if changed[at] == b'w' { b'v' } else { b'w' };
        bodies.push(changed.into());
        bodies.push(whole.clone());
    }
    let large =
        json!({"model": "m", "messages": [said("user", &"l ".repeat(fast::BLOCK)), said("assistant", "b")]});
    bodies.push(large.to_string().into());
    bodies.push(large.to_string().into());
    let ids: Vec<_> = (1..)
        .zip(&bodies)
        .map(|(n, body)| arrive(&tap, n, body))
        .collect();
    assert!(tap.flush(LONG));
    let query = query(dir.path());
    for (id, body) in ids.iter().zip(&bodies) {
        let kept = query.body(id, Side::Received).unwrap().unwrap();
        assert!(kept == *body, "{id}");
        let kept = query.exchange(id).unwrap().unwrap().received.messages.len();
        let sent: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(kept, sent["messages"].as_array().unwrap().len());
    }
}

#[test]
fn a_conversation_costs_space_by_its_text_and_not_by_its_turns() {
    let dir = tempfile::tempdir().unwrap();
    let tap = started(dir.path());
    let turns = 200;
    let all = talk(turns, 300);
    let (mut naive, mut text, mut half) = (0, 0, 0);
    let mut checked = Vec::new();
    for turn in 0..turns {
        let mut history = all[..=2 * turn].to_vec();
        // As agents do: the last message carries the cache breakpoint, and loses it a turn later.
        let last = &mut history[2 * turn];
        *last = json!({"role": "user", "content": [
            {"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}]});
        let received = body(&history);
        let answer: Bytes = all[2 * turn + 1].to_string().into();
        let sent = [
            received.slice(..received.len() - 2),
            Bytes::from_static(b",{\"name\":\"session_handoff\"}]}"),
        ];
        naive += received.len() + sent.iter().map(Bytes::len).sum::<usize>() + 2 * answer.len();
        text = received.len() + answer.len();
        let id = note(&tap, turn as u32, &received, &sent, &[], &answer);
        assert!(tap.flush(LONG));
        checked.push((id, received));
        if turn + 1 == turns / 2 {
            half = query(dir.path()).totals().unwrap().bytes as usize;
        }
    }
    let query = query(dir.path());
    let stored = query.totals().unwrap().bytes as usize;
    println!("{turns} turns: stored {stored} bytes, text {text}, every body by itself {naive}");
    // Twice the turns, twice the space; the empty tables' own pages are counted once.
    assert!(
        stored < 2 * half + (64 << 10),
        "{half} bytes at half, {stored} in the end"
    );
    assert!(stored < 2 * text, "stored {stored}, text {text}");
    assert!(stored * 50 < naive, "stored {stored}, all bodies {naive}");
    for (id, received) in checked.iter().step_by(37) {
        assert_eq!(query.body(id, Side::Received).unwrap().unwrap(), *received);
    }
    assert_eq!(tap.dropped(), 0);
}

#[test]
fn a_legs_address_is_kept_without_what_its_path_and_query_hold() {
    let dir = tempfile::tempdir().unwrap();
    let tap = started(dir.path());
    let received = body(&[said("user", "a")]);
    let segment = format!("{}{}", "q7Rt2LmX9vB4", "nK8sW3zH6pYd");
    let host = "https://3f2504e04f8911d39a0c0305e82c3301a1b2c3d4.gw.example:8443";
    let kept = [
        ("/v1/messages", "/v1/messages"),
        ("/k/SEGMENT/v1/messages", "/k/[redacted:segment]/v1/messages"),
        ("/k/our own key/v1", "/k/[redacted:own-key]/v1"),
        ("/k/our%20own%20key/v1", "/k/[redacted:own-key]/v1"),
        ("/k/hunter7/v1", "/k/[redacted:custom]/v1"),
        ("", ""),
    ];
    for (n, (path, wanted)) in kept.into_iter().enumerate() {
        let id = id(n as u32);
        let recording = tap.exchange(&id);
        recording.begin(|| begun(&id, "c", &received));
        recording.sent(|| SentLeg {
            url: format!("{host}{}", path.replace("SEGMENT", &segment)),
            ..leg_of(from_ref(&received), &[])
        });
        tap.end(&over(&id, "c", received.len(), &[received.len()]));
        assert!(tap.flush(LONG));
        let exchange = query(dir.path()).exchange(&id).unwrap().unwrap();
        assert_eq!(
            exchange.legs[0].sent.url.as_deref(),
            Some(&*format!("{host}{wanted}"))
        );
        let har = query(dir.path()).har(&id).unwrap().unwrap().to_string();
        assert!(!har.contains(&segment), "{har}");
    }
}

#[test]
fn no_secret_is_in_the_file_in_any_form() {
    let dir = tempfile::tempdir().unwrap();
    let tap = started(dir.path());
    let secrets = [
        format!("sk-ant-api03-{}", "x1Y_".repeat(12)),
        format!("ghp_{}", "q7W8".repeat(9)),
        format!("AKIA{}", "QWER5678TYUI0000"),
        format!("AIza{}", "kL3_".repeat(9)),
        format!("xoxp-{}", "998877665544-abcdefgh"),
        format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
            "QUJD".repeat(30)
        ),
        "hunter7".to_owned(),
        "our own key".to_owned(),
    ];
    let all = secrets.join(" and ");
    let received = body(&[
        said("user", &all),
        said("assistant", "ok"),
        said("user", &format!("again {all}")),
    ]);
    let mut stream = String::new();
    for piece in all.as_bytes().chunks(5) {
        let text = String::from_utf8_lossy(piece);
        stream.push_str(&format!(
            "event: d\ndata: {}\n\n",
            json!({"type": "d", "delta": {"text": text}})
        ));
    }
    let id = note(&tap, 1, &received, from_ref(&received), &[], &stream.into());
    assert!(tap.flush(LONG));
    let query = query(dir.path());
    let mut ask = query
        .conn
        .prepare("SELECT body, packed, size, COALESCE(line, '') FROM pieces")
        .unwrap();
    let texts = ask
        .query_map([], |row| {
            let line: String = row.get(3)?;
            let mut text = pool::unpack(row.get(0)?, row.get(1)?, row.get(2)?);
            text.extend_from_slice(line.as_bytes());
            Ok(text)
        })
        .unwrap();
    let mut held: Vec<u8> = texts.flat_map(Result::unwrap).collect();
    for side in [Side::Received, Side::Response(0)] {
        held.extend(query.body(&id, side).unwrap().unwrap());
    }
    let titles: String = query
        .conn
        .query_row("SELECT title FROM titles", [], |row| row.get(0))
        .unwrap();
    held.extend_from_slice(titles.as_bytes());
    for name in ["journal.db", "journal.db-wal"] {
        held.extend(std::fs::read(dir.path().join(name)).unwrap());
    }
    for secret in secrets
        .iter()
        .map(|s| &s[..])
        .chain(["sk-ant-REAL0123456789", "QUJDQUJD"])
    {
        let inner = &secret[secret.len() / 3..];
        assert!(
            memchr::memmem::find(&held, inner.as_bytes()).is_none(),
            "{secret}"
        );
    }
    let shown = String::from_utf8(query.body(&id, Side::Shown).unwrap().unwrap()).unwrap();
    assert!(shown.contains("[redacted:github-token]"), "{shown}");
    serde_json::from_slice::<Value>(&query.body(&id, Side::Received).unwrap().unwrap()).unwrap();
}

#[test]
fn a_full_queue_drops_copies_counts_them_and_keeps_the_row() {
    let dir = tempfile::tempdir().unwrap();
    let small = Settings {
        queue_bytes: 64 << 10,
        ..settings()
    };
    let tap = start(&small, dir.path(), &[]).unwrap();
    let received = body(&[said("user", &"x".repeat(100 << 10))]);
    let id = note(
        &tap,
        1,
        &received,
        from_ref(&received),
        &[],
        &Bytes::from_static(b"{}"),
    );
    let other = note(
        &tap,
        2,
        &body(&[said("user", "y")]),
        &[body(&[said("user", "y")])],
        &[],
        &Bytes::from_static(b"{}"),
    );
    assert!(tap.flush(LONG));
    assert_eq!(tap.dropped(), 1);
    let query = query(dir.path());
    let row = query.row(&id).unwrap().unwrap();
    assert!(row.partial && row.event.received_bytes > 100 << 10);
    assert_eq!(query.body(&id, Side::Received).unwrap(), None);
    assert!(!query.row(&other).unwrap().unwrap().partial);
}

#[test]
fn a_long_answer_is_cut_off_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let short = Settings {
        response_bytes: 10,
        ..settings()
    };
    let tap = start(&short, dir.path(), &[]).unwrap();
    let one = body(&[said("user", "y")]);
    let id = note(
        &tap,
        1,
        &one,
        from_ref(&one),
        &[],
        &Bytes::from_static(b"0123456789abcdef"),
    );
    assert!(tap.flush(LONG));
    let query = query(dir.path());
    assert_eq!(query.body(&id, Side::Shown).unwrap().unwrap(), b"0123456789");
    let exchange = query.exchange(&id).unwrap().unwrap();
    assert!(exchange.shown.truncated && exchange.legs[0].response.truncated);
}

#[test]
fn switched_off_there_is_no_file_and_no_work() {
    let dir = tempfile::tempdir().unwrap();
    let off = Settings {
        enabled: false,
        ..settings()
    };
    let tap = start(&off, dir.path(), &[]).unwrap();
    let recording = tap.exchange("x");
    recording.begin(|| panic!("nobody asks for it"));
    assert!(!tap.is_on() && !recording.is_on() && tap.watch().is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(Query::open(dir.path()).unwrap().is_none());
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_made_costs_the_copies_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("nowhere/at/all", dir.path().join(FILE)).unwrap();
    let tap = started(dir.path());
    let one = body(&[said("user", "y")]);
    note(&tap, 1, &one, from_ref(&one), &[], &Bytes::from_static(b"{}"));
    assert!(tap.flush(LONG), "nobody waits for it");
    assert!(tap.dropped() > 0);
}

#[test]
fn starts_at_once_make_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let taps: Vec<_> = (0..4).map(|_| started(dir.path())).collect();
    let one = body(&[said("user", "y")]);
    for (n, tap) in taps.iter().enumerate() {
        note(
            tap,
            n as u32,
            &one,
            from_ref(&one),
            &[],
            &Bytes::from_static(b"{}"),
        );
        assert!(tap.flush(LONG));
    }
    assert_eq!(query(dir.path()).list(&Filter::default()).unwrap().len(), 4);
    drop(taps);
    let names = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name());
    let strange: Vec<_> = names
        .filter(|name| !name.to_string_lossy().starts_with("journal.db"))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn conversations_are_counted_titled_and_searched() {
    let dir = tempfile::tempdir().unwrap();
    let tap = start(&settings(), dir.path(), &["<system-reminder>".to_owned()]).unwrap();
    let received = body(&[json!({"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>rules</system-reminder>"},
        {"type": "text", "text": "Mend the \"roof\" ä\nnow"}]})]);
    let id = note(
        &tap,
        1,
        &received,
        from_ref(&received),
        &[],
        &Bytes::from_static(b"{\"t\":\"Needle here\"}"),
    );
    assert!(tap.flush(LONG));
    let query = query(dir.path());
    let all = query.conversations(None, 10).unwrap();
    assert_eq!(
        (all.len(), all[0].title.as_str(), all[0].exchanges),
        (1, "Mend the \"roof\" ä", 1)
    );
    let hits = query.search("needle", 10).unwrap().hits;
    assert_eq!(
        (hits.len(), hits[0].exchange.as_str(), hits[0].side.as_str()),
        (1, id.as_str(), "response")
    );
    assert_eq!(query.search("the \"ROOF\"", 10).unwrap().hits.len(), 1);
    let none = query.search("nowhere to be found", 10).unwrap();
    assert!(none.hits.is_empty() && none.complete);
    let message = query.message(&id, Side::Received, 0).unwrap().unwrap();
    assert_eq!(message.parts[1].text.as_deref(), Some("Mend the \"roof\" ä\nnow"));
    assert_eq!(query.ended_after(0, 10).unwrap().len(), 1);
    assert!(query.message(&id, Side::Received, 1).unwrap().is_none());
}

#[test]
fn a_text_is_found_though_the_exchange_that_brought_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let tap = started(dir.path());
    let opening = said("user", "Where is the \"golden\" needle?");
    let first = body(std::slice::from_ref(&opening));
    let second = body(&[opening, said("assistant", "In the hay."), said("user", "Go on.")]);
    let nothing = Bytes::from_static(b"{}");
    let gone = note(&tap, 1, &first, from_ref(&first), &[], &nothing);
    let there = note(&tap, 2, &second, from_ref(&second), &[], &nothing);
    assert!(tap.flush(LONG));
    let query = query(dir.path());
    let find = || query.search("the \"golden\" needle", 10).unwrap().hits;
    assert_eq!(find()[0].exchange, gone);
    let writer = rusqlite::Connection::open(dir.path().join(FILE)).unwrap();
    writer
        .execute("DELETE FROM exchanges WHERE id = ?1", [&gone])
        .unwrap();
    let hits = find();
    assert_eq!((hits.len(), hits[0].exchange.as_str()), (1, there.as_str()));
    assert_eq!((hits[0].place.of, hits[0].place.i), ("messages", Some(0)));
}

#[test]
fn what_is_known_of_a_leg_stands_at_its_number_where_another_leg_was_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let tap = started(dir.path());
    let received = body(&[said("user", "hello")]);
    let id = id(1);
    let recording = tap.exchange(&id);
    recording.begin(|| begun(&id, "c", &received));
    for output in [7, 8, 9] {
        recording.sent(|| leg_of(from_ref(&received), &[]));
        recording.answered(200, &HeaderMap::new());
        recording.gather_leg().ended();
        let usage = Usage {
            output,
            ..Usage::default()
        };
        recording.counted(usage, Stop::Done);
    }
    drop(recording);
    tap.end(&over(&id, "c", received.len(), &[received.len(); 3]));
    assert!(tap.flush(LONG));
    let outputs = |row: &Row| {
        let tokens = row.event.tokens.iter();
        tokens.map(|leg| leg.map(|t| t.output)).collect::<Vec<_>>()
    };
    let whole = query(dir.path()).row(&id).unwrap().unwrap();
    assert_eq!(outputs(&whole), [Some(7), Some(8), Some(9)]);
    let writer = rusqlite::Connection::open(dir.path().join(FILE)).unwrap();
    writer.execute("DELETE FROM legs WHERE n = 1", []).unwrap();
    let row = query(dir.path()).row(&id).unwrap().unwrap();
    assert_eq!(outputs(&row), [Some(7), None, Some(9)]);
    assert_eq!(row.statuses, [Some(200), None, Some(200)]);
    assert_eq!(row.sent_messages, [1, 0, 1]);
    let exchange = query(dir.path()).exchange(&id).unwrap().unwrap();
    assert_eq!(exchange.legs.iter().map(|leg| leg.n).collect::<Vec<_>>(), [0, 2]);
}

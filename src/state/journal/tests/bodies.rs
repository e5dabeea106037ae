//! Bodies are read back unchanged, and each text is stored once.

use pretty_assertions::assert_eq;

use super::*;
use baton_core::text::Span;
use baton_core::wire::anthropic;

#[test]
fn what_went_by_is_read_back_byte_for_byte() {
    let journal = TestJournal::start();
    let received = Bytes::from_static(br#" {"messages" : [ {"role":"user","content":"a\u00e4"} , {"role":"assistant","content":"b"},{"role":"user","content":"c"} ],"x":1.50 } "#);
    let second = memchr::memmem::find(&received, b" , {\"role\":\"assistant").unwrap();
    let sent = [
        received.slice(..16),
        Bytes::from_static(b"{\"role\":\"user\",\"content\":\"P\"}"),
        received.slice(second..),
    ];
    let cut = SizeChange {
        why: ChangeReason::Cut,
        removed: 61,
        added: 30,
        handoff: None,
    };
    let answer = Bytes::from_static(br#"{"content":[{"type":"text","text":"ok"}]}"#);
    let id = note(&journal, 1, &received, &sent, &[cut], &answer);
    let query = journal.read();
    assert_eq!(query.body(&id, BodySide::Received).unwrap().unwrap(), received);
    let read = query.body(&id, BodySide::Sent(0)).unwrap().unwrap();
    assert_eq!(read, sent.concat());
    assert_eq!(query.body(&id, BodySide::Response(0)).unwrap().unwrap(), answer);
    assert_eq!(query.body(&id, BodySide::Shown).unwrap().unwrap(), answer);
    assert_eq!(query.body(&id, BodySide::Sent(1)).unwrap(), None);
    let exchange = query.exchange(&id).unwrap().unwrap();
    let states = |messages: &[MessageSummary]| {
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

/// A cut request that shares messages with the received one has the same rows as a parsed request.
///
/// This holds for any bytes before the kept messages.
#[test]
fn a_cut_request_is_kept_as_if_it_had_been_read() {
    let journal = TestJournal::start();
    let received = body(&talk(6, 40));
    let view = anthropic::WIRE.read(&received, Operation::Generate).unwrap();
    let spans: Vec<Span> = view.turns.iter().map(|turn| turn.span).collect();
    let tools = received.len() - 2;
    let head = Bytes::from_static(br#"{"role":"user","content":"Go on."}"#);
    let tool = Bytes::from_static(br#",{"name":"session_handoff"}"#);
    let ends = [received.slice(tools..)];
    let nodes = || -> i64 {
        let count = "SELECT COUNT(*) FROM nodes";
        journal
            .read()
            .conn
            .query_row(count, [], |row| row.get(0))
            .unwrap()
    };
    let mut n = 0;
    for first in 1..spans.len() {
        let opens = received.slice(..spans[0].start);
        let (last, from) = (spans[first - 1], spans[first].start);
        // After a complete message, inside of one, and before one, where the comma belongs to another.
        let inside = last.end - 2;
        let begun = received.slice(last.start..inside);
        let comma = Bytes::from_static(b",");
        let list_end = view.list.end - 1;
        let rest = |from: usize| received.slice(from..tools);
        for front in [
            vec![rest(last.end)],
            vec![comma.clone(), begun, rest(inside)],
            vec![comma.clone(), rest(from)],
            // With one more message after the kept ones.
            vec![
                received.slice(last.end..list_end),
                comma.clone(),
                head.clone(),
                rest(list_end),
            ],
        ] {
            n += 2;
            let opening = [opens.clone(), head.clone()];
            let sent = [&opening[..], &front[..], from_ref(&tool), &ends[..]].concat();
            let id = note(&journal, n, &received, &sent, &[], &Bytes::from_static(b"{}"));
            assert!(journal.flush(TIMEOUT));
            let flat: Bytes = sent.concat().into();
            let before = nodes();
            let relayed = note_relayed(&journal, n + 1, &flat);
            assert!(journal.flush(TIMEOUT));
            assert_eq!(nodes(), before, "{first}: the same rows");
            let query = journal.read();
            assert_eq!(query.body(&id, BodySide::Sent(0)).unwrap().unwrap(), flat);
            assert_eq!(query.body(&relayed, BodySide::Received).unwrap().unwrap(), flat);
        }
    }
    assert_eq!(journal.dropped(), 0);
}

/// Bodies with equal beginnings differ before, between or after the messages.
#[test]
fn bodies_that_begin_alike_are_kept_as_they_are() {
    let journal = TestJournal::start();
    let mut bodies: Vec<Bytes> = [4, 5, 9].map(|turns| body(&talk(turns, 70))).into();
    let whole = bodies[2].clone();
    for at in [9, 2_100, 2_500, whole.len() / 2, whole.len() - 30] {
        let mut changed = whole.to_vec();
        // A letter remains a letter, so the JSON stays valid.
        let at = (at..).find(|at| changed[*at].is_ascii_lowercase()).unwrap();
        changed[at] = if changed[at] == b'w' { b'v' } else { b'w' };
        bodies.push(changed.into());
        bodies.push(whole.clone());
    }
    let ids: Vec<_> = (1..)
        .zip(&bodies)
        .map(|(n, body)| arrive(&journal, n, body))
        .collect();
    let query = journal.read();
    for (id, body) in ids.iter().zip(&bodies) {
        let kept = query.body(id, BodySide::Received).unwrap().unwrap();
        assert!(kept == *body, "{id}");
        let kept = query.exchange(id).unwrap().unwrap().received.messages.len();
        let sent: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(kept, sent["messages"].as_array().unwrap().len());
    }
}

#[test]
fn a_conversation_costs_space_by_its_text_and_not_by_its_turns() {
    let journal = TestJournal::start();
    let turns = 200;
    let all = talk(turns, 300);
    let (mut naive, mut text, mut half) = (0, 0, 0);
    let mut checked = Vec::new();
    for turn in 0..turns {
        let mut history = all[..=2 * turn].to_vec();
        // Like agents do: the last message carries the cache breakpoint, and loses it a turn later.
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
        let id = note(&journal, turn as u32, &received, &sent, &[], &answer);
        assert!(journal.flush(TIMEOUT));
        checked.push((id, received));
        if turn + 1 == turns / 2 {
            half = journal.read().totals().unwrap().bytes as usize;
        }
    }
    let query = journal.read();
    let stored = query.totals().unwrap().bytes as usize;
    println!("{turns} turns: stored {stored} bytes, text {text}, every body by itself {naive}");
    // Twice the turns take at most twice the space, with the pages of the empty tables counted once.
    assert!(
        stored < 2 * half + (64 << 10),
        "{half} bytes at half, {stored} in the end"
    );
    assert!(stored < 2 * text, "stored {stored}, text {text}");
    assert!(stored * 50 < naive, "stored {stored}, all bodies {naive}");
    for (id, received) in checked.iter().step_by(37) {
        assert_eq!(query.body(id, BodySide::Received).unwrap().unwrap(), *received);
    }
    assert_eq!(journal.dropped(), 0);
}

#[test]
fn what_is_known_of_a_leg_stands_at_its_number_where_another_leg_was_dropped() {
    let journal = TestJournal::start();
    let received = body(&[chat_message("user", "hello")]);
    let id = id(1);
    let recording = journal.exchange(&id);
    recording.begin(|| begun(&id, "c", &received));
    for output in [7, 8, 9] {
        recording.sent(|| leg_of(from_ref(&received), &[]));
        recording.answered(200, &HeaderMap::new());
        recording.capture_leg().ended();
        let usage = Usage {
            output,
            ..Usage::default()
        };
        recording.counted(usage, StopReason::Done);
    }
    let open = journal.read().row(&id).unwrap().unwrap();
    let outputs = open.event.tokens.iter().map(|leg| leg.map(|t| t.output));
    assert_eq!(outputs.collect::<Vec<_>>(), [Some(7), Some(8), Some(9)]);
    drop(recording);
    journal.end(over(&id, "c", received.len(), &[received.len(); 3]));
    assert!(journal.flush(TIMEOUT));
    let writer = rusqlite::Connection::open(journal.dir.path().join(FILE)).unwrap();
    let usage: String = writer
        .query_row("SELECT usage FROM legs WHERE n = 1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(
        usage,
        r#"{"input":0,"cache_read":0,"cache_write":0,"output":8,"reasoning":0}"#
    );
    writer.execute("DELETE FROM legs WHERE n = 1", []).unwrap();
    let row = journal.read().row(&id).unwrap().unwrap();
    assert_eq!(row.statuses, [Some(200), None, Some(200)]);
    assert_eq!(row.sent_messages, [1, 0, 1]);
    let exchange = journal.read().exchange(&id).unwrap().unwrap();
    assert_eq!(exchange.legs.iter().map(|leg| leg.n).collect::<Vec<_>>(), [0, 2]);
}

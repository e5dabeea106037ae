//! Titles and the search.

use pretty_assertions::assert_eq;

use super::*;

/// Claude Code first requests a title, with generated text and no tools.
#[test]
fn a_title_is_of_the_first_request_with_tools() {
    let journal = TestJournal::start();
    let side = |text: &str| -> Bytes {
        let messages = [chat_message("user", text)];
        json!({"model": "m", "max_tokens": 64, "messages": messages})
            .to_string()
            .into()
    };
    let titles = || journal.read().conversations(None, 10).unwrap().remove(0).title;
    note_relayed(&journal, 1, &side("<session>\nMend it.\n</session>"));
    assert_eq!(titles(), "<session>");
    note_relayed(&journal, 2, &side("Another one."));
    assert_eq!(titles(), "<session>");
    let line = "[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]";
    note_relayed(&journal, 3, &body(&[chat_message("user", line)]));
    assert_eq!(titles(), "<session>");
    let resumed = format!("{line}\nMend the roof.");
    note_relayed(&journal, 4, &body(&[chat_message("user", &resumed)]));
    assert_eq!(titles(), "Mend the roof.");
    note_relayed(&journal, 5, &body(&[chat_message("user", "And the door.")]));
    note_relayed(&journal, 6, &side("A summary."));
    assert_eq!(titles(), "Mend the roof.");
}

/// A command that baton answered counts neither as received nor as not sent.
#[test]
fn what_was_not_sent_on_counts_nowhere() {
    let journal = TestJournal::start();
    let received = body(&[chat_message("user", "Mend the roof.")]);
    note_relayed(&journal, 1, &received);
    arrive(&journal, 2, &received);
    let query = journal.read();
    let (totals, all) = (query.totals().unwrap(), query.conversations(None, 1).unwrap());
    let sent = (received.len() as u64, received.len() as u64, 0);
    assert_eq!(
        (totals.received_bytes, totals.sent_bytes, totals.unsent_tokens),
        sent
    );
    assert_eq!(
        (all[0].received_bytes, all[0].sent_bytes, all[0].unsent_tokens),
        sent
    );
    assert_eq!(totals.exchanges, 2);
}

#[test]
fn conversations_are_counted_titled_and_searched() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = start(&settings(), dir.path(), &["<system-reminder>".to_owned()]).unwrap();
    let received = body(&[json!({"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>rules</system-reminder>"},
        {"type": "text", "text": "Mend the \"roof\" ä\nnow"}]})]);
    let answer = Bytes::from_static(b"{\"t\":\"Needle here\"}");
    let id = note(&recorder, 1, &received, from_ref(&received), &[], &answer);
    assert!(recorder.flush(TIMEOUT));
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
    let message = query.message(&id, BodySide::Received, 0).unwrap().unwrap();
    assert_eq!(message.parts[1].text.as_deref(), Some("Mend the \"roof\" ä\nnow"));
    assert_eq!(query.ended_after(0, 10).unwrap().len(), 1);
    assert!(query.message(&id, BodySide::Received, 1).unwrap().is_none());
}

#[test]
fn a_text_is_found_though_the_exchange_that_brought_it_is_gone() {
    let journal = TestJournal::start();
    let opening = chat_message("user", "Where is the \"golden\" needle?");
    let first = body(std::slice::from_ref(&opening));
    let second = body(&[
        opening,
        chat_message("assistant", "In the hay."),
        chat_message("user", "Go on."),
    ]);
    let gone = note_relayed(&journal, 1, &first);
    let there = note_relayed(&journal, 2, &second);
    let query = journal.read();
    let find = || query.search("the \"golden\" needle", 10).unwrap().hits;
    assert_eq!(find()[0].exchange, gone);
    let writer = rusqlite::Connection::open(journal.dir.path().join(FILE)).unwrap();
    writer
        .execute("DELETE FROM exchanges WHERE id = ?1", [&gone])
        .unwrap();
    let hits = find();
    assert_eq!((hits.len(), hits[0].exchange.as_str()), (1, there.as_str()));
    assert_eq!((hits[0].position.of, hits[0].position.i), ("messages", Some(0)));
}

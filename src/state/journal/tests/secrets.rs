//! The file never contains a credential.

use pretty_assertions::assert_eq;

use super::super::chunk_store;
use super::*;

#[test]
fn a_legs_address_is_kept_without_what_its_path_and_query_hold() {
    let journal = TestJournal::start();
    let received = body(&[chat_message("user", "a")]);
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
        let recording = journal.exchange(&id);
        recording.begin(|| begun(&id, "c", &received));
        recording.sent(|| SentLeg {
            url: format!("{host}{}", path.replace("SEGMENT", &segment)),
            ..leg_of(from_ref(&received), &[])
        });
        journal.end(over(&id, "c", received.len(), &[received.len()]));
        let exchange = journal.read().exchange(&id).unwrap().unwrap();
        assert_eq!(exchange.legs[0].sent.url, format!("{host}{wanted}"));
        let har = journal.read().har(&id).unwrap().unwrap().to_string();
        assert!(!har.contains(&segment), "{har}");
    }
}

#[test]
fn no_secret_is_in_the_file_in_any_form() {
    let journal = TestJournal::start();
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
        chat_message("user", &all),
        chat_message("assistant", "ok"),
        chat_message("user", &format!("again {all}")),
    ]);
    let mut stream = String::new();
    for chunk in all.as_bytes().chunks(5) {
        let text = String::from_utf8_lossy(chunk);
        stream.push_str(&format!(
            "event: d\ndata: {}\n\n",
            json!({"type": "d", "delta": {"text": text}})
        ));
    }
    let id = note(&journal, 1, &received, from_ref(&received), &[], &stream.into());
    let query = journal.read();
    let mut ask = query
        .conn
        .prepare("SELECT body, packed, size, COALESCE(line, '') FROM pieces")
        .unwrap();
    let texts = ask
        .query_map([], |row| {
            let line: String = row.get(3)?;
            let mut text = chunk_store::unpack(row.get(0)?, row.get(1)?, row.get(2)?);
            text.extend_from_slice(line.as_bytes());
            Ok(text)
        })
        .unwrap();
    let mut stored: Vec<u8> = texts.flat_map(Result::unwrap).collect();
    for side in [BodySide::Received, BodySide::Response(0)] {
        stored.extend(query.body(&id, side).unwrap().unwrap());
    }
    let titles: String = query
        .conn
        .query_row("SELECT title FROM titles", [], |row| row.get(0))
        .unwrap();
    stored.extend_from_slice(titles.as_bytes());
    for name in ["journal.db", "journal.db-wal"] {
        stored.extend(std::fs::read(journal.dir.path().join(name)).unwrap());
    }
    for secret in secrets
        .iter()
        .map(|s| &s[..])
        .chain(["sk-ant-REAL0123456789", "QUJDQUJD"])
    {
        let inner = &secret[secret.len() / 3..];
        assert!(
            memchr::memmem::find(&stored, inner.as_bytes()).is_none(),
            "{secret}"
        );
    }
    let shown = String::from_utf8(query.body(&id, BodySide::Shown).unwrap().unwrap()).unwrap();
    assert!(shown.contains("[redacted:github-token]"), "{shown}");
    serde_json::from_slice::<Value>(&query.body(&id, BodySide::Received).unwrap().unwrap()).unwrap();
}

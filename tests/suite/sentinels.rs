//! What stands in an agent's transcript where a handoff happened: its two forms, whose it is, and what a request
//! without a readable one comes to.

use baton_proxy::config::{Client, Config, Secret, Transcript};
use baton_proxy::mark::seal::SealKey;
use baton_proxy::record::Handoff;
use baton_proxy::store::HandoffFilter;
use baton_proxy::strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::Value;
use uuid::Uuid;

use crate::harness::anthropic::Anthropic;
use crate::harness::scene::{PROMPT, Scene, handoff, history, said, texts, then, user};
use crate::harness::{AgentSide, KEY, Told, memory};
use crate::matrix::sides::{ANTHROPIC, CHAT, CODE_ASSIST, GEMINI, GEMINI_ARRAY, OLLAMA, RESPONSES, VERTEX};
use crate::matrix::stage::Stage;

const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);

fn teammates(config: &mut Config) {
    for upstream in config.upstreams.values_mut() {
        upstream.api_key = Some(Secret::new("sk-of-the-proxy"));
    }
    let client = |name: &str| Client {
        name: name.to_owned(),
        key: Secret::new(format!("key-of-{name}")),
    };
    config.clients = vec![client("ann"), client("bob")];
}

async fn ask_as(scene: &Scene, key: &str, history: &[Value]) -> Told {
    let headers = [("anthropic-version", "2023-06-01"), ("x-api-key", key)];
    let body = Anthropic.body(history, true).to_string().into();
    let heard = scene.baton.post(Anthropic.path(), &headers, body).await;
    assert_eq!(heard.status, 200, "{}", heard.text());
    Anthropic.hear(&heard.raw, true, false).unwrap()
}

fn spoken(text: &str) -> Vec<Value> {
    let answer = serde_json::json!({"role": "assistant", "content": text});
    [&history()[..], &[answer, user("More.")]].concat()
}

/// The store is lost: only the seal speaks for a sentinel, and it speaks for its own client alone.
#[tokio::test]
async fn a_sealed_sentinel_is_its_own_clients() {
    let first = Scene::with([handoff(), Reply::text("Fresh.")], memory(), teammates).await;
    let told = ask_as(&first, "key-of-ann", &history()).await;
    let sentinel = said(&told)[1].to_owned();
    assert!(!sentinel.contains("ann"));

    let later = Scene::with([], memory(), teammates).await;
    for (key, cut) in [("key-of-ann", true), ("key-of-bob", false)] {
        later.script.push(Reply::text("ok"));
        ask_as(&later, key, &spoken(&format!("Done.{sentinel}Fresh."))).await;
        let sent = texts(later.last().messages());
        assert_eq!(sent[0] != "u: Mend the importer.", cut, "{key}: {sent:?}");
    }
    let alone = Scene::with([Reply::text("ok")], memory(), |_| {}).await;
    alone.turn(&spoken(&format!("Done.{sentinel}Fresh."))).await;
    assert_eq!(
        alone.last().messages().len(),
        5,
        "sealed for a client, and shown by nobody"
    );
}

/// Transcripts outlive versions: the older form, sealed before there were clients, holds for who has none.
#[tokio::test]
async fn the_older_form_stays_valid_where_there_are_no_clients() {
    let seal = SealKey::new(KEY).seal("local", ID, "Goal.");
    let older = format!("\n\n[[handoff-resume:{ID}]]\nGoal.\n[[/handoff-resume:{ID}.{seal}]]\n\n");
    let scene = Scene::new([Reply::text("ok")]).await;
    scene.turn(&spoken(&format!("Done.{older}Fresh."))).await;
    assert_eq!(
        texts(scene.last().messages()),
        ["u: Goal.", "a: Fresh.", "u: More."]
    );

    let team = Scene::with([Reply::text("ok")], memory(), teammates).await;
    ask_as(&team, "key-of-ann", &spoken(&format!("Done.{older}Fresh."))).await;
    assert_eq!(team.last().messages().len(), 5);
}

/// What a stranger who opens the transcript reads.
#[tokio::test]
async fn the_sentinel_says_what_happened_and_why() {
    let scene = Scene::new([handoff(), Reply::text("Fresh.")]).await;
    let told = scene.turn(&history()).await;
    let lines: Vec<&str> = said(&told)[1].trim().lines().collect();
    assert_eq!(
        lines[1],
        "*Handed over: done. From here on the model knows only what follows.*"
    );
    assert_eq!((lines[2], lines[3]), ("", "Goal: skip BOMs."));
    let closing = lines.last().unwrap();
    assert!(
        closing.starts_with("[[/handoff-resume:") && closing.len() == 18 + 22 + 2,
        "{closing}"
    );
    scene.script.push(Reply::text("ok"));
    scene.turn(&then(&history(), &told, "More.")).await;
    assert_eq!(scene.last().messages().len(), 3);
    scene.at_peace();
}

/// A transcript in which neighbouring texts came back as one, as on chat.
async fn sent_behind(scene: &Scene, sentinel: &str, rest: &str) -> Vec<String> {
    scene.script.push(Reply::text("ok"));
    scene.turn(&spoken(&format!("Done.{sentinel}{rest}"))).await;
    texts(scene.last().messages())
}

/// The prompt is not in the transcript, so what stands behind the sentinel is the model's own, also where the model said
/// the prompt again.
#[tokio::test]
async fn behind_a_sentinel_without_its_prompt_nothing_is_taken_for_the_prompt() {
    let short = |c: &mut Config| c.handoff.transcript = Transcript::Sentinel;
    let scene = Scene::with([handoff(), Reply::text("Fresh.")], memory(), short).await;
    let told = scene.turn(&history()).await;
    let sentinel = said(&told)[1].to_owned();
    assert_eq!(sentinel.trim().lines().count(), 2, "{sentinel}");
    for rest in ["Goal: skip", PROMPT, &format!("{PROMPT}\nFirst, the reader.")] {
        let sent = sent_behind(&scene, &sentinel, rest).await;
        assert_eq!(sent, [&format!("u: {PROMPT}"), &format!("a: {rest}"), "u: More."]);
    }
    // A sentinel that was shown with its prompt is told apart: what is left of the prompt goes.
    let scene = Scene::new([handoff(), Reply::text("Fresh.")]).await;
    let told = scene.turn(&history()).await;
    let torn = said(&told)[1].split_once("\nNext").unwrap().0.to_owned();
    assert_eq!(
        sent_behind(&scene, &torn, "").await,
        [&format!("u: {PROMPT}"), "u: More."]
    );
}

/// Sent on whole, and not without a word.
#[tokio::test]
async fn a_sentinel_whose_handoff_is_lost_is_counted_as_unpinned() {
    let first = Scene::new([handoff(), Reply::text("Fresh.")]).await;
    let told = first.turn(&history()).await;
    let scene = Scene::new([]).await;
    for (n, seal_lost) in [(1, true), (2, false)] {
        scene.script.push(Reply::text("ok"));
        let mut sentinel = said(&told)[1].to_owned();
        if seal_lost {
            sentinel = sentinel.replace("Goal", "Gaol");
        }
        scene.turn(&spoken(&format!("Done.{sentinel}Fresh."))).await;
        assert_eq!(scene.last().messages().len() == 5, seal_lost);
        assert_eq!(scene.baton.events(n).await[n - 1].unpinned, seal_lost);
    }
}

/// One leg is the first alone: a handoff would have none to go on in, and every call of the tool would be dropped.
#[tokio::test]
async fn a_chain_of_one_leg_offers_no_tool() {
    for (legs, offered) in [(1, false), (2, true)] {
        let scene = Scene::with([Reply::text("ok")], memory(), |c| c.handoff.max_chain = legs).await;
        scene.turn(&history()).await;
        assert_eq!(scene.last().offers_handoff(), offered, "{legs}");
    }
}

/// However it was pasted, and whatever an agent made of it.
#[tokio::test]
async fn the_line_to_resume_by_forgives() {
    let scene = Scene::new([handoff(), Reply::text("Fresh.")]).await;
    let told = scene.turn(&history()).await;
    let block = said(&told)[1].trim().to_owned();
    let line = block.lines().next().unwrap().to_owned();
    let quoted: String = block.lines().map(|l| format!("> {l}\n")).collect();
    for pasted in [
        format!("{line}\nMend."),
        format!("{line} Mend."),
        format!("> {line}\nMend."),
        format!("\"{line}\" Mend."),
        format!("{} Mend.", &line[1..line.len() - 1]),
        format!("{} Mend.", &line[..17 + 13]),
        format!("{block}\n\nMend."),
        format!("{quoted}Mend."),
    ] {
        scene.script.push(Reply::text("ok"));
        scene.turn(&[user(&pasted)]).await;
        assert_eq!(
            texts(scene.last().messages()),
            [&format!("u: {PROMPT}"), "u: Mend."],
            "{pasted}"
        );
    }
    // In the middle of a text it is text.
    scene.script.push(Reply::text("ok"));
    scene.turn(&[user(&format!("What is {line}?"))]).await;
    assert_eq!(scene.last().messages().len(), 1);
    scene.at_peace();
}

/// Nothing goes upstream, and the agent gets a message of its wire's own shape that says what to do.
#[tokio::test]
async fn an_unknown_line_is_answered_by_baton_on_every_wire() {
    for side in [
        ANTHROPIC,
        CHAT,
        RESPONSES,
        GEMINI,
        OLLAMA,
        GEMINI_ARRAY,
        CODE_ASSIST,
        VERTEX,
    ] {
        let stage = Stage::new(side, []).await;
        for stream in [true, false] {
            for line in [
                format!("[[handoff-resume:{ID}]]\nGo on."),
                format!("> [handoff-resume:{ID}] Go on."),
            ] {
                let history = [&stage.history()[..2], &[stage.user(&line)]].concat();
                let said = stage.ask(&history, stream).await;
                assert!(
                    said.text.starts_with("baton: this handoff is not known here"),
                    "{}",
                    said.text
                );
                assert!(said.input > 0 && said.calls.is_empty());
                // The answer comes back, and what follows is an ordinary turn.
                stage.push(Reply::text("Well."));
                let next = stage
                    .ask(&stage.then(&history, &said, "Then go on."), stream)
                    .await;
                assert_eq!(next.text, "Well.");
            }
        }
        assert_eq!(stage.provider.generations().len(), 4);
        stage.at_peace();
    }
}

/// Two handoffs of the same millisecond: what is left of the id fits both, and a digit more tells them apart.
#[tokio::test]
async fn an_id_that_may_be_two_is_said_to_be() {
    let store = memory();
    let scene = Scene::with([handoff(), Reply::text("Fresh.")], store.clone(), |_| {}).await;
    scene.turn(&history()).await;
    let filter = HandoffFilter {
        limit: 9,
        ..HandoffFilter::default()
    };
    let known = store.handoffs(&filter).await.unwrap().remove(0);
    let twin = Handoff {
        id: Uuid::from_u128(known.id.as_u128() ^ (1 << 71)),
        ..store.handoff(&known.principal, known.id).await.unwrap().unwrap()
    };
    let conversation = store.conversation(&known.conversation).await.unwrap().unwrap();
    store.put_handoff(&twin, &conversation).await.unwrap();
    let asked = scene.provider.generations().len();
    let id = twin.id.to_string();
    for line in [
        format!("[[handoff-resume:{}\nGo on.", &id[..13]),
        format!("> [[handoff-resume:{}…]] Go on.", &id[..13]),
    ] {
        let told = scene.turn(&[user(&line)]).await;
        let said = said(&told)[0].to_owned();
        assert!(
            said.contains("more than one handoff") && !said.contains("not known"),
            "{said}"
        );
    }
    assert_eq!(scene.provider.generations().len(), asked);
    scene.script.push(Reply::text("ok"));
    scene
        .turn(&[user(&format!("[[handoff-resume:{}\nGo on.", &id[..18]))])
        .await;
    assert_eq!(
        texts(scene.last().messages()),
        [&format!("u: {PROMPT}"), "u: Go on."]
    );
}

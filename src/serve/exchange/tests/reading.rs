//! Parsing a request, and finding its conversation.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Stage, calls, changed, claude, model, result, user};
use crate::state::config::InjectPolicy;
use baton_core::marker::note;
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::wire::Operation;

async fn key(stage: &Stage, body: Value, principal: &str) -> String {
    let request = stage.request(body).principal(principal);
    request.received().unwrap().call.key
}

async fn is_named(stage: &Stage, body: Value) -> bool {
    stage.request(body).received().unwrap().call.named
}

#[tokio::test]
async fn without_a_name_the_opening_is_the_key_and_its_cache_breakpoint_is_no_part_of_it() {
    let stage = Stage::new();
    let nameless = |messages: &[Value]| changed(claude(messages), json!({"metadata": null}));
    let first = key(&stage, nameless(&[user("Mend it.")]), "local").await;
    assert!(!is_named(&stage, nameless(&[user("Mend it.")])).await);
    let later = nameless(&[user("Mend it."), model("Done."), user("Thanks.")]);
    assert_eq!(first, key(&stage, later, "local").await);
    let mut marked = user("Mend it.");
    marked["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(first, key(&stage, nameless(&[marked]), "local").await);
    assert_ne!(first, key(&stage, nameless(&[user("Mend that.")]), "local").await);
}

#[tokio::test]
async fn the_config_and_a_header_rule_the_tool_out() {
    let forbidden = async |stage: &Stage, header: Option<&'static str>| {
        let mut request = stage.request(claude(&[user("x")]));
        if let Some(value) = header {
            request = request.header("x-baton-handoff", value);
        }
        request.received().unwrap().call.forbidden
    };
    let stage = Stage::new();
    assert_eq!(forbidden(&stage, None).await, None);
    assert_eq!(forbidden(&stage, Some("on")).await, None);
    let by_header = forbidden(&stage, Some("OFF")).await;
    assert_eq!(by_header, Some(ToolOmission::OffByHeader));
    let never = Stage::with(|config| config.handoff.inject = InjectPolicy::Never);
    // A chain of one leg has no further leg to continue in.
    let lone = Stage::with(|config| config.handoff.max_chain = 1);
    for (stage, header) in [(&never, Some("off")), (&lone, None)] {
        let by_config = forbidden(stage, header).await;
        assert_eq!(by_config, Some(ToolOmission::OffByConfig));
    }
}

#[tokio::test]
async fn a_summary_is_no_request_of_the_loop() {
    let stage = Stage::new();
    for (class, side_call) in [("compaction", true), ("auxiliary", true), ("main", false)] {
        let request = stage.request(claude(&[user("x")]));
        let request = request.header("x-claude-code-request-class", class);
        let call = request.received().unwrap().call;
        assert_eq!(call.is_side_call(), side_call, "{class}");
    }
}

#[tokio::test]
async fn a_conversation_is_cut_only_where_the_model_has_no_open_call() {
    let then = |last| claude(&[user("Mend it."), calls("t1"), last]);
    let answered = [user("a"), model("b"), user("c")];
    let untooled = changed(claude(&[user("a")]), json!({"tools": null}));
    let rows: &[(&str, Value, bool)] = &[
        ("an opening", claude(&[user("Mend it.")]), true),
        ("an answered call", then(result("t1")), true),
        ("a message after the answer", claude(&answered), true),
        ("an open call", then(user("Stop.")), false),
        ("another call's answer", then(result("t2")), false),
        ("the model's turn last", claude(&answered[..2]), false),
        ("no tools", untooled, false),
    ];
    let stage = Stage::new();
    for (what, body, safe) in rows {
        let request = stage.request(body);
        let mut offered = request.offered().await;
        assert_eq!(offered.plan(&stage.app).is_safe_point(), *safe, "{what}");
        offered.call.operation = Some(Operation::Count);
        assert!(!offered.plan(&stage.app).is_safe_point(), "{what}");
    }
    for (name, value) in [
        ("x-baton-handoff", "off"),
        ("x-claude-code-request-class", "auxiliary"),
    ] {
        let request = stage.request(claude(&[user("a")])).header(name, value);
        let offered = request.offered().await;
        assert!(!offered.plan(&stage.app).is_safe_point(), "{name}");
    }
}

#[tokio::test]
async fn a_request_is_the_same_by_the_bytes_that_the_agent_sent() {
    let stage = Stage::new();
    let hash = async |body: Value| stage.request(body).offered().await.hash();
    let first = hash(claude(&[user("a")])).await;
    assert_eq!(first, hash(claude(&[user("a")])).await);
    assert_ne!(first, hash(claude(&[user("b")])).await);
    // The second time it follows a command, which the model does not see.
    let status = [
        user("a"),
        user("::handoff status"),
        model(&note::answer("on.", Uuid::now_v7())),
    ];
    let behind = [&status[..], &[user("::handoff accept")]].concat();
    let accept = [user("a"), user("::handoff accept")];
    assert_ne!(hash(claude(&accept)).await, hash(claude(&behind)).await);
}

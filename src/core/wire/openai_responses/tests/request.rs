use std::sync::LazyLock;

use pretty_assertions::assert_eq;

use super::*;
use crate::rewrite::preamble;
use crate::rewrite::untooled;
use crate::tools::{Tool, ToolTable};
use crate::wire::{Role, ToolChoice, UnreadReason};

static TOOLS: LazyLock<ToolTable> = LazyLock::new(|| ToolTable::new(vec![Tool::handoff(Some("d"), false)]));

fn read(body: &str) -> Result<crate::wire::View, UnreadReason> {
    WIRE.read(&Bytes::copy_from_slice(body.as_bytes()), Operation::Generate)
}

fn roles(body: &Value) -> Vec<Role> {
    reading(body).view.turns.iter().map(|t| t.role).collect()
}

#[test]
fn every_item_is_a_turn_of_its_own() {
    let kinds = |kinds: &[&str]| {
        let items: Vec<Value> = kinds.iter().map(|k| json!({"type": k, "call_id": "c"})).collect();
        roles(&with_input(items.into()))
    };
    assert_eq!(
        kinds(&[
            "reasoning",
            "function_call",
            "custom_tool_call",
            "local_shell_call",
            "web_search_call"
        ]),
        [Role::Assistant; 5]
    );
    assert_eq!(
        kinds(&[
            "function_call_output",
            "custom_tool_call_output",
            "mcp_approval_response"
        ]),
        [Role::Tool; 3]
    );
    assert_eq!(
        kinds(&["additional_tools", "configuration_update"]),
        [Role::Tools; 2]
    );
    assert_eq!(
        kinds(&["item_reference", "compaction", "of_tomorrow"]),
        [Role::Other; 3]
    );
    let messages = ["user", "assistant", "system", "developer"].map(|r| json!({"role": r, "content": "x"}));
    assert_eq!(
        roles(&with_input(messages.to_vec().into())),
        [Role::User, Role::Assistant, Role::System, Role::System]
    );
}

#[test]
fn facts_are_read_where_they_stand() {
    let facts = |members: Value| {
        let mut body = with_input(json!([user("hi")]));
        body.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        reading(&body).view.facts
    };
    assert!(facts(json!({"conversation": "conv_1"})).server_side);
    assert!(facts(json!({"conversation": {"id": "conv_1"}})).server_side);
    assert!(!facts(json!({"conversation": null, "background": false})).server_side);
    assert!(facts(json!({"background": true})).server_side);
    assert!(facts(json!({"text": {"format": {"type": "json_schema"}}})).structured);
    assert!(facts(json!({"text": {"format": {"type": "json_object"}}})).structured);
    assert!(!facts(json!({"text": {"format": {"type": "text"}}})).structured);
    assert!(facts(json!({"max_output_tokens": 16})).cramped);
    assert!(!facts(json!({"max_output_tokens": null})).cramped);
    for (choice, wanted) in [
        (json!("auto"), ToolChoice::Auto),
        (json!(null), ToolChoice::Auto),
        (json!("none"), ToolChoice::None),
        (json!("required"), ToolChoice::Forced),
        (json!({"type": "function", "name": "read"}), ToolChoice::Forced),
        (
            json!({"type": "allowed_tools", "mode": "auto", "tools": []}),
            ToolChoice::Forced,
        ),
    ] {
        assert_eq!(facts(json!({"tool_choice": choice})).choice, wanted);
    }
    assert_eq!(
        facts(json!({"prompt_cache_key": "k"})).session.as_deref(),
        Some("k")
    );
    let metadata = json!({"client_metadata": {"thread_id": "t", "session_id": "s"}});
    assert_eq!(facts(metadata).session.as_deref(), Some("s"));
    assert_eq!(
        facts(json!({"previous_response_id": "r"})).previous.unwrap().id,
        "r"
    );
    assert_eq!(facts(json!({"previous_response_id": null})).previous, None);
    let trigger = with_input(json!([user("hi"), {"type": "compaction_trigger"}]));
    assert!(reading(&trigger).view.facts.summary);
}

#[test]
fn other_shapes_are_not_read() {
    assert_eq!(read(r#"{"model":"m"}"#).unwrap_err(), UnreadReason::OtherShape);
    assert_eq!(read(r#"{"input":7}"#).unwrap_err(), UnreadReason::OtherShape);
    assert_eq!(read("[]").unwrap_err(), UnreadReason::OtherShape);
    assert_eq!(
        read(r#"{"input":[],"input":[]}"#).unwrap_err(),
        UnreadReason::RepeatedKey
    );
    for key in [
        r"previous_response\u005fid",
        "Previous_Response_ID",
        r"conversa\u0074ion",
        r"s\u0054ore",
    ] {
        let body = format!(r#"{{"input":[],"{key}":"resp_1"}}"#);
        assert_eq!(read(&body).unwrap_err(), UnreadReason::OtherShape, "{key}");
    }
    assert!(read(r#"{"input":[],"Other":1,"\u00fcber":2}"#).is_ok());
    assert!(matches!(
        read(r#"{"input":[{"a":1]}"#),
        Err(UnreadReason::NotJson(_))
    ));
    assert!(read(r#"{"input":[]}"#).is_ok());
    let body = with_input(json!([user("hi"), thought("rs_1"), called("fc_1", "c")])).to_string();
    for end in 0..body.len() {
        assert!(read(&body[..end]).is_err(), "cut at {end}");
    }
}

/// Codex with its default model: no top-level list, the tools in the first item.
fn codex() -> Value {
    json!({"model": "m", "input": [
        {"type": "additional_tools", "role": "developer", "tools": [
            {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be good"}]},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "<environment_context>x</environment_context>"}]},
        user("do it"), thought("rs_1"), message("msg_1", "doing"), sentinel(), message("msg_2", "done"), user("more"),
    ]})
}

#[test]
fn the_tool_goes_into_the_item_where_codex_keeps_its_tools() {
    let tool = Rewrite {
        tools: Some(&TOOLS),
        ..Rewrite::default()
    };
    let done = value(rewritten(&codex(), &tool));
    let tools = done["input"][0]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 2);
    assert_eq!(tools[1]["name"], "session_handoff");
    assert_eq!(tools[1]["strict"], false);
    assert!(untooled::unfit(&reading(&codex()).view).is_none());

    let mut empty = codex();
    empty["tools"] = json!([]);
    assert_eq!(
        value(rewritten(&empty, &tool))["input"][0]["tools"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let mut top = codex();
    top["tools"] = json!([{"type": "function", "name": "read"}]);
    let done = value(rewritten(&top, &tool));
    assert_eq!(done["tools"].as_array().unwrap().len(), 2);
    assert_eq!(done["input"][0]["tools"].as_array().unwrap().len(), 1);

    let title = json!({"input": [user("hi")], "tools": []});
    assert!(untooled::unfit(&reading(&title).view).is_some());
    let template = json!({"input": [user("hi")], "prompt": {"id": "pmpt_1"}});
    assert!(untooled::no_room(&reading(&template).view).is_some());
    let hosted = json!({"input": [user("hi")], "tools": [{"type": "web_search"}]});
    assert!(untooled::unfit(&reading(&hosted).view).is_some());
    let taken = json!({"input": [user("hi")], "tools": [{"type": "function", "name": "session_handoff"}]});
    assert!(untooled::no_room(&reading(&taken).view).is_some());
}

#[test]
fn a_cut_keeps_what_a_new_session_of_codex_starts_with() {
    let tags = ["<environment_context>".to_owned()];
    let codex = codex();
    let before = reading(&codex);
    let found = preamble::of(&before.view, None, &tags);
    let head = preamble::head(&WIRE, &found, "go on");
    let tool = Rewrite {
        tools: Some(&TOOLS),
        tags: &tags,
        ..Rewrite::default()
    };
    let fresh = value(rewritten(
        &codex,
        &Rewrite {
            cut: Cut::Fresh { head: &head },
            ..tool
        },
    ));
    let input = fresh["input"].as_array().unwrap();
    assert_eq!(input[0]["tools"].as_array().unwrap().len(), 2);
    assert_eq!(input[1..3], codex["input"].as_array().unwrap()[1..3]);
    assert_eq!(input[3], user("go on"));
    assert_eq!(input.len(), 4);

    let found = before.candidates();
    let cut = Cut::At {
        candidate: &found[0],
        prompt: Some("go on"),
        head: &head,
    };
    let pinned = value(rewritten(&codex, &Rewrite { cut, ..tool }));
    let pinned = pinned["input"].as_array().unwrap();
    assert_eq!(pinned[..4], input[..]);
    assert_eq!(pinned[4..], codex["input"].as_array().unwrap()[7..]);
}

#[test]
fn only_encrypted_reasoning_of_the_model_binds() {
    let bound = |items: Value| (WIRE.functions.bound)(&reading(&with_input(items)).view);
    assert!(bound(json!([thought("rs_1")])));
    assert!(!bound(
        json!([{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": null}])
    ));
    assert!(!bound(
        json!([user("\"encrypted_content\""), {"type": "compaction", "encrypted_content": "x"}])
    ));
}

#[test]
fn a_string_is_one_user_message() {
    let body = json!({"input": "hi", "tools": [{"type": "function", "name": "read"}],
        "previous_response_id": "resp_1"});
    assert_eq!(roles(&body), [Role::User]);
    let tool = value(rewritten(
        &body,
        &Rewrite {
            tools: Some(&TOOLS),
            ..Rewrite::default()
        },
    ));
    assert_eq!(tool["input"], "hi");

    let fresh = value(rewritten(
        &body,
        &Rewrite {
            cut: Cut::Fresh { head: HEAD },
            ..Rewrite::default()
        },
    ));
    let go_on: Value = serde_json::from_str(HEAD).unwrap();
    assert_eq!(fresh["input"], json!([go_on]));
    assert_eq!(fresh.get("previous_response_id"), None);

    let hi = json!({"type": "message", "role": "user", "content": "hi"});
    let more = [r#"{"type":"x"}"#.to_owned()];
    let changed = value(rewritten(
        &body,
        &Rewrite {
            more: &more,
            ..Rewrite::default()
        },
    ));
    assert_eq!(changed["input"], json!([hi, {"type": "x"}]));
    assert_eq!(changed["previous_response_id"], "resp_1");

    let before = value(rewritten(
        &body,
        &Rewrite {
            cut: Cut::Before { head: HEAD },
            ..Rewrite::default()
        },
    ));
    assert_eq!(before["input"], json!([go_on, hi]));
    assert_eq!(before.get("previous_response_id"), None);
}

#[test]
fn a_user_resumes_in_a_string() {
    let body =
        json!({"input": format!("[[handoff-resume:{ID}]]\nand be quick"), "previous_response_id": "r"});
    let go_on: Value = serde_json::from_str(HEAD).unwrap();
    let quick = json!({"type": "message", "role": "user", "content": "and be quick"});
    assert_eq!(cut(&body), json!({"input": [go_on, quick]}));
    let bare = json!({"input": format!("[[handoff-resume:{ID}]]")});
    assert_eq!(cut(&bare), json!({"input": [go_on]}));
}

#[test]
fn an_earlier_response_is_renamed_or_left_out_wherever_it_stands() {
    for (body, without) in [
        (r#"{"previous_response_id":"r","input":[]}"#, r#"{"input":[]}"#),
        (
            r#"{"input":[], "previous_response_id" : "r" }"#,
            r#"{"input":[] }"#,
        ),
        (
            r#"{"a":1,"previous_response_id":"r","input":[]}"#,
            r#"{"a":1,"input":[]}"#,
        ),
    ] {
        let view = read(body).unwrap();
        let edits = crate::wire::openai_responses::request::previous(&view, None);
        assert_eq!(splice::edited(&view.body, edits), without);
        let edits = crate::wire::openai_responses::request::previous(&view, Some("up"));
        let renamed = splice::edited(&view.body, edits);
        assert_eq!(renamed, body.replace("\"r\"", "\"up\""));
    }
    let body = with_input(json!([user("hi")]));
    assert_eq!(
        value(rewritten(
            &body,
            &Rewrite {
                previous: Some(ContinuedResponse { id: "up", owed: &[] }),
                ..Rewrite::default()
            }
        )),
        body
    );
}

#[test]
fn what_is_owed_goes_in_front_of_all_else() {
    let owed = [result("h1").to_string(), result("h2").to_string()];
    let owing = Rewrite {
        previous: Some(ContinuedResponse { id: "r", owed: &owed }),
        ..Rewrite::default()
    };
    let mut body = with_input(json!([answered("a"), user("hi")]));
    body["previous_response_id"] = "r".into();
    let sent = |body: &Value, what: &Rewrite<'_>| value(rewritten(body, what));
    let wanted = json!([result("h1"), result("h2"), answered("a"), user("hi")]);
    let done = sent(&body, &owing);
    assert_eq!(
        (&done["input"], &done["previous_response_id"]),
        (&wanted, &json!("r"))
    );
    body["input"] = "hi".into();
    let hi = json!({"type": "message", "role": "user", "content": "hi"});
    assert_eq!(
        sent(&body, &owing)["input"],
        json!([result("h1"), result("h2"), hi])
    );
    body["input"] = json!([]);
    assert_eq!(sent(&body, &owing)["input"], json!([result("h1"), result("h2")]));
    // A cut drops the previous response with all pending calls in it.
    body["input"] = json!([user("hi")]);
    let cut = Cut::Before { head: HEAD };
    let done = sent(&body, &Rewrite { cut, ..owing });
    let go_on: Value = serde_json::from_str(HEAD).unwrap();
    assert_eq!(done["input"], json!([go_on, user("hi")]));
    assert_eq!(done.get("previous_response_id"), None);
}

#[test]
fn what_upstream_holds_counts_as_content() {
    let mut body = with_input(json!([answered("c")]));
    assert_eq!(rewritten(&body, &Rewrite::default()).messages, 1);
    body["previous_response_id"] = "r".into();
    assert!(rewritten(&body, &Rewrite::default()).messages >= crate::limits::LEAST_MESSAGES);
}

#[test]
fn compaction_is_cut_and_never_tooled() {
    let mut body = with_input(json!([user("hi"), sentinel(), user("more")]));
    body["tools"] = json!([{"type": "function", "name": "read"}]);
    let bytes = Bytes::from(body.to_string());
    let tool = Rewrite {
        tools: Some(&TOOLS),
        ..Rewrite::default()
    };
    for (call, tools) in [
        (Operation::Compact, 1),
        (Operation::Count, 2),
        (Operation::Generate, 2),
    ] {
        let reading = RequestReading::new(&WIRE, &bytes, call).unwrap();
        let found = reading.candidates();
        let cut = Cut::At {
            candidate: &found[0],
            prompt: Some("go on"),
            head: HEAD,
        };
        let done = value(rewrite(&reading, &Rewrite { cut, ..tool }));
        assert_eq!(done["tools"].as_array().unwrap().len(), tools, "{call:?}");
        assert_eq!(done["input"].as_array().unwrap().len(), 2, "{call:?}");
    }
}

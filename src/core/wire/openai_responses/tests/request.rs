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

fn tooled() -> Rewrite<'static> {
    Rewrite {
        tools: Some(&TOOLS),
        ..Rewrite::default()
    }
}

fn go_on() -> Value {
    serde_json::from_str(HEAD).unwrap()
}

fn roles(body: &Value) -> Vec<Role> {
    reading(body).view.turns.iter().map(|t| t.role).collect()
}

#[test]
fn every_item_is_a_turn_of_its_own() {
    for (kinds, role) in [
        (
            "reasoning function_call custom_tool_call local_shell_call web_search_call",
            Role::Assistant,
        ),
        (
            "function_call_output custom_tool_call_output mcp_approval_response",
            Role::Tool,
        ),
        ("additional_tools configuration_update", Role::Tools),
        ("item_reference compaction of_tomorrow", Role::Other),
    ] {
        for kind in kinds.split(' ') {
            let body = with_input(json!([{"type": kind, "call_id": "c"}]));
            assert_eq!(roles(&body), [role], "{kind}");
        }
    }
    let messages = ["user", "assistant", "system", "developer"].map(|r| json!({"role": r, "content": "x"}));
    let wanted = [Role::User, Role::Assistant, Role::System, Role::System];
    assert_eq!(roles(&with_input(messages.to_vec().into())), wanted);
}

#[test]
fn facts_are_read_where_they_stand() {
    let facts = |members: Value| {
        let mut body = with_input(items("hi"));
        let members = members.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(members);
        reading(&body).view.facts
    };
    assert!(facts(json!({"conversation": "conv_1"})).server_side);
    assert!(facts(json!({"conversation": {"id": "conv_1"}})).server_side);
    assert!(!facts(json!({"conversation": null, "background": false})).server_side);
    assert!(facts(json!({"background": true})).server_side);
    for (format, structured) in [("json_schema", true), ("json_object", true), ("text", false)] {
        let facts = facts(json!({"text": {"format": {"type": format}}}));
        assert_eq!(facts.structured, structured, "{format}");
    }
    assert!(facts(json!({"max_output_tokens": 16})).cramped);
    assert!(!facts(json!({"max_output_tokens": null})).cramped);
    let allowed = json!({"type": "allowed_tools", "mode": "auto", "tools": []});
    for (choice, wanted) in [
        (json!("auto"), ToolChoice::Auto),
        (json!(null), ToolChoice::Auto),
        (json!("none"), ToolChoice::None),
        (json!("required"), ToolChoice::Forced),
        (json!({"type": "function", "name": "read"}), ToolChoice::Forced),
        (allowed, ToolChoice::Forced),
    ] {
        assert_eq!(facts(json!({"tool_choice": choice})).choice, wanted);
    }
    let session = |members| facts(members).session.unwrap();
    assert_eq!(session(json!({"prompt_cache_key": "k"})), "k");
    let metadata = json!({"client_metadata": {"thread_id": "t", "session_id": "s"}});
    assert_eq!(session(metadata), "s");
    let previous = |id: Value| facts(json!({"previous_response_id": id})).previous;
    assert_eq!(previous(json!("r")).unwrap().id, "r");
    assert_eq!(previous(Value::Null), None);
    let trigger = with_input(json!([user("hi"), {"type": "compaction_trigger"}]));
    assert!(reading(&trigger).view.facts.summary);
}

#[test]
fn other_shapes_are_not_read() {
    for body in [
        r#"{"model":"m"}"#,
        r#"{"input":7}"#,
        "[]",
        r#"{"input":[],"previous_response\u005fid":"resp_1"}"#,
        r#"{"input":[],"Previous_Response_ID":"resp_1"}"#,
        r#"{"input":[],"conversa\u0074ion":"resp_1"}"#,
        r#"{"input":[],"s\u0054ore":"resp_1"}"#,
    ] {
        assert_eq!(read(body).unwrap_err(), UnreadReason::OtherShape, "{body}");
    }
    let repeated = read(r#"{"input":[],"input":[]}"#).unwrap_err();
    assert_eq!(repeated, UnreadReason::RepeatedKey);
    assert!(read(r#"{"input":[],"Other":1,"\u00fcber":2}"#).is_ok());
    let unclosed = read(r#"{"input":[{"a":1]}"#).unwrap_err();
    assert!(matches!(unclosed, UnreadReason::NotJson(_)));
    assert!(read(r#"{"input":[]}"#).is_ok());
    let body = with_input(items("hi, thought 1, call 1")).to_string();
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
    let tools = |body: &Value| {
        let done = sent(body, &tooled());
        let at = |tools: &Value| tools.as_array().map_or(0, Vec::len);
        (at(&done["tools"]), at(&done["input"][0]["tools"]))
    };
    let offered = sent(&codex(), &tooled())["input"][0]["tools"][1].take();
    assert_eq!(
        (&offered["name"], &offered["strict"]),
        (&json!("session_handoff"), &json!(false))
    );
    assert!(untooled::unfit(&reading(&codex()).view).is_none());
    assert_eq!(tools(&codex()), (0, 2));
    let mut top = codex();
    top["tools"] = json!([]);
    assert_eq!(tools(&top), (0, 2));
    top["tools"] = json!([{"type": "function", "name": "read"}]);
    assert_eq!(tools(&top), (2, 1));

    let unfit = |tools: Value| {
        let body = json!({"input": [user("hi")], "tools": tools});
        untooled::unfit(&reading(&body).view).is_some()
    };
    assert!(unfit(json!([])) && unfit(json!([{"type": "web_search"}])));
    for (member, value) in [
        ("prompt", json!({"id": "pmpt_1"})),
        ("tools", json!([{"type": "function", "name": "session_handoff"}])),
    ] {
        let body = json!({"input": [user("hi")], member: value});
        assert!(untooled::no_room(&reading(&body).view).is_some(), "{body}");
    }
}

#[test]
fn a_cut_keeps_what_a_new_session_of_codex_starts_with() {
    let tags = ["<environment_context>".to_owned()];
    let codex = codex();
    let before = reading(&codex);
    let found = preamble::of(&before.view, None, &tags);
    let head = preamble::head(&WIRE, &found, "go on");
    let cut_by = |cut| {
        let tags = &tags;
        let mut done = sent(
            &codex,
            &Rewrite {
                cut,
                tags,
                ..tooled()
            },
        );
        match done["input"].take() {
            Value::Array(input) => input,
            other => panic!("{other}"),
        }
    };
    let fresh = cut_by(Cut::Fresh { head: &head });
    let given = codex["input"].as_array().unwrap();
    assert_eq!(fresh[0]["tools"].as_array().unwrap().len(), 2);
    assert_eq!((&fresh[1..3], &fresh[3..]), (&given[1..3], &[user("go on")][..]));

    let found = before.candidates();
    let pinned = cut_by(Cut::At {
        candidate: &found[0],
        prompt: Some("go on"),
        head: &head,
    });
    assert_eq!((&pinned[..4], &pinned[4..]), (&fresh[..], &given[7..]));
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
    assert_eq!(sent(&body, &tooled())["input"], "hi");

    let hi = json!({"type": "message", "role": "user", "content": "hi"});
    let more = [r#"{"type":"x"}"#.to_owned()];
    let cut = |cut| Rewrite {
        cut,
        ..Rewrite::default()
    };
    let with_more = Rewrite {
        more: &more,
        ..Rewrite::default()
    };
    for (what, input, previous) in [
        (cut(Cut::Fresh { head: HEAD }), json!([go_on()]), None),
        (with_more, json!([hi, {"type": "x"}]), Some(&json!("resp_1"))),
        (cut(Cut::Before { head: HEAD }), json!([go_on(), hi]), None),
    ] {
        let sent = sent(&body, &what);
        assert_eq!(
            (&sent["input"], sent.get("previous_response_id")),
            (&input, previous)
        );
    }
}

#[test]
fn a_user_resumes_in_a_string() {
    let body =
        json!({"input": format!("[[handoff-resume:{ID}]]\nand be quick"), "previous_response_id": "r"});
    let quick = json!({"type": "message", "role": "user", "content": "and be quick"});
    assert_eq!(cut(&body), json!({"input": [go_on(), quick]}));
    let bare = json!({"input": format!("[[handoff-resume:{ID}]]")});
    assert_eq!(cut(&bare), json!({"input": [go_on()]}));
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
    let body = with_input(items("hi"));
    assert_eq!(sent(&body, &owing("up", &[])), body);
}

/// A request that continues this response of upstream, which lacks these results.
fn owing<'a>(id: &'a str, owed: &'a [String]) -> Rewrite<'a> {
    Rewrite {
        previous: Some(ContinuedResponse { id, owed }),
        ..Rewrite::default()
    }
}

#[test]
fn what_is_owed_goes_in_front_of_all_else() {
    let owed = [result("h1").to_string(), result("h2").to_string()];
    let owing = owing("r", &owed);
    let hi = json!({"type": "message", "role": "user", "content": "hi"});
    let mut body = with_input(Value::Null);
    body["previous_response_id"] = "r".into();
    for (input, wanted) in [
        (
            items("result 1, hi"),
            json!([result("h1"), result("h2"), answered("c1"), user("hi")]),
        ),
        (json!("hi"), json!([result("h1"), result("h2"), hi])),
        (json!([]), json!([result("h1"), result("h2")])),
    ] {
        body["input"] = input;
        let done = sent(&body, &owing);
        assert_eq!(
            (&done["input"], &done["previous_response_id"]),
            (&wanted, &json!("r"))
        );
    }
    // A cut drops the previous response with all pending calls in it.
    body["input"] = items("hi");
    let cut = Cut::Before { head: HEAD };
    let done = sent(&body, &Rewrite { cut, ..owing });
    assert_eq!(done["input"], json!([go_on(), user("hi")]));
    assert_eq!(done.get("previous_response_id"), None);
}

#[test]
fn what_upstream_holds_counts_as_content() {
    let mut body = with_input(items("result 1"));
    assert_eq!(rewritten(&body, &Rewrite::default()).messages, 1);
    body["previous_response_id"] = "r".into();
    assert!(rewritten(&body, &Rewrite::default()).messages >= crate::limits::LEAST_MESSAGES);
}

#[test]
fn compaction_is_cut_and_never_tooled() {
    let body = with_input(items("hi, sentinel, more"));
    let bytes = Bytes::from(body.to_string());
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
        let done = value(rewrite(&reading, &Rewrite { cut, ..tooled() }));
        assert_eq!(done["tools"].as_array().unwrap().len(), tools, "{call:?}");
        assert_eq!(done["input"].as_array().unwrap().len(), 2, "{call:?}");
    }
}

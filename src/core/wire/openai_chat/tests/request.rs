//! Parsing of requests, and positions of hidden pairs.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::marker::{aside, gap};
use crate::wire::UnreadReason;
use crate::wire::view::{Role, ToolChoice, TurnPartKind, View};

fn read(body: &str) -> Result<View, UnreadReason> {
    WIRE.read(&Bytes::copy_from_slice(body.as_bytes()), Operation::Generate)
}

fn with(members: &str) -> View {
    read(&format!(
        r#"{{{members},"messages":[{{"role":"user","content":"x"}}]}}"#
    ))
    .unwrap()
}

#[test]
fn roles_and_parts() {
    let view = read(
        r#"{"messages":[{"role":"developer","content":"d"},{"content":[{"type":"text","text":"a"},{"type":"image_url"}],"role":"user"},
        {"tool_calls":[{"id":"c1","type":"function"}],"refusal":null,"content":"t","role":"assistant"},
        {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r"}]},{"role":"critic"}]}"#,
    )
    .unwrap();
    let roles: Vec<_> = view.turns.iter().map(|t| t.role).collect();
    assert_eq!(
        roles,
        [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Other]
    );
    let kinds = |turn| -> Vec<TurnPartKind> { view.content(turn).parts.iter().map(|p| p.kind).collect() };
    assert_eq!(kinds(1), [TurnPartKind::Text, TurnPartKind::Other]);
    assert_eq!(kinds(2), [TurnPartKind::Text, TurnPartKind::Call]);
    assert_eq!(kinds(3), [TurnPartKind::Result]);
    let result = view.content(3).parts[0];
    assert_eq!(view.text(result.id.unwrap()), b"c1");
    let ids = view.content(2).parts.into_iter().map(|part| part.id);
    assert_eq!(ids.flatten().map(|id| view.str(id)).collect::<Vec<_>>(), ["c1"]);
    assert!(view.content(2).list.is_none());
}

#[test]
fn facts() {
    assert!(with(r#""n":2"#).facts.many);
    assert!(!with(r#""n":1"#).facts.many);
    let facts = |members: &str| with(members).facts;
    assert!(facts(r#""response_format":{"type":"json_schema"}"#).structured);
    assert!(!facts(r#""response_format":{"type":"text"}"#).structured);
    assert!(facts(r#""guided_regex":"a+""#).structured);
    assert!(facts(r#""max_tokens":null,"max_completion_tokens":1"#).cramped);
    assert!(!facts(r#""max_tokens":4096,"max_completion_tokens":null"#).cramped);
    assert!(facts(r#""modalities":["text","audio"]"#).server_side);
    assert!(facts(r#""stream_options":{"include_usage":true}"#).wants_usage);
    let choice = |raw: &str| facts(&format!(r#""tool_choice":{raw}"#)).choice;
    assert_eq!(choice(r#""none""#), ToolChoice::None);
    assert_eq!(choice(r#""auto""#), ToolChoice::Auto);
    assert_eq!(choice("null"), ToolChoice::Auto);
    for forced in [
        r#""required""#,
        r#"{"type":"function","function":{"name":"a"}}"#,
        r#"{"type":"allowed_tools","allowed_tools":{}}"#,
    ] {
        assert_eq!(choice(forced), ToolChoice::Forced);
    }
    for (members, session) in [
        (
            r#""metadata":{"session_id":"m"},"prompt_cache_key":"k""#,
            Some("k"),
        ),
        (r#""metadata":{"session_id":"m"}"#, Some("m")),
        (r#""user":"somebody""#, None),
    ] {
        assert_eq!(facts(members).session.as_deref(), session, "{members}");
    }
}

#[test]
fn tools_are_the_agents_or_the_providers() {
    let tools = |raw: &str| with(&format!(r#""tools":{raw}"#)).tools.unwrap();
    assert!(!tools(r#"[{"type":"web_search"}]"#).client);
    assert!(tools(r#"[{"type":"web_search"},{"type":"custom","custom":{"name":"x"}}]"#).client);
    assert!(tools(r#"[{"type":"function","function":{"name":"session_handoff"}}]"#).taken);
    assert!(with(r#""tools":null"#).tools.is_none());
}

#[test]
fn unreadable_bodies_are_reported() {
    let messages = r#""messages":[{"role":"user","content":"x"}]"#;
    assert_eq!(
        read(&format!("{{{messages},{messages}}}")).unwrap_err(),
        UnreadReason::RepeatedKey
    );
    assert_eq!(read("[1]").unwrap_err(), UnreadReason::OtherShape);
    assert_eq!(read(r#"{"messages":"x"}"#).unwrap_err(), UnreadReason::OtherShape);
    assert!(matches!(
        read(r#"{"messages":["#).unwrap_err(),
        UnreadReason::NotJson(_)
    ));
}

#[test]
fn usage_is_requested_where_the_agent_did_not() {
    let options_for = |members: &str| -> Value {
        let view = with(members);
        let sent = splice::edited(&view.body, crate::wire::openai_chat::request::companions(&view));
        serde_json::from_slice::<Value>(&sent).unwrap()["stream_options"].take()
    };
    let usage = json!({"include_usage": true});
    let both = json!({"include_usage": true, "include_obfuscation": false});
    for (members, options) in [
        (r#""stream":true"#, &usage),
        (r#""stream":true,"stream_options":null"#, &usage),
        (r#""stream":true,"stream_options":{}"#, &usage),
        (
            r#""stream_options":{"include_usage":false},"stream":true"#,
            &usage,
        ),
        (
            r#""stream":true,"stream_options":{"include_obfuscation":false}"#,
            &both,
        ),
        (r#""stream":false"#, &Value::Null),
    ] {
        assert_eq!(options_for(members), *options, "{members}");
    }
    let wanted = with(r#""stream":true,"stream_options":{"include_usage":true}"#);
    assert!(crate::wire::openai_chat::request::companions(&wanted).is_empty());
}

#[test]
fn signed_reasoning_is_bound() {
    let bound = |member: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"\"signature\":\"x\""}},{{"role":"assistant","content":"a",{member}}}]}}"#
        );
        (WIRE.functions.bound)(&read(&body).unwrap())
    };
    assert!(!bound(r#""reasoning_content":"signature""#));
    assert!(!bound(
        r#""reasoning_details":[{"type":"reasoning.text","text":"t","signature":null}]"#
    ));
    assert!(bound(
        r#""reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s"}]"#
    ));
    assert!(bound(
        r#""reasoning_details":[{"type":"reasoning.encrypted","data":"d"}]"#
    ));
    assert!(bound(
        r#""tool_calls":[{"id":"c","extra_content":{"google":{"thought_signature":"s"}}}]"#
    ));
    let deep = format!(r#""x":{}{},"signature":"""#, "[".repeat(9999), "]".repeat(9999));
    assert!(!bound(&deep));
}

#[test]
fn a_hidden_call_keeps_its_signature_and_no_arguments_that_do_not_parse() {
    let call = HiddenCall {
        id: "h".into(),
        arguments: r#"{"prompt": "cut"#.into(),
        raw: Some(r#""extra_content":{"google":{"thought_signature":"s"}}"#.into()),
        ..HiddenCall::default()
    };
    let raw: Value = serde_json::from_str(&(WIRE.functions.hidden_call)(&call)).unwrap();
    assert_eq!(
        raw,
        json!({"id":"h","type":"function","function":{"name":"session_handoff","arguments":"{}"},
               "extra_content":{"google":{"thought_signature":"s"}}})
    );
}

fn hidden(id: &str) -> Value {
    json!({"id":id,"type":"function","function":{"name":"session_handoff","arguments":"{\"prompt\":\"\"}"}})
}

#[test]
fn beside_counts_calls_alone() {
    let call = |id: &str| json!({"id":id,"type":"function","function":{"name":"f","arguments":"{}"}});
    let texts = json!([{"type":"text","text":"a"},{"type":"text","text":"b"}]);
    let messages = json!([
        {"role":"user","content":"u"},
        {"role":"assistant","content":texts,"tool_calls":[call("a"), call("b")]},
        {"role":"tool","tool_call_id":"a","content":"ra"},
        {"role":"tool","tool_call_id":"b","content":"rb"},
    ]);
    let result = |id: &str| json!({"role":"tool","tool_call_id":id,"content":HiddenResult::QUEUED.text()});
    for (sibling, offset, wanted) in [
        ("a", 0, ["a", "h", "b"]),
        ("a", 1, ["a", "b", "h"]),
        ("a", -1, ["h", "a", "b"]),
        ("b", -2, ["h", "a", "b"]),
    ] {
        let sent = upstream(&messages, &[beside("h", sibling, offset)]);
        let calls = [0, 1, 2, 3].map(|n| sent[1]["tool_calls"][n]["id"].as_str().unwrap_or_default());
        assert_eq!(calls[..], [&wanted[..], &[""]].concat());
        assert_eq!(sent[1]["content"], texts);
        assert_eq!(
            [&sent[2], &sent[3]["tool_call_id"], &sent[4]["tool_call_id"]],
            [&result("h"), &json!("a"), &json!("b")]
        );
    }
    let two = upstream(&messages, &[beside("h", "a", 0), beside("i", "b", 0)]);
    assert_eq!([&two[2], &two[3]], [&result("h"), &result("i")]);
}

/// The two messages that replace an aside.
fn split(before: Value) -> [Value; 2] {
    [
        json!({"role":"assistant","content":before,"tool_calls":[hidden("h")]}),
        json!({"role":"tool","tool_call_id":"h","content":HiddenResult::EMPTY_PROMPT.text()}),
    ]
}

fn follow_up(message: Value) -> Vec<Value> {
    let sent = upstream(&json!([{"role":"user","content":"u"}, message]), &[aside()]);
    sent.as_array().unwrap()[1..].to_vec()
}

#[test]
fn a_message_is_split_at_its_aside() {
    let mark = gap::spaced(&aside::line(ID));
    let calls = json!([{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]);
    for (before, after) in [("a\n\n\n", "\n\n b "), ("", " "), ("\\n", "\"")] {
        let given = if before.is_empty() {
            Value::Null
        } else {
            json!(before)
        };
        let [call, result] = split(given);
        let text = format!("{before}{mark}{after}");
        let whole = json!({"reasoning_content":"r","content":text,"tool_calls":calls,"role":"assistant"});
        let rest = json!({"reasoning_content":"r","content":after,"tool_calls":calls,"role":"assistant"});
        assert_eq!(follow_up(whole), [call.clone(), result.clone(), rest]);
        let whole = json!({"role":"assistant","content":format!("{before}{mark}"),"tool_calls":calls});
        let rest = json!({"role":"assistant","content":null,"tool_calls":calls});
        assert_eq!(follow_up(whole), [call.clone(), result.clone(), rest]);
        let trimmed = format!("{before}{}", mark.trim_end());
        assert_eq!(
            follow_up(json!({"role":"assistant","content":trimmed,"refusal":null})),
            [call, result]
        );
    }
}

#[test]
fn a_list_is_split_at_its_aside() {
    let mark = gap::spaced(&aside::line(ID));
    let text = |t: &str| json!({"type":"text","text":t});
    let message = |content: Value| json!({"role":"assistant","content":content});
    let [call, result] = split(json!([text("a"), text("b")]));
    let glued = message(json!([text("a"), text(&format!("b{mark}c")), text("d")]));
    let apart = message(json!([text("a"), text("b"), text(&mark), text("d")]));
    let last = message(json!([text("a"), text("b"), text(&mark)]));
    for (given, rest) in [
        (glued, Some(json!([text("c"), text("d")]))),
        (apart, Some(json!([text("d")]))),
        (last, None),
    ] {
        let mut wanted = vec![call.clone(), result.clone()];
        wanted.extend(rest.map(message));
        assert_eq!(follow_up(given), wanted);
    }
    let calls = json!([{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]);
    let only = json!({"role":"assistant","content":[text(&mark)],"tool_calls":calls});
    let rest = json!({"role":"assistant","content":null,"tool_calls":calls});
    assert_eq!(follow_up(only), [split(Value::Null)[0].clone(), result, rest]);
}

#[test]
fn two_asides_in_one_message() {
    let other = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e12);
    let line = |id| gap::spaced(&aside::line(id));
    let text = format!("a{}b{}c", line(ID), line(other));
    let second = pair(other, "i", HiddenResult::BAD_ARGUMENTS, InsertionPoint::Aside);
    let sent = upstream(&json!([{"role":"assistant","content":text}]), &[aside(), second]);
    let [call, result] = split(json!("a"));
    assert_eq!(
        sent,
        json!([
            call, result,
            {"role":"assistant","content":"b","tool_calls":[hidden("i")]},
            {"role":"tool","tool_call_id":"i","content":HiddenResult::BAD_ARGUMENTS.text()},
            {"role":"assistant","content":"c"},
        ])
    );
}

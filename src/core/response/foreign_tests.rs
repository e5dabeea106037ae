//! Stream shapes observed from providers and gateways, read frame by frame.

use bytes::Bytes;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Action, ResponseMachine, ResponseOptions, StreamMerge, StreamedAnswer};
use crate::record::WireId;
use crate::tools::ToolNames;
use crate::wire::{Ending, Operation, ResponseWatch, wire};

fn merge(id: WireId, hide: ToolNames) -> StreamMerge {
    let list = match id {
        WireId::OpenaiResponses => "input",
        _ => "messages",
    };
    let body = format!(r#"{{"model":"m","stream":true,"{list}":[{{"role":"user","content":"a"}}]}}"#);
    let view = wire(id).read(&body.into(), Operation::Generate).unwrap();
    let watch = ResponseWatch {
        hide,
        buffered_bytes: 1 << 20,
    };
    StreamMerge::new(wire(id).machine(&view, watch), 1 << 20, true)
}

fn stream(events: &[Value]) -> String {
    let frame = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(frame).collect()
}

fn events(raw: &[Vec<u8>]) -> Vec<Value> {
    let text = String::from_utf8(raw.concat()).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Returns the agent's stream for these legs, with baton's text between two of them.
fn shown(merge: &mut StreamMerge, legs: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, leg) in legs.iter().enumerate() {
        if n > 0 {
            merge.say("Told.", &mut out);
            merge.next_leg();
        }
        merge.feed(leg.clone().into(), &mut out);
        merge.finish_leg(&mut out);
    }
    merge.close(Ending::Own, &mut out);
    out.concat()
}

fn message_start(id: &str, more: Value) -> Value {
    let mut message = json!({"id": id, "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 7, "output_tokens": 1}});
    for (key, value) in more.as_object().unwrap() {
        message[key] = value.clone();
    }
    json!({"type": "message_start", "message": message})
}

fn text_block(index: u64, text: &str) -> [Value; 3] {
    [
        json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": index}),
    ]
}

fn hidden_block(index: u64) -> [Value; 2] {
    let block =
        json!({"type": "tool_use", "id": "toolu_h", "name": "session_handoff", "input": {"prompt": "p"}});
    [
        json!({"type": "content_block_start", "index": index, "content_block": block}),
        json!({"type": "content_block_stop", "index": index}),
    ]
}

fn message_end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ]
}

/// The end of a message has the reason, whether the other event comes before it or after it.
#[test]
fn what_a_message_states_in_an_event_of_its_own_is_shown() {
    let results = json!([{"type": "dangerous_tool_use", "status": {"type": "available", "tool_uses": {}}}]);
    let judged = json!({"type": "message_delta", "delta": {"safeguard_results": results}, "usage": {"output_tokens": 5}});
    let [end, stop] = message_end("end_turn");
    for order in [[&judged, &end], [&end, &judged]] {
        let hidden = [
            &[message_start("msg_1", json!({}))][..],
            &hidden_block(0),
            &message_end("tool_use"),
        ]
        .concat();
        let last = [
            &[message_start("msg_2", json!({}))][..],
            &text_block(0, "a"),
            &order.map(Clone::clone),
            std::slice::from_ref(&stop),
        ]
        .concat();
        let legs = [stream(&hidden), stream(&last)];
        let shown = shown(&mut merge(WireId::Anthropic, ToolNames::HANDOFF), &legs);
        let shown = events(&[shown]);
        let deltas = shown.iter().filter(|event| event["type"] == "message_delta");
        let deltas: Vec<&Value> = deltas.map(|event| &event["delta"]).collect();
        assert_eq!(deltas.len(), 2, "{deltas:?}");
        assert_eq!(deltas[0]["safeguard_results"], results);
        assert_eq!(deltas[1]["stop_reason"], "end_turn");
    }
}

/// An agent must not take a stream without its end for complete if a call is missing in it.
#[test]
fn a_stream_that_breaks_off_after_a_hidden_call_is_aborted() {
    let half = "event: content_block_start\ndata: {\"ty";
    let hidden = hidden_block(1).to_vec();
    let text = text_block(2, "b").to_vec();
    let ping = vec![json!({"type": "ping"})];
    for (rest, is_aborted) in [
        (text.clone(), false),
        (hidden.clone(), true),
        ([hidden.clone(), text].concat(), true),
        ([hidden[..1].to_vec(), ping].concat(), true),
    ] {
        let begins = [&[message_start("msg_1", json!({}))][..], &text_block(0, "a")].concat();
        let whole = stream(&[begins, rest].concat()) + half;
        for size in [1, 64, whole.len()] {
            let machine = ResponseMachine::new(ResponseOptions::default());
            let mut answer = StreamedAnswer::new(machine, merge(WireId::Anthropic, ToolNames::HANDOFF));
            for piece in whole.as_bytes().chunks(size) {
                answer.feed(Bytes::copy_from_slice(piece));
            }
            answer.merge.finish_leg(&mut answer.out);
            answer.leg_over();
            let shows_half = answer.out.concat().ends_with(half.as_bytes());
            let ended = match answer.machine.poll_action() {
                Some(Action::BreakOff) => true,
                Some(Action::EndAsItIs) => false,
                other => panic!("{other:?}"),
            };
            assert_eq!((ended, shows_half), (is_aborted, !is_aborted), "{size}: {whole}");
        }
    }
}

/// A gateway that begins its message again, and one that omits an index.
#[test]
fn upstreams_own_indices_stand_until_something_of_batons_is_in_the_way() {
    let again = [
        &[message_start("msg_1", json!({}))][..],
        &text_block(0, "a"),
        &text_block(1, "b"),
        &[message_start("msg_2", json!({}))],
        &text_block(0, "c"),
        &text_block(3, "d"),
    ]
    .concat();
    let item = |index: u64| {
        let item = json!({"id": format!("msg_{index}"), "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "a", "annotations": []}]});
        [
            json!({"type": "response.output_item.added", "output_index": index, "item": item}),
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        ]
    };
    let gap = [&item(0)[..], &item(2)].concat();
    for hide in [ToolNames::NONE, ToolNames::HANDOFF] {
        for (id, events) in [(WireId::Anthropic, &again), (WireId::OpenaiResponses, &gap)] {
            let stream = stream(events);
            assert_eq!(
                shown(&mut merge(id, hide), std::slice::from_ref(&stream)),
                stream.as_bytes()
            );
        }
    }
    // After a hidden block, baton numbers the blocks itself.
    let hidden = [
        &again[..],
        &hidden_block(4),
        &text_block(5, "e"),
        &message_end("end_turn"),
    ]
    .concat();
    let shown = shown(
        &mut merge(WireId::Anthropic, ToolNames::HANDOFF),
        &[stream(&hidden)],
    );
    let last = events(&[shown])
        .into_iter()
        .rfind(|event| event["type"] == "content_block_stop");
    assert_eq!(last.unwrap()["index"], 4);
}

/// A provider may end a message like this if its start already contains everything.
#[test]
fn a_later_leg_without_a_message_delta_keeps_its_end() {
    let first = [
        &[message_start("msg_1", json!({}))][..],
        &hidden_block(0),
        &message_end("tool_use"),
    ]
    .concat();
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}});
    let container = json!({"id": "container_1", "expires_at": "2026-11-28T00:00:00Z"});
    let more = json!({"content": [call], "stop_reason": "tool_use", "container": container});
    let second = [message_start("msg_2", more), json!({"type": "message_stop"})];
    let mut merge = merge(WireId::Anthropic, ToolNames::HANDOFF);
    let all = events(&[shown(&mut merge, &[stream(&first), stream(&second)])]);
    let [.., delta, stop] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(
        (&stop["type"], &delta["type"]),
        (&json!("message_stop"), &json!("message_delta"))
    );
    assert_eq!(
        delta["delta"],
        json!({"stop_reason": "tool_use", "stop_sequence": null, "container": container})
    );
    assert_eq!(delta["usage"]["output_tokens"], 6);
}

fn response(id: &str, status: &str, output: Value) -> Value {
    let kind = if status == "in_progress" {
        "created"
    } else {
        status
    };
    json!({"type": format!("response.{kind}"), "response": {"id": id, "object": "response", "status": status,
        "output": output, "usage": {"input_tokens": 7, "output_tokens": 5}}})
}

fn done(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

/// The last event may contain more of an item than the item's own events, and items without events.
#[test]
fn the_last_events_items_of_the_present_leg_count() {
    let call = json!({"id": "fc_h", "type": "function_call", "status": "completed", "call_id": "h",
        "name": "session_handoff", "arguments": "{\"prompt\":\"p\"}"});
    let created = |id| response(id, "in_progress", json!([]));
    let first = [
        created("resp_1"),
        done(0, &call),
        response("resp_1", "completed", json!([call])),
    ];
    let listed =
        |tools: Value| json!({"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "s", "tools": tools});
    let added = json!({"type": "response.output_item.added", "output_index": 0, "item": listed(json!([]))});
    let message = |id: &str| {
        let part = json!({"type": "output_text", "annotations": [], "text": "[[handoff-resume:x"});
        json!({"id": id, "type": "message", "role": "assistant", "status": "completed", "content": [part]})
    };
    let reasoning = json!({"id": "rs_1", "type": "reasoning", "summary": []});
    let output = json!([listed(json!([{"name": "find"}])), reasoning, message("msg_1")]);
    let second = [
        created("resp_2"),
        added,
        done(1, &message("msg_1")),
        response("resp_2", "completed", output),
    ];
    let mut run = merge(WireId::OpenaiResponses, ToolNames::HANDOFF);
    let all = events(&[shown(&mut run, &[stream(&first), stream(&second)])]);
    let output = &all.last().unwrap()["response"]["output"];
    assert_eq!(
        (&output[1], &output[2]),
        (&listed(json!([{"name": "find"}])), &reasoning)
    );
    assert_eq!(output[3]["content"][0]["text"], "[[handoff-resume\\:x");
    assert_eq!(output.as_array().unwrap().len(), 4, "{output}");
    // A gateway that changes the ids of its items at the end adds nothing new.
    let second = [
        created("resp_2"),
        done(0, &message("msg_1")),
        response("resp_2", "completed", json!([message("msg_2")])),
    ];
    let mut run = merge(WireId::OpenaiResponses, ToolNames::HANDOFF);
    let all = events(&[shown(&mut run, &[stream(&first), stream(&second)])]);
    let output = &all.last().unwrap()["response"]["output"];
    assert_eq!(output.as_array().unwrap().len(), 2, "{output}");
    // Two of baton's notes in one response.
    let mut run = merge(WireId::OpenaiResponses, ToolNames::HANDOFF);
    let mut out = Vec::new();
    run.feed(stream(&first).into(), &mut out);
    run.say("Once.", &mut out);
    run.say("Twice.", &mut out);
    let added = |event: &&Value| event["type"] == "response.output_item.added";
    let all = events(&[out.concat()]);
    let ids: Vec<_> = all
        .iter()
        .filter(added)
        .map(|event| &event["item"]["id"])
        .collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

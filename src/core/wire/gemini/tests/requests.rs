use super::*;
use crate::marker::{aside, sentinel};
use crate::rewrite::untooled;
use crate::text::cost;
use crate::wire::view::{Role, ToolChoice, TurnPartKind};
use crate::wire::{CallAt, UnreadReason};

const ID: uuid::Uuid = uuid::Uuid::from_u128(7);

#[test]
fn both_spellings_are_read_and_the_edit_is_made_in_the_one_found() {
    let body = r#"{"contents":[{"parts":[{"text":"hi"}]},{"role":"model","parts":[{"function_call":{"name":"f","id":"x"},"thought_signature":"c2ln"}]},
        {"role":"user","parts":[{"function_response":{"name":"f","id":"x","response":{}}}]}],
        "tools":[{"function_declarations":[{"name":"f","parameters_json_schema":{}}]}],
        "tool_config":{"function_calling_config":{"mode":"VALIDATED"}},"generation_config":{"max_output_tokens":2048}}"#;
    let read = reading(body);
    let roles: Vec<_> = read.view.turns.iter().map(|t| t.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
    let call = &read.view.content(1).parts[0];
    assert_eq!(
        (call.kind, read.view.str(call.id.unwrap())),
        (TurnPartKind::Call, "x".into())
    );
    assert!(untooled::unfit(&read.view).is_none() && (WIRE.functions.bound)(&read.view));
    let (out, _) = rewritten(body, &[], true);
    assert!(out.contains(r#","parameters_json_schema":{"type":"object""#));
}

#[test]
fn the_older_style_of_schemas_is_kept() {
    let body = r#"{"contents":[{"parts":[{"text":"hi"}]}],"tools":{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}}"#;
    let (out, _) = rewritten(body, &[], true);
    assert!(out.contains(r#"}},{"name":"session_handoff","description":"d","parameters":{"type":"OBJECT""#));
}

#[test]
fn facts_come_from_the_config() {
    let facts = |rest: &str| {
        let tools = r#""tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"}]}]"#;
        let read = reading(&format!(
            r#"{{"contents":[{{"parts":[{{"text":"hi"}}]}}],{tools},{rest}}}"#
        ));
        (untooled::unfit(&read.view).is_none(), read.view.facts)
    };
    assert!(facts(r#""generationConfig":{"responseMimeType":"text/plain","candidateCount":1,"maxOutputTokens":1024}"#).0);
    for (config, choice) in [
        (r#""mode":"ANY""#, ToolChoice::Forced),
        (
            r#""mode":"AUTO","allowedFunctionNames":["f"]"#,
            ToolChoice::Forced,
        ),
        (r#""mode":"NONE""#, ToolChoice::None),
    ] {
        let (eligible, facts) = facts(&format!(
            r#""toolConfig":{{"functionCallingConfig":{{{config}}}}}"#
        ));
        assert_eq!((eligible, facts.choice), (false, choice), "{config}");
    }
    for config in [
        r#""responseMimeType":"application/json""#,
        r#""responseSchema":{}"#,
        r#""response_json_schema":{}"#,
        r#""candidateCount":2"#,
        r#""maxOutputTokens":100"#,
        r#""responseModalities":["AUDIO"]"#,
    ] {
        let (eligible, _) = facts(&format!(r#""generationConfig":{{{config}}}"#));
        assert!(!eligible, "{config}");
    }
    assert!(facts(r#""cachedContent":"cachedContents/x""#).1.server_side);
}

#[test]
fn a_request_inside_an_envelope_is_rewritten_there() {
    for envelope in ["generateContentRequest", "request"] {
        let body = format!(
            r#"{{"model":"m","{envelope}":{{"session_id":"s","contents":[{{"parts":[{{"text":"hi"}}]}}],"tools":[{{"functionDeclarations":[]}}]}}}}"#
        );
        assert_eq!(reading(&body).view.facts.session.as_deref(), Some("s"));
        let (out, _) = rewritten(&body, &[], true);
        assert_contains(&out, r#""functionDeclarations":[{"name":"session_handoff""#);
    }
}

#[test]
fn unreadable_bodies_are_reported() {
    let read = |body: &'static str| {
        RequestReading::new(&WIRE, &Bytes::from_static(body.as_bytes()), Operation::Generate)
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(read(r#"{"contents":[],"x":1}"#), UnreadReason::OtherShape);
    assert_eq!(read(r#"{"instances":[{}]}"#), UnreadReason::OtherShape);
    assert_eq!(read("[1]"), UnreadReason::OtherShape);
    assert_eq!(
        read(r#"{"contents":[{}],"systemInstruction":{},"system_instruction":{}}"#),
        UnreadReason::RepeatedKey
    );
    assert!(matches!(read(r#"{"contents":[{}"#), UnreadReason::NotJson(_)));
    assert!(matches!(read(r#"{"contents":[{}]} x"#), UnreadReason::NotJson(_)));
}

#[test]
fn single_objects_are_read_and_not_edited() {
    let mark = sentinel::opening(ID);
    let alone = format!(
        r#"{{"contents":{{"role":"user","parts":[{{"text":"{mark}"}}]}},"tools":[{{"functionDeclarations":[{{"name":"f"}}]}}]}}"#
    );
    let read = reading(&alone);
    assert_eq!(read.view.turns.len(), 1);
    assert!(untooled::unfit(&read.view).is_some() && untooled::no_room(&read.view).is_some());
    assert_eq!(read.candidates(), []);

    let part = format!(r#"{{"contents":[{{"role":"model","parts":{{"text":"{mark}\n\nrest"}}}}]}}"#);
    let read = reading(&part);
    let found = read.candidates();
    assert_eq!(found.len(), 1);
    let cut = Cut::At {
        candidate: &found[0],
        prompt: Some("p"),
        head: r#"{"role":"user"}"#,
    };
    let what = Rewrite {
        cut,
        ..Rewrite::default()
    };
    let wanted = r#"{"contents":[{"role":"user"},{"role":"model","parts":{"text":"rest"}}]}"#;
    assert_eq!(splice::flat(rewrite(&read, &what).rope), wanted);
}

#[test]
fn signatures_bind_in_the_current_turn_alone() {
    let call = r#"{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"s"}]}"#;
    let result = r#"{"role":"user","parts":[{"functionResponse":{"name":"f"}}]}"#;
    let user_turn = r#"{"role":"user","parts":[{"text":"x"}]}"#;
    let bound = |turns: &[&str]| {
        let read = reading(&format!(r#"{{"contents":[{}]}}"#, turns.join(",")));
        (WIRE.functions.bound)(&read.view)
    };
    assert!(bound(&[user_turn, call, result]));
    assert!(!bound(&[user_turn, call, result, user_turn]));
}

/// A transcript of one turn: model contents, and results of `f` and `g`.
fn transcript(model: &str) -> String {
    format!(
        r#"{{"contents":[{{"parts":[{{"text":"go"}}]}},{model},{{"role":"user","parts":[{{"functionResponse":{{"name":"f"}}}},{{"functionResponse":{{"name":"g"}}}}]}}],"tools":[{{"functionDeclarations":[{{"name":"f"}}]}}]}}"#
    )
}

fn model(parts: &str) -> String {
    format!(r#"{{"role":"model","parts":[{parts}]}}"#)
}

const F: &str = r#"{"functionCall":{"name":"f","args":{"a":1,"b":"x"}},"thoughtSignature":"ab+/"}"#;
const G: &str = r#"{"functionCall":{"name":"g","args":{}}}"#;
const HIDDEN: &str = r#"{"functionCall":{"id":"h"}}"#;
const RESULT: &str = r#"{"functionResponse":{"id":"h","name":"session_handoff","response":{"output":"Handoff queued: it takes place when your turn ends, unless the user sends a message first. Call session_handoff again to replace its prompt."}}}"#;

/// Fingerprint that a pair next to this call stores. The call is the complete response to the opening of the
/// transcript.
fn fingerprint_of(call: &str) -> String {
    let request = reading(r#"{"contents":[{"parts":[{"text":"go"}]}]}"#);
    let body = format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":[{call}]}}}}]}}"#);
    let report = WIRE.reply(&request.view, &body.into(), WATCH).unwrap();
    report.calls[0].0.clone()
}

/// Every content is read once or twice, however the contents are grouped.
#[test]
fn many_calls_are_named_in_the_time_of_one_walk() {
    let (apart, result) = (
        model(G),
        r#"{"role":"user","parts":[{"functionResponse":{"name":"g"}}]}"#,
    );
    let contents = |one: &str, calls: usize| vec![one; calls].join(",");
    let shapes: [&dyn Fn(usize) -> String; 3] = [
        &|calls| contents(&apart, calls),
        &|calls| model(&contents(G, calls)),
        &|calls| contents(&format!("{apart},{result}"), calls),
    ];
    let opening = "x".repeat(1 << 18);
    for shape in shapes {
        let [few, many] = [1_000, 4_000].map(|calls| {
            let body = shape(calls);
            let body = format!(r#"{{"contents":[{{"parts":[{{"text":"{opening}"}}]}},{body}]}}"#);
            let read = reading(&body);
            let (steps, keys) = cost::of(|| read.call_names());
            assert_eq!(keys.len(), calls);
            let CallAt { turn, part } = read.view.find_calls(&[&keys[calls - 1]], 0)[0].unwrap();
            let last = (0..read.view.turns.len()).rev();
            let mut last = last.filter(|t| read.view.turns[*t].role == Role::Assistant);
            assert_eq!(last.next(), Some(turn));
            assert_eq!(part + 1, read.view.content(turn).parts.len());
            assert!(
                steps > 0 && steps < 8 * body.len() as u64,
                "{steps} steps for {} bytes",
                body.len()
            );
            steps
        });
        assert!(many < 5 * few, "{few} steps for 1,000 calls, {many} for 4,000");
    }
}

#[test]
fn a_pair_finds_its_sibling_whatever_is_left_of_it() {
    let whole = r#"{"functionCall":{"id":"i","name":"f","args":{"a":1,"b":"x"}},"thoughtSignature":"ab+/"}"#;
    let key = fingerprint_of(whole);
    for sibling in [
        whole,
        F,
        r#"{"functionCall":{"id":"i","name":"f","args":{}}}"#,
        r#"{"functionCall":{"id":"mine","name":"f","args":{}},"thoughtSignature":"ab-_"}"#,
        r#"{"functionCall":{"name":"f","args":{"b":"x","a":1.0}}}"#,
    ] {
        let (out, done) = rewritten(&transcript(&model(sibling)), &[pair(&key, -1)], false);
        assert_eq!(done.placed.len(), 1, "{sibling}");
        assert!(out.contains(&format!("{HIDDEN},{sibling}")), "{out}");
        let part = format!(r#"[{RESULT},{{"functionResponse":{{"name":"f"}}}}"#);
        assert_contains(&out, &part);
    }
    for other in [
        r#"{"functionCall":{"name":"f","args":{"a":2,"b":"x"}}}"#,
        r#"{"functionCall":{"id":"j","name":"f","args":{"a":1,"b":"x"}}}"#,
    ] {
        let (_, done) = rewritten(&transcript(&model(other)), &[pair(&key, -1)], false);
        assert!(done.placed.is_empty(), "{other}");
    }
}

#[test]
fn equal_calls_are_distinguished_by_their_order() {
    let body = transcript(&model(&[G, G].join(",")));
    let keys = reading(&body).call_names();
    let (out, _) = rewritten(&body, &[pair(&keys[1], -1)], false);
    assert!(out.contains(&format!("{G},{HIDDEN},{G}")), "{out}");
    assert!(out.contains(&format!(r#""name":"f"}}}},{RESULT},"#)), "{out}");
}

#[test]
fn positions_hold_across_contents_and_joined_texts() {
    let text = |t: &str| format!(r#"{{"text":"{t}"}}"#);
    let thought = r#"{"text":"hm","thought":true}"#.to_owned();
    let apart = [thought, F.into(), text("a"), text(""), text("b"), G.into()];
    let joined = [F.to_owned(), text("ab"), G.to_owned()];
    let one_each: Vec<String> = apart.iter().map(|p| model(p)).collect();
    for (contents, wanted) in [
        (one_each.join(","), format!("{},{HIDDEN}]", text("b"))),
        (model(&joined.join(",")), format!("{},{HIDDEN},{G}", text("ab"))),
    ] {
        let body = transcript(&contents);
        let keys = reading(&body).call_names();
        assert_eq!(keys.len(), 2);
        let (out, _) = rewritten(&body, &[pair(&keys[0], 1)], false);
        assert!(out.contains(&wanted), "{out}");
        let part = format!(r#""name":"f"}}}},{RESULT},{{"functionResponse":{{"name":"g""#);
        assert_contains(&out, &part);
    }
}

#[test]
fn a_result_that_has_no_place_yet_gets_a_content_of_its_own() {
    let body = format!(r#"{{"contents":[{}]}}"#, model(F));
    let keys = reading(&body).call_names();
    let (out, _) = rewritten(&body, &[pair(&keys[0], 0)], false);
    let result = format!(r#"{{"role":"user","parts":[{RESULT}]}}"#);
    assert_eq!(
        out,
        format!(r#"{{"contents":[{},{result}]}}"#, model(&[F, HIDDEN].join(",")))
    );
}

#[test]
fn a_step_whose_signature_is_lost_says_so() {
    let signed = transcript(&model(F));
    let lost = |step: &str| {
        let more = format!(
            r#",{},{{"role":"user","parts":[{{"functionResponse":{{"name":"g"}}}}]}}]"#,
            model(step)
        );
        signed.replace(r#"]}],"tools""#, &format!(r#"]}}{more},"tools""#))
    };
    let body = lost(G);
    let word = r#"{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"name":"g""#;
    assert!(rewritten(&body, &[], true).0.contains(word));
    let says_so =
        |body: &str, pairs: &[HiddenPair], tool| rewritten(body, pairs, tool).0.contains("skip_thought");
    // Unchanged without the tool, with the pair restored, and if the call is signed.
    assert!(!says_so(&body, &[], false));
    let keys = reading(&body).call_names();
    assert!(!says_so(&body, &[pair(&keys[1], -1)], true));
    assert!(!says_so(&signed, &[], true));
    // Calls of a model that never signed stay unchanged.
    assert!(!says_so(&transcript(&model(G)), &[], true));
}

#[test]
fn an_aside_splits_its_content() {
    let aside = HiddenPair {
        place: InsertionPoint::Aside,
        answer: HiddenResult::EMPTY_PROMPT,
        ..pair("", 0)
    };
    let line = aside::line(ID);
    let result = r#"{"role":"user","parts":[{"functionResponse":{"id":"h","name":"session_handoff","response":{"error":"#;
    let body = |parts: &str| {
        format!(r#"{{"contents":[{{"parts":[{{"text":"go"}}]}},{{"parts":{parts},"role":"model"}}]}}"#)
    };
    for (parts, before, after) in [
        (
            format!(r#"[{{"text":"a\n\n{line}\n\nb"}},{F}]"#),
            format!(r#"[{{"text":"a"}},{HIDDEN}]"#),
            Some(format!(r#"[{{"text":"b"}},{F}]"#)),
        ),
        (
            format!(r#"[{{"text":"\n\n{line}\n\n"}}]"#),
            format!("[{HIDDEN}]"),
            None,
        ),
        (
            format!(r#"{{"text":"\n\n{line}\n\nb"}}"#),
            format!("[{HIDDEN}]"),
            Some(r#"[{"text":"b"}]"#.to_owned()),
        ),
    ] {
        let (out, done) = rewritten(&body(&parts), std::slice::from_ref(&aside), false);
        assert_eq!(done.placed.len(), 1);
        assert_contains(&out, &format!(r#"{{"parts":{before},"role":"model"}},{result}"#));
        let end = after.map_or("}}}]}]}".to_owned(), |after| {
            format!(r#"{{"parts":{after},"role":"model"}}]}}"#)
        });
        assert!(out.ends_with(&end), "{out}");
    }
}

//! Calls whose arguments are streamed piece by piece (Vertex, `streamFunctionCallArguments`).

use serde_json::{Value, json};

use super::transcript::{field, inner};
use crate::dialect::Received;
use crate::reply::pieces;

/// Whether a request asks for such a stream.
pub(super) fn is_requested(request: &Received) -> bool {
    field(inner(&request.body), "toolConfig")
        .and_then(|config| field(config, "functionCallingConfig"))
        .and_then(|config| field(config, "streamFunctionCallArguments"))
        .is_some_and(|flag| flag == true)
}

/// Splits each call over several chunks.
///
/// The name comes first, then each argument by its path, with strings in pieces of `size` characters. An
/// empty call ends it. Empty objects and lists have no path and are lost.
pub(super) fn split_calls(chunks: Vec<Vec<Value>>, size: usize) -> Vec<Vec<Value>> {
    let mut out = Vec::new();
    for part in chunks.into_iter().flatten() {
        match part.get("functionCall") {
            Some(call) => split_call(&part, call, size, &mut out),
            None => out.push(vec![part]),
        }
    }
    out
}

fn split_call(part: &Value, call: &Value, size: usize, out: &mut Vec<Vec<Value>>) {
    let mut head = part.clone();
    if let Some(Value::Object(fields)) = head.get_mut("functionCall") {
        fields.shift_remove("args");
        fields.insert("willContinue".to_owned(), json!(true));
    }
    out.push(vec![head]);
    let mut leaves = Vec::new();
    walk("$", call.get("args").unwrap_or(&Value::Null), size, &mut leaves);
    for leaf in leaves {
        out.push(vec![
            json!({"functionCall": {"partialArgs": [leaf], "willContinue": true}}),
        ]);
    }
    out.push(vec![json!({"functionCall": {}})]);
}

fn walk(path: &str, value: &Value, size: usize, out: &mut Vec<Value>) {
    let leaf = |key: &str, value: Value| json!({"jsonPath": path, key: value});
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                walk(&format!("{path}.{key}"), value, size, out);
            }
        }
        Value::Array(list) => {
            for (n, value) in list.iter().enumerate() {
                walk(&format!("{path}[{n}]"), value, size, out);
            }
        }
        Value::String(text) => {
            for piece in pieces(text, size) {
                let mut leaf = leaf("stringValue", json!(piece));
                leaf["willContinue"] = json!(true);
                out.push(leaf);
            }
            out.push(leaf("stringValue", json!("")));
        }
        Value::Number(_) => out.push(leaf("numberValue", value.clone())),
        Value::Bool(_) => out.push(leaf("boolValue", value.clone())),
        Value::Null => out.push(leaf("nullValue", json!("NULL_VALUE"))),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn arguments_come_by_their_paths() {
        let args = json!({"a": "Grüße", "b": {"c": [1, null]}, "d": true});
        let call = json!({"id": "x", "name": "f", "args": args});
        let part = json!({"functionCall": call, "thoughtSignature": "s"});
        let split = split_calls(vec![vec![json!({"text": "Hm."}), part]], 3);
        let parts: Vec<Value> = split.into_iter().flatten().collect();
        assert_eq!(parts[0], json!({"text": "Hm."}));
        let head = json!({"id": "x", "name": "f", "willContinue": true});
        assert_eq!(parts[1], json!({"functionCall": head, "thoughtSignature": "s"}));
        let leaves: Vec<&Value> = parts
            .iter()
            .filter_map(|part| part.pointer("/functionCall/partialArgs/0"))
            .collect();
        let expected = [
            json!({"jsonPath": "$.a", "stringValue": "Grü", "willContinue": true}),
            json!({"jsonPath": "$.a", "stringValue": "ße", "willContinue": true}),
            json!({"jsonPath": "$.a", "stringValue": ""}),
            json!({"jsonPath": "$.b.c[0]", "numberValue": 1}),
            json!({"jsonPath": "$.b.c[1]", "nullValue": "NULL_VALUE"}),
            json!({"jsonPath": "$.d", "boolValue": true}),
        ];
        assert_eq!(leaves, expected.iter().collect::<Vec<_>>());
        assert_eq!(parts.last(), Some(&json!({"functionCall": {}})));
    }
}

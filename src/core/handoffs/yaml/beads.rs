//! Converts tasks of beads, an issue tracker with the command `br`, to entries of a handoff file.

use serde_json::Value as Json;

use super::text::cut;

/// Maximum size of a task's title in bytes.
const TITLE_BYTES: usize = 60;

/// The tasks in the output of `br list --format json`, as `id: title`.
///
/// The output is a list, or an object that holds one.
pub fn beads(output: &str) -> Vec<String> {
    let Ok(output) = serde_json::from_str::<Json>(output) else {
        return Vec::new();
    };
    let list = match &output {
        Json::Array(list) => Some(list),
        Json::Object(envelope) => ["issues", "beads", "data", "items", "results"]
            .iter()
            .find_map(|key| envelope.get(*key)?.as_array())
            // Without a known member, the first list counts.
            .or_else(|| envelope.values().find_map(Json::as_array)),
        _ => None,
    };
    let listed = list.into_iter().flatten().filter_map(|bead| {
        let id = bead.get("id")?.as_str().filter(|id| !id.is_empty())?;
        let title = bead.get("title").and_then(Json::as_str).unwrap_or_default();
        Some(match cut(title.trim(), TITLE_BYTES).trim_end() {
            "" => id.to_owned(),
            title => format!("{id}: {title}"),
        })
    });
    listed.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn beads_are_read_from_a_list_and_from_an_envelope() {
        let list = json!([{"id": "bd-1", "title": "auth"}, {"id": "bd-2", "title": "x".repeat(99)}, {"title": "no id"}, {"id": "bd-3"}]);
        let listed = beads(&list.to_string());
        assert_eq!(
            listed,
            [
                "bd-1: auth".to_owned(),
                format!("bd-2: {}", "x".repeat(60)),
                "bd-3".to_owned()
            ]
        );
        for envelope in [json!({"issues": list}), json!({"count": 4, "whatever": list})] {
            assert_eq!(beads(&envelope.to_string()), listed);
        }
        assert!(beads("no JSON").is_empty() && beads("3").is_empty() && beads("{}").is_empty());
    }
}

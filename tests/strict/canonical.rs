//! JSON in canonical form, and a parser that finds repeated keys.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Writes `value` with sorted keys and no whitespace. Numbers are not normalized: `1.0` and `1` differ.
pub(crate) fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// [`write`] into a new string.
pub(crate) fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// Finds the first key that occurs twice in an object of `json`. Returns `None` for invalid JSON as well.
///
/// Parsers silently keep the last value, so a badly spliced body would look correct.
pub(crate) fn repeated_key(json: &[u8]) -> Option<String> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_slice(json);
    let _ = KeyOrder(&mut found).deserialize(&mut reader);
    found
}

struct KeyOrder<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for KeyOrder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeyOrder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(KeyOrder(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if !keys.insert(key.clone()) && self.0.is_none() {
                *self.0 = Some(key);
            }
            map.next_value_seed(KeyOrder(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn key_order_does_not_matter_and_number_spelling_does() {
        let a: Value = serde_json::from_str(r#"{"b":[1.50,{"d":1,"c":2}],"a":null}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a":null,"b":[1.50,{"c":2,"d":1}]}"#).unwrap();
        let c: Value = serde_json::from_str(r#"{"a":null,"b":[1.5,{"c":2,"d":1}]}"#).unwrap();
        assert_eq!(text(&a), text(&b));
        assert_ne!(text(&a), text(&c));
        assert_eq!(text(&json!("a\"b")), r#""a\"b""#);
    }

    #[test]
    fn a_key_given_twice_is_found_at_any_depth() {
        assert_eq!(
            repeated_key(br#"{"a":1.25e400,"b":[{"x":1,"x":2}]}"#),
            Some("x".to_owned())
        );
        assert_eq!(repeated_key(br#"{"a":{"b":1},"b":{"a":true,"c":null}}"#), None);
        assert_eq!(repeated_key(b"{not json"), None);
    }
}

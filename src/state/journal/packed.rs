//! Headers in one allocation of their own, for lists that are kept for a long time. As hyper delivers them, their values are slices of
//! the connection's read buffer: keeping one value keeps the whole buffer, and the connection has to allocate another.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Replaces a value that is marked as sensitive.
const SENSITIVE: &[u8] = b"[redacted:credential]";

/// A copy of a header map, in order.
#[derive(Clone, Default)]
pub struct PackedHeaders {
    /// Name, line feed, value, line feed; neither can contain one.
    text: Bytes,
    count: usize,
}

impl PackedHeaders {
    /// All of them as they are.
    pub fn new(headers: &HeaderMap) -> Self {
        Self::of(headers, HeaderValue::as_bytes)
    }

    /// Packs headers without the values that are marked as sensitive: the proxy's own credentials.
    pub fn without_sensitive(headers: &HeaderMap) -> Self {
        Self::of(headers, |value| match value.is_sensitive() {
            true => SENSITIVE,
            false => value.as_bytes(),
        })
    }

    fn of<'a>(headers: &'a HeaderMap, value: impl Fn(&'a HeaderValue) -> &'a [u8]) -> Self {
        let rows = || headers.iter().map(|(n, v)| [n.as_str().as_bytes(), value(v)]);
        let room = rows().flatten().map(|part| part.len() + 1).sum();
        let mut text = Vec::with_capacity(room);
        for part in rows().flatten() {
            text.extend_from_slice(part);
            text.push(b'\n');
        }
        Self {
            text: text.into(),
            count: headers.len(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Names (lower case) and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.rows()
            .map(|(name, value)| (std::str::from_utf8(name).unwrap_or_default(), value))
    }

    /// Packs headers whose names are bytes.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut ends = memchr::memchr_iter(b'\n', &self.text);
        let mut at = 0;
        std::iter::from_fn(move || {
            let (name, end) = (ends.next()?, ends.next()?);
            let row = (&self.text[at..name], &self.text[name + 1..end]);
            at = end + 1;
            Some(row)
        })
    }

    /// The first value of `name` (lower case).
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// The headers as a map again; its values share one piece of memory.
    pub fn map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.count);
        for (name, value) in self.iter() {
            let value = HeaderValue::from_maybe_shared(self.text.slice_ref(value));
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value) {
                map.append(name, value);
            }
        }
        map
    }
}

impl std::fmt::Debug for PackedHeaders {
    /// Without the values, which may be credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-b", &b"2"[..]),
            ("accept", b""),
            ("x-b", b"1, \t\xff~"),
            ("content-type", b"application/json"),
        ] {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        let packed = PackedHeaders::new(&headers);
        let back = packed.map();
        assert_eq!(back, headers);
        assert!(back.iter().eq(headers.iter()), "in the same order");
        assert_eq!(packed.len(), 4);
        assert_eq!(packed.get("x-b"), Some(&b"2"[..]));
        assert_eq!(packed.get("x-c"), None);
        assert_eq!(PackedHeaders::new(&HeaderMap::new()).map(), HeaderMap::new());
    }

    #[test]
    fn sensitive_values_are_left_out() {
        let mut headers = HeaderMap::new();
        headers.append("accept", HeaderValue::from_static("a"));
        let mut key = HeaderValue::from_static("secret");
        key.set_sensitive(true);
        headers.append("x-api-key", key);
        let packed = PackedHeaders::without_sensitive(&headers);
        assert_eq!(packed.get("accept"), Some(&b"a"[..]));
        assert_eq!(packed.get("x-api-key"), Some(SENSITIVE));
        assert!(!format!("{:?}", PackedHeaders::new(&headers)).contains("secret"));
    }
}

//! Headers that are kept for long. As they come from a connection their values are slices of all that was read with
//! them, and a map has more room than entries.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Headers in one piece of memory.
#[derive(Default)]
pub(crate) struct Packed {
    /// Name, line feed, value, line feed: neither may hold one.
    text: Bytes,
    count: usize,
}

impl Packed {
    pub(crate) fn new(headers: &HeaderMap) -> Self {
        let rows = || headers.iter().map(|(n, v)| [n.as_str().as_bytes(), v.as_bytes()]);
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

    /// The headers as a map again; its values share one piece of memory.
    pub(crate) fn map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.count);
        let mut ends = memchr::memchr_iter(b'\n', &self.text);
        let mut at = 0;
        while let (Some(name), Some(end)) = (ends.next(), ends.next()) {
            let value = HeaderValue::from_maybe_shared(self.text.slice(name + 1..end));
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&self.text[at..name]), value) {
                map.append(name, value);
            }
            at = end + 1;
        }
        map
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
        let back = Packed::new(&headers).map();
        assert_eq!(back, headers);
        assert!(back.iter().eq(headers.iter()), "in the same order");
        assert_eq!(Packed::new(&HeaderMap::new()).map(), HeaderMap::new());
    }
}

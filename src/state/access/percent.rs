//! Percent-encoding in request targets (RFC 3986, section 2.1).

/// Decodes every `%XX` once.
pub(crate) fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, tail @ ..]) if digit(*high).is_some() && digit(*low).is_some() => {
                out.push(digit(*high).unwrap_or(0) << 4 | digit(*low).unwrap_or(0));
                rest = tail;
            }
            _ => out.push(first),
        }
    }
    out
}

//! Formats counts, bytes, ages and ids.

use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Number of characters of an id that commands accept for the whole: its time in milliseconds.
const ID_CHARS: usize = 13;

/// The beginning of an id.
pub fn brief(id: Uuid) -> String {
    let mut id = id.to_string();
    id.truncate(ID_CHARS);
    id
}

/// Formats bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
    let bytes = bytes.iter();
    bytes.flat_map(|b| [digit(b >> 4), digit(b & 0xf)]).collect()
}

/// Parses hexadecimal digits. Returns `None` for other characters, or half a byte.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?));
    bytes.collect()
}

/// Hashes a list of parts to 128 bits, in hexadecimal.
pub fn digest(parts: &[impl AsRef<str>]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        // The length comes first, so that no two lists of parts concatenate to the same bytes.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize()[..16])
}

/// Formats an age in seconds as `now`, `12m`, `3h` or `5d`.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..60 => "now".to_owned(),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Formats an age in seconds as `just now`, `12m ago`, `3h ago` or `5d ago`.
pub fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => "just now".to_owned(),
        _ => format!("{} ago", age(seconds)),
    }
}

/// Whether a count is zero, for serde's `skip_serializing_if`.
pub fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

/// Formats a large number with one decimal, such as `999`, `1.2 k` or `403.6 M`.
pub fn short(n: u64) -> String {
    const UNITS: [&str; 4] = ["k", "M", "G", "T"];
    if n < 1000 {
        return n.to_string();
    }
    let mut amount = n as f64 / 1000.0;
    let mut unit = 0;
    // From 999.95 on, the amount would be rounded to 1000.0.
    while amount >= 999.95 && unit + 1 < UNITS.len() {
        amount /= 1000.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// Formats input that was not sent, such as `about 1.2 k tokens`. Negative if more was sent than received.
pub fn unsent(tokens: i64) -> String {
    let sign = if tokens < 0 { "-" } else { "" };
    format!("about {sign}{} tokens", short(tokens.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units() {
        assert_eq!(unsent(1234), "about 1.2 k tokens");
        assert_eq!(unsent(-8553), "about -8.6 k tokens");
        let counts = [0, 999, 1000, 1234, 999_949, 999_960, 403_600_000].map(short);
        assert_eq!(
            counts,
            ["0", "999", "1.0 k", "1.2 k", "999.9 k", "1.0 M", "403.6 M"]
        );
    }
}

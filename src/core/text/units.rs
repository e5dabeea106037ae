//! Formats counts and ids for users.

use uuid::Uuid;

/// Number of characters of an id that commands accept for the whole: its time in milliseconds.
const ID_CHARS: usize = 13;

/// The beginning of an id.
pub fn brief(id: Uuid) -> String {
    let mut id = id.to_string();
    id.truncate(ID_CHARS);
    id
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

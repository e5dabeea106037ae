//! Formats counts for users. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub use baton_core::text::units::short;

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

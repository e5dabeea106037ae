//! Compares with a byte-by-byte scan, for each level of vectors.

use super::*;
use proptest::prelude::*;

/// Scans byte by byte, as the format is specified.
fn slow_string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        match text.get(from)? {
            b'"' => return Some(from + 1),
            b'\\' => from += 2,
            _ => from += 1,
        }
    }
}

fn slow_container_end(text: &[u8], at: usize) -> Option<usize> {
    let (mut depth, mut from) = (0, at);
    loop {
        match text.get(from)? {
            b'"' => {
                from = slow_string_end(text, from)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        from += 1;
        if depth == 0 {
            return Some(from);
        }
    }
}

/// Counts four times the braces in the sampled blocks, and those after the last whole step of four blocks.
fn slow_braces(text: &[u8], sample: u64) -> usize {
    let count = |text: &[u8]| text.iter().filter(|&&b| b == b'{').count();
    let (steps, _) = text.as_chunks::<{ 4 * BLOCK }>();
    let steps = &steps[..text.len().saturating_sub(PAIR_DISTANCE) / (4 * BLOCK)];
    let sampled = |i: usize| (sample >> (2 * (i % 32)) & 3) as usize * BLOCK;
    let blocks = steps.iter().enumerate();
    let counted = blocks.map(|(i, step)| 4 * count(&step[sampled(i)..sampled(i) + BLOCK]));
    let counted = counted.sum::<usize>();
    counted + count(&text[steps.as_flattened().len()..])
}

/// Vector levels of this processor and of its predecessors.
fn levels() -> Vec<Level> {
    let best = Level::new();
    #[cfg(target_arch = "x86_64")]
    let older = [
        best.as_sse2().map(Level::Sse2),
        best.as_sse4_2().map(Level::Sse4_2),
        best.as_avx2().map(Level::Avx2),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let older = [None];
    older.into_iter().flatten().chain([best]).collect()
}

fn agree(text: &[u8]) {
    for at in 0..text.len() {
        match text[at] {
            b'"' => {
                let end = slow_string_end(text, at);
                assert_eq!(string_end(text, at), end, "{at}");
                // The first byte of the string is read before.
                if text.get(at + 1).is_some_and(|byte| *byte != b'"') {
                    for level in levels() {
                        let found = dispatch!(level, simd => string_rest_end(simd, text, at + 2));
                        assert_eq!(found, end, "{at} {level:?}");
                    }
                }
            }
            b'{' | b'[' => {
                let end = slow_container_end(text, at);
                for level in levels() {
                    let found = dispatch!(level, simd => container_end_by(simd, text, at));
                    assert_eq!(found, end, "{at} {level:?}");
                }
            }
            _ => {}
        }
    }
}

#[test]
fn every_place_of_a_string_in_its_block_is_the_same() {
    for pad in 0..2 * BLOCK {
        for slashes in 0..6 {
            let text = format!(
                r#"{{"k":"{}{}" ]","l":[{{"m":"\""}}]}}"#,
                "x".repeat(pad),
                r"\".repeat(slashes)
            );
            for cut in [text.len(), text.len() - 1, text.len() - 5] {
                agree(&text.as_bytes()[..cut]);
            }
        }
    }
}

#[test]
fn runs_of_backslashes_over_whole_blocks_are_counted() {
    for slashes in 60..70 {
        for more in [0, 64, 128] {
            let text = format!(r#"["{}" , "]"]"#, r"\".repeat(slashes + more));
            agree(text.as_bytes());
        }
    }
}

#[test]
fn depth_is_followed_through_many_blocks() {
    for depth in [1, 31, 63, 64, 65, 200, 1000] {
        let text = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(container_end(text.as_bytes(), 0), Some(text.len()));
        assert_eq!(container_end(&text.as_bytes()[..text.len() - 1], 0), None);
    }
}

proptest! {
    #[test]
    fn pairs_are_found_as_byte_by_byte(pieces in proptest::collection::vec(prop_oneof![
        Just("h"), Just("f"), Just("y"), Just("hand"), Just("{"), Just("handoff"), Just("xxxxxxxxxxxxxxxxxxxxx")], 0..60), sample in any::<u64>()) {
        let text = pieces.concat().into_bytes();
        let pairs = Pairs { first: b'h', seconds: *b"fy" };
        let is_pair = |at: &usize| {
            let later = text.get(at + PAIR_DISTANCE);
            text[*at] == pairs.first && later.is_some_and(|byte| pairs.seconds.contains(byte))
        };
        let expected: Vec<usize> = (0..text.len()).filter(is_pair).collect();
        let braces = slow_braces(&text, sample);
        for level in levels() {
            let mut found = Vec::new();
            let counted = dispatch!(level, simd => find_pairs_by(simd, &text, pairs, sample, &mut |at| found.push(at)));
            prop_assert_eq!((&found, counted), (&expected, braces), "{:?}", level);
        }
    }

    #[test]
    fn text_that_is_no_json_is_walked_alike(pieces in proptest::collection::vec(prop_oneof![
        4 => Just("\""), 3 => Just("\\"), 1 => Just("\\\\"), 2 => Just("{"), 2 => Just("}"), 1 => Just("["),
        1 => Just("]"), 1 => Just(","), 1 => Just("é"), 2 => Just("xxxxxxxxxxxxxxxxxxxxxxxxxxxxx")], 0..60)) {
        agree(pieces.concat().as_bytes());
    }

    #[test]
    fn values_end_where_serde_json_ends_them(
        texts in proptest::collection::vec(any::<String>(), 0..12),
        pad in 0usize..70,
        cut in any::<proptest::sample::Index>(),
    ) {
        let value = serde_json::json!({ "pad": "x".repeat(pad), "all": texts, "deep": [[{"a": texts.first()}]] });
        let text = format!("{value} tail\"}}]");
        let bytes = text.as_bytes();
        let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<serde::de::IgnoredAny>();
        prop_assert!(stream.next().is_some_and(|v| v.is_ok()));
        prop_assert_eq!(container_end(bytes, 0), Some(stream.byte_offset()));
        agree(&bytes[..cut.index(bytes.len())]);
    }
}

//! No byte is lost, and the payloads are the same however the bytes are split.

use super::pieces;
use baton_core::wire::Framing;
use baton_core::wire::framer::Framer;
use bytes::Bytes;

const FRAMINGS: [Framing; 3] = [Framing::Sse, Framing::JsonArray, Framing::Lines];

/// All bytes as they come out, and the payloads of the frames.
fn framed(framing: Framing, chunks: Vec<Bytes>) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut framer = Framer::new(framing, usize::MAX);
    let (mut bytes, mut payloads) = (Vec::new(), Vec::new());
    for chunk in chunks {
        let Ok(batch) = framer.push(chunk) else {
            unreachable!("there is no limit")
        };
        for range in batch.frames {
            let frame = &batch.buf[range];
            bytes.extend_from_slice(frame);
            let payload = framing.data(frame);
            if !payload.is_empty() {
                payloads.push(payload.into_owned());
            }
        }
    }
    bytes.extend_from_slice(&framer.finish());
    (bytes, payloads)
}

pub fn check(input: &[u8]) {
    let [framing, first, second, text @ ..] = input else {
        return;
    };
    let framing = FRAMINGS[usize::from(*framing) % FRAMINGS.len()];
    let whole = framed(framing, vec![Bytes::copy_from_slice(text)]);
    let split = framed(framing, pieces(text, [*first, *second]));
    assert_eq!(whole.0, text);
    assert_eq!(split.0, text);
    assert_eq!(whole.1, split.1);
}

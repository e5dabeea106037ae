//! Responses in progress, for viewers: the part that the agent has received so far.
//!
//! A body is copied here only while a viewer polls it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use serde::Serialize;

use crate::sync::locked;
use baton_core::redact::Redactor;
use baton_core::transcript::{AnswerContent, AnswerPartKind};

/// Time without a poll after which a body is no longer watched.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// Maximum number of bodies watched at once. Each is bounded by `journal.response_bytes`.
const MAX_WATCHED: usize = 32;

/// A part of a response in progress. The field names are part of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LivePart {
    /// `text`, `thinking`, `call`, `error`.
    pub kind: &'static str,
    /// Tool of a call.
    pub name: Option<String>,
    /// Text so far, without the last word: a credential is recognized only once it is complete.
    pub text: String,
}

/// The bodies that are watched.
#[derive(Default)]
pub(super) struct LiveBodies {
    /// Number of watched bodies. The hot path only reads this.
    watching: AtomicUsize,
    bodies: Mutex<HashMap<Arc<str>, WatchedBody>>,
    redactor: ArcSwap<Redactor>,
}

struct WatchedBody {
    /// Bytes captured so far. `None` until the next chunk arrives.
    body: Option<Vec<u8>>,
    requested: Instant,
}

impl LiveBodies {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            redactor: ArcSwap::from_pointee(redactor),
            ..Self::default()
        }
    }

    pub(super) fn redact_by(&self, redactor: Redactor) {
        self.redactor.store(Arc::new(redactor));
    }

    /// Whether any body is watched.
    pub(super) fn is_watched(&self) -> bool {
        self.watching.load(Relaxed) > 0
    }

    /// Appends a chunk to a watched body.
    ///
    /// `so_far` returns the whole body including this chunk. It is called only for the first chunk after
    /// watching began.
    pub(super) fn push(&self, id: &str, chunk: &[u8], so_far: impl FnOnce() -> Vec<u8>) {
        if let Some(watched) = locked(&self.bodies).get_mut(id) {
            match &mut watched.body {
                Some(body) => body.extend_from_slice(chunk),
                None => watched.body = Some(so_far()),
            }
        }
    }

    /// Forgets a body that has ended, since the journal has it.
    pub(super) fn ended(&self, id: &str) {
        let mut bodies = locked(&self.bodies);
        bodies.remove(id);
        // Set under the lock, so that concurrent calls cannot leave an outdated count.
        self.watching.store(bodies.len(), Relaxed);
    }

    /// Returns the response so far, and keeps watching it.
    pub(super) fn watch(&self, id: &str, now: Instant) -> Vec<LivePart> {
        let body = {
            let mut bodies = locked(&self.bodies);
            bodies
                // The polled body stays, however long ago its last poll was.
                .retain(|known, body| **known == *id || now.duration_since(body.requested) < FORGOTTEN_AFTER);
            if bodies.len() < MAX_WATCHED || bodies.contains_key(id) {
                let watched = bodies.entry(id.into()).or_insert(WatchedBody {
                    body: None,
                    requested: now,
                });
                watched.requested = now;
            }
            self.watching.store(bodies.len(), Relaxed);
            bodies.get(id).and_then(|watched| watched.body.clone())
        };
        self.parts(&body.unwrap_or_default())
    }

    fn parts(&self, body: &[u8]) -> Vec<LivePart> {
        let (content, redactor) = (AnswerContent::from_body(body), self.redactor.load());
        let count = content.parts.len();
        let parts = content.parts.iter().enumerate().map(|(at, part)| {
            let text = part.text();
            // Only the last part is still growing.
            let shown = if at + 1 == count {
                without_last_word(&text)
            } else {
                &text
            };
            LivePart {
                kind: match part.kind {
                    AnswerPartKind::Text | AnswerPartKind::Refusal => "text",
                    AnswerPartKind::Thinking => "thinking",
                    AnswerPartKind::Call => "call",
                    AnswerPartKind::Error => "error",
                },
                name: part.name.map(|name| redactor.text(&name.get()).into_owned()),
                text: redactor.text(shown).into_owned(),
            }
        });
        parts.collect()
    }
}

fn without_last_word(text: &str) -> &str {
    text.rfind(char::is_whitespace).map_or("", |at| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Vec<u8> {
        format!("data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n").into_bytes()
    }

    fn text(parts: &[LivePart]) -> String {
        parts.iter().map(|part| part.text.as_str()).collect()
    }

    #[test]
    fn a_viewer_that_comes_late_sees_the_answer_from_its_beginning() {
        let live = LiveBodies::new(Redactor::new(&[]));
        let now = Instant::now();
        assert!(!live.is_watched());
        assert_eq!(live.watch("x", now), []);
        assert!(live.is_watched());
        let so_far = [frame("I look "), frame("at ")].concat();
        live.push("x", &frame("at "), || so_far);
        live.push("other", b"never", || unreachable!());
        assert_eq!(text(&live.watch("x", now)), "I look at");
        live.push("x", &frame("it. Then"), || unreachable!());
        assert_eq!(text(&live.watch("x", now)), "I look at it.");
        live.ended("x");
        assert!(!live.is_watched());
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten_and_credentials_are_never_shown() {
        let live = LiveBodies::new(Redactor::new(&[]));
        let now = Instant::now();
        live.watch("x", now);
        live.watch("y", now + FORGOTTEN_AFTER);
        assert_eq!(locked(&live.bodies).len(), 1);
        live.push("y", b"", || {
            [
                frame("The key is sk-ant-api03-"),
                frame("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            ]
            .concat()
        });
        let now = now + FORGOTTEN_AFTER;
        assert_eq!(
            text(&live.watch("y", now)),
            "The key is",
            "not before it is whole"
        );
        live.push("y", &frame(" indeed so"), || unreachable!());
        let shown = text(&live.watch("y", now));
        assert!(shown.contains("[redacted:") && !shown.contains("AAAA"), "{shown}");
        for n in 0..100 {
            live.watch(&n.to_string(), now);
        }
        assert_eq!(locked(&live.bodies).len(), MAX_WATCHED);
    }
}

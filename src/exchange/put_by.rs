//! What an exchange does without while its answer streams, and has again when a later leg needs it.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::answer::Exchange;
use super::prepare::Prepared;
use crate::journal::PackedHeaders;
use crate::proxy::shelf::Shelved;
use crate::rewrite::Reading;

/// What an exchange can do without while an answer streams.
pub(super) struct PutBy {
    text: Shelved,
    headers: PackedHeaders,
}

impl PutBy {
    /// The request once more, as `prepared` was made of it.
    pub(super) async fn read(self, prepared: Arc<Prepared>) -> io::Result<TakenBack> {
        let text = self.text.text().await?;
        let reading = prepared.reading.again(prepared.wire, &text);
        Ok(TakenBack {
            reading: reading.ok_or_else(|| io::Error::other("it is not what was put by"))?,
            headers: self.headers.map(),
            text,
        })
    }
}

/// A request that was put by, and is needed.
pub(super) struct TakenBack {
    text: Bytes,
    reading: Reading,
    headers: HeaderMap,
}

impl Exchange {
    /// Lets go of the request while its answer streams: a later leg needs it, and most answers have none.
    pub(super) fn put_by(&mut self) -> PutBy {
        self.raw = Bytes::new();
        Arc::make_mut(&mut self.prepared).reading.let_go();
        PutBy {
            text: self.app.shelf.put(std::mem::take(&mut self.text)),
            headers: PackedHeaders::new(&std::mem::take(&mut self.ctx.headers)),
        }
    }

    /// Has the request again.
    pub(super) fn take_back(&mut self, back: TakenBack) {
        self.text = back.text;
        self.ctx.headers = back.headers;
        Arc::make_mut(&mut self.prepared).reading = back.reading;
    }
}

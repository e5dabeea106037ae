//! The agent's parsed request: in memory until its response streams, spilled meanwhile, and read back when a later leg
//! is built from it.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::Exchange;
use crate::serve::proxy::body::RequestBody;
use crate::serve::proxy::spill::Spill;
use crate::state::journal::PackedHeaders;
use baton_core::rewrite::RequestReading;
use baton_core::wire::{View, Wire};

/// A request that was read: its body, and where in it is what. While the body is spilled only its facts are known.
#[derive(Clone)]
pub(super) struct Request {
    body: RequestBody,
    reading: RequestReading,
}

impl Request {
    /// `reading` is of the body's text.
    pub(super) fn new(body: RequestBody, reading: RequestReading) -> Self {
        Self { body, reading }
    }

    /// A transcript that was changed; the body is its text.
    pub(super) fn plain(reading: RequestReading) -> Self {
        let body = RequestBody::Plain(reading.view.body.clone());
        Self::new(body, reading)
    }

    /// The structure of the body.
    pub(super) fn reading(&self) -> &RequestReading {
        &self.reading
    }

    /// The structure, as the wires read it.
    pub(super) fn view(&self) -> &View {
        &self.reading.view
    }

    /// The plain text; nothing while it is spilled.
    pub(super) fn text(&self) -> &Bytes {
        &self.reading.view.body
    }

    /// Length of the plain text, in bytes.
    pub(super) fn len(&self) -> usize {
        self.body.len()
    }

    /// The body as it came, in place of `rope` where that is the text unchanged.
    pub(super) fn as_it_came(&self, rope: &[Bytes]) -> Option<&Bytes> {
        let [only] = rope else { return None };
        let text = self.text();
        let same = only.as_ptr() == text.as_ptr() && only.len() == text.len();
        self.body.as_it_came().filter(|_| same)
    }

    fn spill(&mut self, spill: &Spill) {
        self.reading.let_go();
        self.body.spill(spill);
    }

    async fn reclaim(&mut self, wire: &dyn Wire) -> io::Result<()> {
        self.body.reclaim().await?;
        let reading = self.body.text().and_then(|text| self.reading.again(wire, text));
        self.reading = reading.ok_or_else(|| io::Error::other("it is not what was spilled"))?;
        Ok(())
    }
}

impl Exchange {
    /// Spills the request while its response streams: only a later leg needs it, and most responses have none.
    pub(super) fn spill(&mut self) {
        Arc::make_mut(&mut self.offered)
            .agent
            .request
            .spill(&self.app.spill);
        self.spilled_headers = Some(PackedHeaders::new(&std::mem::take(&mut self.ctx.headers)));
    }

    /// Has the request again.
    ///
    /// # Errors
    /// It cannot be read back, or has changed.
    pub(super) async fn reclaim(&mut self) -> io::Result<()> {
        let Some(headers) = self.spilled_headers.take() else {
            return Ok(());
        };
        self.ctx.headers = headers.map();
        let offered = Arc::make_mut(&mut self.offered);
        offered.agent.request.reclaim(offered.agent.wire).await
    }
}

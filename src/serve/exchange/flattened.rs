//! Finds the active handoff of a summary request, whose transcript is flattened into one text. Its sentinel is in that
//! text, or after it: agents summarise the earlier part of a transcript, and keep the later one as it is.

use std::sync::Arc;

use super::active_handoff::{Active, CutPlace, MOST_CANDIDATES, PinLookup};
use crate::state::store::{HandoffFilter, StoreError};
use baton_core::record::{CutPoint, Handoff, HandoffId};
use baton_core::rewrite::flattened::{self, FlattenedTranscript, FoundSentinel};
use baton_core::text::splice::Edit;

/// Sentinels looked up in one transcript where no session is named.
const MOST_IN_TEXT: usize = 1024;

/// Sentinels that are tried as the first one of this conversation.
const MOST_FIRST: usize = 4;

/// Handoffs among which the active one of a conversation without a name is looked for, the newest ones.
const MOST_ACTIVE: usize = 32;

/// Handoffs between two that are in the transcript: their answers were left out of it.
const MOST_LEFT_OUT: usize = 8;

/// A sentinel in the text, and its handoff.
struct Resolved {
    found: FoundSentinel,
    handoff: Arc<Handoff>,
}

impl PinLookup<'_> {
    /// The handoff at which a transcript is cut that was flattened for a summary. That is the conversation's active one
    /// where all of the text lies before it, else the last one in the text. `key`: the conversation's, where the agent
    /// named its session.
    pub(super) async fn flattened(&self, key: Option<&str>) -> Result<Option<Active>, StoreError> {
        let Some(flat) = flattened::find(&self.reading.view) else {
            return Ok(None);
        };
        let sentinels = flat.sentinels();
        let lookup = FlattenedLookup {
            request: *self,
            flat: &flat,
        };
        let found = match key {
            Some(key) => lookup.newest_of(sentinels, key).await?,
            None => lookup.last_in_line(sentinels).await?,
        };
        if let Some(handoff) = lookup.active_after(found.as_ref(), key).await? {
            let edits = flat.cut_whole(&handoff.prompt);
            return Ok(Some(pinned(&handoff, edits)));
        }
        Ok(found.map(|Resolved { found, handoff }| {
            let edits = flat.cut(&found, &handoff.prompt);
            pinned(&handoff, edits)
        }))
    }
}

fn pinned(handoff: &Handoff, edits: Vec<Edit>) -> Active {
    Active {
        id: handoff.id,
        prompt: handoff.prompt.clone(),
        head: handoff.head.clone(),
        spelled_out: true,
        // A summary is no request of the loop's: it calls nothing.
        recall: false,
        // It goes to the model that it names.
        routed: None,
        place: CutPlace::Text(edits),
    }
}

/// A flattened transcript whose handoffs are looked up.
struct FlattenedLookup<'a> {
    request: PinLookup<'a>,
    flat: &'a FlattenedTranscript<'a>,
}

impl FlattenedLookup<'_> {
    /// The newest handoff of a named session, where it is first: ids sort by time, so what is quoted after it is older
    /// or the same.
    async fn newest_of(
        &self,
        mut all: Vec<FoundSentinel>,
        key: &str,
    ) -> Result<Option<Resolved>, StoreError> {
        all.sort_by_key(|f| std::cmp::Reverse(f.id));
        all.dedup_by_key(|f| f.id);
        for found in all.into_iter().take(MOST_CANDIDATES) {
            let handoff = self.request.handoff(found.id).await?;
            if let Some(handoff) = handoff.filter(|h| h.conversation == key) {
                return Ok(Some(Resolved { found, handoff }));
            }
        }
        Ok(None)
    }

    /// Without a name, the transcript in front of the first sentinel must be the one that its handoff was made in. Each later
    /// handoff must have followed from the one before.
    async fn last_in_line(&self, sentinels: Vec<FoundSentinel>) -> Result<Option<Resolved>, StoreError> {
        let mut last: Option<Resolved> = None;
        let mut tries = 0;
        for found in sentinels.into_iter().take(MOST_IN_TEXT) {
            let Some(handoff) = self.request.handoff(found.id).await? else {
                continue;
            };
            let ours = match &last {
                // Or after one that was left out of the transcript there.
                Some(before) => self.line(handoff.id, Some(before.handoff.id)).await?.is_some(),
                None if tries < MOST_FIRST => {
                    tries += 1;
                    let points = self.cut_points(&[found.id]).await?;
                    points.iter().any(|p| self.flat.leads_up_to(&found, &p.texts))
                }
                None => break,
            };
            if ours {
                last = Some(Resolved { found, handoff });
            }
        }
        Ok(last)
    }

    /// The active handoff of the conversation, where all of the text (or all of it after `found`) is older than that
    /// handoff. Its sentinel then is in what the agent keeps, and the text is of finished work.
    async fn active_after(
        &self,
        found: Option<&Resolved>,
        key: Option<&str>,
    ) -> Result<Option<Arc<Handoff>>, StoreError> {
        let until = found.map(|f| f.handoff.id);
        let candidates = match key.or(found.map(|f| &*f.handoff.conversation)) {
            Some(key) => self.active_of(key).await?.into_iter().collect(),
            None => self.newest_active().await?,
        };
        for id in candidates.into_iter().filter(|id| Some(*id) != until) {
            let Some(line) = self.line(id, until).await? else {
                continue;
            };
            let ids: Vec<HandoffId> = line.iter().map(|handoff| handoff.id).collect();
            let points = self.cut_points(&ids).await?;
            let texts: Vec<u32> = points.iter().flat_map(|p| &p.texts).copied().collect();
            if self.flat.lies_before(found.map(|f| &f.found), &texts) {
                return Ok(line.into_iter().next());
            }
        }
        Ok(None)
    }

    /// The newest handoffs that are active in their conversations.
    async fn newest_active(&self) -> Result<Vec<HandoffId>, StoreError> {
        let filter = HandoffFilter {
            principal: Some(self.request.ctx.principal.clone()),
            archived: true,
            limit: MOST_ACTIVE,
            ..HandoffFilter::default()
        };
        let mut active = Vec::new();
        for handoff in self.request.app.sessions.store().handoffs(&filter).await? {
            if self.active_of(&handoff.conversation).await? == Some(handoff.id) {
                active.push(handoff.id);
            }
        }
        Ok(active)
    }

    /// The handoff that the conversation's newest request was pinned to.
    async fn active_of(&self, key: &str) -> Result<Option<HandoffId>, StoreError> {
        let now_ms = self.request.app.clock.now_ms();
        let live = self
            .request
            .app
            .sessions
            .open(key, &self.request.ctx.principal, now_ms)
            .await?;
        Ok(live.active())
    }

    /// A handoff and those that it followed from, newest first; those after `until`, where one is named, and `None` where it did
    /// not follow from that.
    async fn line(
        &self,
        id: HandoffId,
        until: Option<HandoffId>,
    ) -> Result<Option<Vec<Arc<Handoff>>>, StoreError> {
        let mut line = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next.filter(|id| line.len() < MOST_LEFT_OUT && Some(*id) != until) {
            let Some(handoff) = self.request.handoff(id).await? else {
                break;
            };
            next = handoff.parent;
            line.push(handoff);
        }
        let is_whole = until.is_none() || next == until;
        Ok(Some(line).filter(|line| is_whole && !line.is_empty()))
    }

    async fn cut_points(&self, handoffs: &[HandoffId]) -> Result<Vec<CutPoint>, StoreError> {
        let store = self.request.app.sessions.store();
        store.cut_points(&self.request.ctx.principal, handoffs).await
    }
}

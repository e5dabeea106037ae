//! The cache of a conversation's records outside of its transcript: hidden pairs, cut points and insertions
//! after turns.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::live::{LiveState, NewRecords};
use super::record_list::RecordList;
use super::{LiveConversation, NO_RECORDS, Sessions};
use crate::store::StoreResult;
use crate::store::records::{Lookup, Placed, PlacedRecord};
use baton_core::record::{CutPoint, HiddenPair, Insertion, RecordChange};

impl Sessions {
    /// Writes hidden pairs made since the last cut, atomically.
    ///
    /// While the store cannot be written, a few wait in memory for the next write of the conversation.
    ///
    /// # Errors
    /// Returns an error if the pairs are neither written nor kept. No marker of them may be shown then.
    pub async fn add_pairs(
        &self,
        live: &Arc<LiveConversation>,
        pairs: Vec<HiddenPair>,
        now_ms: u64,
    ) -> StoreResult<()> {
        if pairs.is_empty() {
            return Ok(());
        }
        let change = RecordChange::Paired(pairs.iter().map(|pair| pair.id).collect());
        let new = NewRecords::Pairs(pairs.iter().cloned().map(Arc::new).collect());
        let record = |pair| PlacedRecord::Pair(Box::new(pair)).into();
        let records = pairs.into_iter().map(record);
        let records = ("write hidden pairs", records.collect());
        self.write(live, records, change, new, now_ms).await.map(drop)
    }

    /// Returns the records of a list, oldest first, and the listed ids.
    ///
    /// Reads the store at most once a day, and not at all if the list is empty.
    async fn listed<T: Placed>(
        &self,
        live: &LiveConversation,
        list: fn(&mut LiveState) -> (&mut RecordList<T>, &[Uuid]),
        now_ms: u64,
    ) -> StoreResult<(Vec<Arc<T>>, Vec<Uuid>)> {
        let ids = {
            let mut state = live.state();
            let (listed, ids) = list(&mut state);
            if let Some(all) = listed.known(now_ms) {
                return Ok((all.to_vec(), ids.to_vec()));
            }
            ids.to_vec()
        };
        // Read without the lock, which other requests of the conversation need meanwhile.
        let found = self.store.placed(live.principal(), Lookup::Ids(&ids)).await?;
        let found: Vec<_> = found.into_iter().map(Arc::new).collect();
        let mut state = live.state();
        let (listed, present) = list(&mut state);
        // Records may have been added or cut meanwhile. Then the next call reads again.
        if present == ids {
            listed.read(found.clone(), now_ms);
        }
        Ok((found, ids))
    }

    /// Returns the hidden pairs made since the last cut.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn pairs_of(&self, live: &LiveConversation, now_ms: u64) -> StoreResult<Vec<Arc<HiddenPair>>> {
        let listed = self.listed(live, |state| (&mut state.pairs, &state.record.pairs), now_ms);
        Ok(listed.await?.0)
    }

    /// Returns the cut points of the conversation's handoffs that the agent may have omitted.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn left_out(&self, live: &LiveConversation, now_ms: u64) -> StoreResult<Vec<Arc<CutPoint>>> {
        let listed = self.listed(
            live,
            |state| (&mut state.left_out, &state.record.left_out),
            now_ms,
        );
        Ok(listed.await?.0)
    }

    /// Adopts a cut point of the conversation that this one was forked from. Durable.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub async fn take_over(
        &self,
        live: &Arc<LiveConversation>,
        point: CutPoint,
        now_ms: u64,
    ) -> StoreResult<()> {
        // Only the id is listed here. The record itself stays with the other conversation.
        let change = RecordChange::LeftOut(point.handoff);
        let new = NewRecords::LeftOut(vec![Arc::new(point)]);
        self.write(live, NO_RECORDS, change, new, now_ms).await.map(drop)
    }

    /// Writes an insertion. Durable: once this returns, it may be sent.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written. The insertion must not be sent then.
    pub async fn insert(
        &self,
        live: &Arc<LiveConversation>,
        insertion: Insertion,
        now_ms: u64,
    ) -> StoreResult<()> {
        let change = RecordChange::Inserted(vec![insertion.id]);
        let new = NewRecords::Insertions(vec![Arc::new(insertion.clone())]);
        let record = PlacedRecord::Insertion(insertion).into();
        let records = ("write an insertion", vec![record]);
        self.write(live, records, change, new, now_ms).await.map(drop)
    }

    /// Adopts insertions of the conversation that this one was forked from, if their anchors are in the
    /// transcript. Durable.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub async fn take_over_insertions(
        &self,
        live: &Arc<LiveConversation>,
        found: Vec<Insertion>,
        now_ms: u64,
    ) -> StoreResult<()> {
        if found.is_empty() {
            return Ok(());
        }
        let change = RecordChange::Inserted(found.iter().map(|insertion| insertion.id).collect());
        let new = NewRecords::Insertions(found.into_iter().map(Arc::new).collect());
        self.write(live, NO_RECORDS, change, new, now_ms).await.map(drop)
    }

    /// Returns the conversation's insertions, and the listed ids that the store has lost.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn insertions_of(
        &self,
        live: &LiveConversation,
        now_ms: u64,
    ) -> StoreResult<(Vec<Arc<Insertion>>, Vec<Uuid>)> {
        let listed = self.listed(
            live,
            |state| (&mut state.insertions, &state.record.insertions),
            now_ms,
        );
        let (found, mut missing) = listed.await?;
        let known: HashSet<Uuid> = found.iter().map(|insertion| insertion.id).collect();
        missing.retain(|id| !known.contains(id));
        Ok((found, missing))
    }
}

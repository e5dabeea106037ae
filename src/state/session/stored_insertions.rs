//! The cache of a conversation's records besides its transcript: hidden pairs, cut points and texts after
//! turns.

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
    /// Writes hidden pairs as made since the last cut. Durable, all or nothing.
    ///
    /// # Errors
    /// The store cannot be written: no mark of the pairs may be shown.
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
        let records = pairs
            .into_iter()
            .map(|pair| PlacedRecord::Pair(Box::new(pair)).into());
        let records = ("write hidden pairs", records.collect());
        self.write(live, records, change, new, now_ms).await.map(drop)
    }

    /// The records of a list, oldest first, and the ids that are listed. Asks the store once a day at most, and not at all
    /// where there is none.
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
        let found = self.store.placed(live.principal(), Lookup::Ids(&ids)).await?;
        let found: Vec<_> = found.into_iter().map(Arc::new).collect();
        let mut state = live.state();
        let (listed, present) = list(&mut state);
        // Others may have been added or cut meanwhile: then the next call reads again.
        if present == ids {
            listed.read(found.clone(), now_ms);
        }
        Ok((found, ids))
    }

    /// The hidden pairs made since the last cut.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn pairs_of(&self, live: &LiveConversation, now_ms: u64) -> StoreResult<Vec<Arc<HiddenPair>>> {
        let listed = self.listed(live, |state| (&mut state.pairs, &state.record.pairs), now_ms);
        Ok(listed.await?.0)
    }

    /// The cut points of the conversation's handoffs that the agent may have left out.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn left_out(&self, live: &LiveConversation, now_ms: u64) -> StoreResult<Vec<Arc<CutPoint>>> {
        let listed = self.listed(
            live,
            |state| (&mut state.left_out, &state.record.left_out),
            now_ms,
        );
        Ok(listed.await?.0)
    }

    /// Takes over a cut point of the conversation that this one was copied from. Durable.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn take_over(
        &self,
        live: &Arc<LiveConversation>,
        point: CutPoint,
        now_ms: u64,
    ) -> StoreResult<()> {
        let change = RecordChange::LeftOut(point.handoff);
        let new = NewRecords::LeftOut(vec![Arc::new(point)]);
        self.write(live, NO_RECORDS, change, new, now_ms).await.map(drop)
    }

    /// Writes an insertion. Durable: when this has returned, it may be sent.
    ///
    /// # Errors
    /// The store cannot be written: the insertion must not be sent.
    pub async fn insert(
        &self,
        live: &Arc<LiveConversation>,
        insertion: Insertion,
        now_ms: u64,
    ) -> StoreResult<()> {
        let change = RecordChange::Inserted(vec![insertion.id]);
        let new = NewRecords::Insertions(vec![Arc::new(insertion.clone())]);
        let records = (
            "write an insertion",
            vec![PlacedRecord::Insertion(insertion).into()],
        );
        self.write(live, records, change, new, now_ms).await.map(drop)
    }

    /// Takes over insertions of the conversation that this one was copied from, where they have their place. Durable.
    ///
    /// # Errors
    /// The store cannot be written.
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

    /// The conversation's insertions, and the ids of those that its record lists and the store has lost.
    ///
    /// # Errors
    /// The store cannot be read.
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

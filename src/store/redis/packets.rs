//! Packets: a hash for each, an index by time, and one of those that are active by what they are about.

use redis::Pipeline;
use serde::{Deserialize, Serialize};

use super::link::{Durable, Request};
use super::scripts::Script;
use super::{PAGE, Shared, from_json, strange, texts};
use crate::record::{HandoffId, PacketRecord, PacketStatus};
use crate::store::{PacketFilter, StoreError, foreign};

/// A packet without what stands in fields of its own.
#[derive(Serialize, Deserialize)]
struct Stored {
    handoff: HandoffId,
    repository: String,
    branch: String,
    topic: String,
    created_ms: u64,
    folder: String,
    document: String,
}

impl Shared {
    /// Writes a packet; returns the handoffs of those that it superseded.
    pub(super) async fn put_packet(&self, packet: &PacketRecord) -> Result<Vec<HandoffId>, StoreError> {
        let what = "write a packet";
        let stored = Stored {
            handoff: packet.handoff,
            repository: packet.repository.clone(),
            branch: packet.branch.clone(),
            topic: packet.topic.clone(),
            created_ms: packet.created_ms,
            folder: packet.folder.clone(),
            document: packet.document.clone(),
        };
        let record = serde_json::to_string(&stored).map_err(|error| StoreError {
            message: format!("{what}: {error}"),
        })?;
        let about = [
            &packet.principal,
            &packet.repository,
            &packet.branch,
            &packet.topic,
        ];
        let about = about.map(|part| part.replace('\0', " ")).join("\0");
        let args = [
            self.prefix.clone(),
            packet.handoff.to_string(),
            packet.principal.clone(),
            packet.status.name().to_owned(),
            about,
            record,
            packet.created_ms.to_string(),
        ];
        let args = args.map(String::into_bytes).into();
        let request = Request::Script(self.call(Script::Packet, args), Durable::Yes);
        let answer = self.writer().send(what, &request).await?;
        let mut answer = texts(answer.into_iter().next().unwrap_or_default())?.into_iter();
        match answer.next().as_deref() {
            Some("written") => Ok(answer.filter_map(|id| id.parse().ok()).collect()),
            Some("foreign") => Err(foreign(what)),
            _ => Err(strange(what)),
        }
    }

    /// The packets that are wanted, newest first.
    pub(super) async fn packets(&self, filter: &PacketFilter) -> Result<Vec<PacketRecord>, StoreError> {
        let what = "list packets";
        let mut found = Vec::new();
        for from in (0..).step_by(PAGE) {
            let ids = match &filter.handoff {
                Some(id) => vec![id.to_string()],
                None => {
                    let mut pipe = Pipeline::new();
                    let key = format!("{}packets", self.prefix);
                    pipe.cmd("ZREVRANGE").arg(&key).arg(from).arg(from + PAGE - 1);
                    texts(self.ask(what, pipe).await?.into_iter().next().unwrap_or_default())?
                }
            };
            let mut pipe = Pipeline::new();
            for id in &ids {
                let key = format!("{}packet:{id}", self.prefix);
                pipe.cmd("HMGET").arg(key).arg("o").arg("s").arg("r");
            }
            if !ids.is_empty() {
                for values in self.ask(what, pipe).await? {
                    found.extend(read(values)?.filter(|packet| filter.wants(packet)));
                }
            }
            let enough = filter.limit > 0 && found.len() >= filter.limit;
            if ids.len() < PAGE || enough || filter.handoff.is_some() {
                break;
            }
        }
        found.sort_by_key(|packet| std::cmp::Reverse((packet.created_ms, packet.handoff)));
        if filter.limit > 0 {
            found.truncate(filter.limit);
        }
        if filter.without_documents {
            found.iter_mut().for_each(|packet| packet.document.clear());
        }
        Ok(found)
    }

    /// Gives a packet another status; `None` for an unknown id.
    pub(super) async fn set_packet_status(
        &self,
        principal: &str,
        id: HandoffId,
        status: PacketStatus,
    ) -> Result<Option<Vec<HandoffId>>, StoreError> {
        let one = PacketFilter {
            principal: Some(principal.to_owned()),
            handoff: Some(id),
            ..PacketFilter::default()
        };
        match self.packets(&one).await?.pop() {
            Some(packet) => self
                .put_packet(&PacketRecord { status, ..packet })
                .await
                .map(Some),
            None => Ok(None),
        }
    }
}

/// A packet from its fields; `None` where there is none.
fn read(values: redis::Value) -> Result<Option<PacketRecord>, StoreError> {
    if let redis::Value::Array(values) = &values
        && values.contains(&redis::Value::Nil)
    {
        return Ok(None);
    }
    let Ok([principal, status, record]) = <[String; 3]>::try_from(texts(values)?) else {
        return Ok(None);
    };
    let stored: Stored = from_json(&record)?;
    Ok(Some(PacketRecord {
        handoff: stored.handoff,
        principal,
        repository: stored.repository,
        branch: stored.branch,
        topic: stored.topic,
        status: PacketStatus::named(&status).unwrap_or(PacketStatus::Superseded),
        created_ms: stored.created_ms,
        folder: stored.folder,
        document: stored.document,
    }))
}

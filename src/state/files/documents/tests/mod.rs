mod age;
mod hanging;
mod killed;
mod place;

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::value::{DocumentSettings, StoredHandoff};
use crate::store::SharedStore;
use crate::store::sqlite::SqliteStore;
use baton_core::handoffs::document::HandoffSize;
use baton_core::nudge::Windows;
use baton_core::record::{Handoff, HandoffId};

pub(super) fn settings(dir: &Path) -> DocumentSettings {
    DocumentSettings {
        dir: dir.join("handoffs"),
        state_dir: dir.join("state"),
        windows: Windows::default(),
        limit: std::time::Duration::from_secs(45),
        git_dir: None,
        topic: Some("importer".to_owned()),
        archive_after: None,
        keep_files: 50,
        reading: baton_core::work::DraftIndexSettings::default(),
    }
}

pub(super) fn store(dir: &Path) -> SharedStore {
    Arc::new(SqliteStore::open(&dir.join("state")).unwrap())
}

pub(super) fn handoff(n: u128, created_ms: u64) -> Handoff {
    Handoff {
        id: Uuid::from_u128(0x0199_a3c2_7d1e_7c3a_9b1f_2f6f_0000_0000 + n),
        principal: "local".into(),
        conversation: "c0ffee".into(),
        prompt: format!("Goal: task {n}.\nNext: step {n}."),
        parent: (n > 1).then(|| id(n - 1)),
        created_ms,
        ..Handoff::default()
    }
}

pub(super) fn id(n: u128) -> HandoffId {
    Uuid::from_u128(0x0199_a3c2_7d1e_7c3a_9b1f_2f6f_0000_0000 + n)
}

pub(super) fn stored(n: u128, created_ms: u64) -> StoredHandoff {
    let body =
        json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": format!("Do {n}.")}]});
    StoredHandoff {
        handoff: handoff(n, created_ms),
        carry_over: None,
        exchange: None,
        run: None,
        topic: None,
        context_tokens: None,
        bytes: HandoffSize::default(),
        transcript: Box::new(move || Some(body.to_string().into())),
    }
}

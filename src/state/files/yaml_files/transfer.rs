//! Moves reservations of files from one agent to another, or leaves them where they were.
//!
//! ```text
//! release for the old agent ─► reserve for the new one ─► done
//!                                │ conflict: give back what was granted, wait, try once more
//!                                └ still, any other error, or cancelled: give back, reserve for the old agent
//! ```
//! The clean-up after a failure has a deadline of its own, so that neither a hanging server nor a person's Ctrl-C
//! leaves the files reserved for nobody.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::agent_mail::{AgentMail, MailError};
use baton_core::handoffs::yaml::{ReservationSnapshot, ReservationTransfer};

/// For how long files are reserved anew.
const TTL_SECONDS: i64 = 900;

/// Pause before the second try, in which a release spreads.
const GRACE: Duration = Duration::from_secs(2);

/// Time to put things back.
const CLEAN_UP: Duration = Duration::from_secs(10);

/// A path that another agent has reserved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReservationConflict {
    /// The path or glob.
    pub path: String,
    /// The agents that have reserved it.
    pub holders: Vec<String>,
}

/// The result of a transfer. The names are API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TransferOutcome {
    /// The agent that had reserved the files.
    pub from_agent: String,
    /// The agent that receives them.
    pub to_agent: String,
    /// The requested paths, each once, sorted.
    pub requested_paths: Vec<String>,
    /// Paths that the new agent has reserved now.
    pub granted_paths: Vec<String>,
    /// Paths that the old agent released, at least for a while.
    pub released_paths: Vec<String>,
    /// Reservations of other agents.
    pub conflicts: Vec<ReservationConflict>,
    /// Whether the old agent holds its files again.
    pub rolled_back: bool,
    /// Whether the new agent holds all of them.
    pub success: bool,
    /// Why not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// The paths of a transfer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TransferPaths {
    exclusive: Vec<String>,
    shared: Vec<String>,
    all: Vec<String>,
}

impl TransferPaths {
    /// Each path once, sorted; one that is exclusive anywhere is exclusive.
    fn of(reservations: &[ReservationSnapshot]) -> Self {
        let mut all: BTreeMap<&str, bool> = BTreeMap::new();
        for one in reservations.iter().filter(|one| !one.path_pattern.is_empty()) {
            *all.entry(&one.path_pattern).or_default() |= one.exclusive;
        }
        let those = |exclusive: bool| {
            let paths = all.iter().filter(|(_, is)| **is == exclusive);
            paths.map(|(path, _)| (*path).to_owned()).collect()
        };
        Self {
            exclusive: those(true),
            shared: those(false),
            all: all.keys().map(|path| (*path).to_owned()).collect(),
        }
    }
}

/// The result of reserving.
#[derive(Default)]
struct ReservationGrant {
    granted: Vec<String>,
    conflicts: Vec<ReservationConflict>,
    error: Option<MailError>,
}

impl ReservationGrant {
    fn is_complete(&self) -> bool {
        self.conflicts.is_empty() && self.error.is_none()
    }
}

/// A transfer on its way.
struct Transfer<'t> {
    mail: &'t AgentMail,
    project: &'t str,
    from: &'t str,
    to: &'t str,
    ttl: i64,
    grace: Duration,
    paths: TransferPaths,
}

/// Transfers the reservations of a file to another agent. `cancelled` ends when the person gives up; then, too, the old
/// agent gets its files back.
pub async fn transfer(
    mail: &AgentMail,
    requested: &ReservationTransfer,
    to: &str,
    cancelled: impl Future<Output = ()>,
) -> TransferOutcome {
    let paths = TransferPaths::of(&requested.reservations);
    let mut outcome = TransferOutcome {
        from_agent: requested.from_agent.clone(),
        to_agent: to.to_owned(),
        requested_paths: paths.all.clone(),
        ..TransferOutcome::default()
    };
    if requested.project_key.is_empty() {
        return failed(
            outcome,
            "the file names no project (reservation_transfer.project_key)",
        );
    }
    if requested.from_agent.is_empty() || to.is_empty() {
        return failed(
            outcome,
            "both agents need a name (reservation_transfer.from_agent, --to)",
        );
    }
    if paths.all.is_empty() {
        outcome.success = true;
        return outcome;
    }
    let seconds = |given: i64, default: i64| if given > 0 { given } else { default };
    let grace = u64::try_from(requested.grace_period_seconds).unwrap_or_default();
    let transfer = Transfer {
        mail,
        project: &requested.project_key,
        from: &requested.from_agent,
        to,
        ttl: seconds(requested.ttl_seconds, TTL_SECONDS),
        grace: if grace > 0 {
            Duration::from_secs(grace)
        } else {
            GRACE
        },
        paths,
    };
    match transfer.from == transfer.to {
        true => transfer.renew(outcome).await,
        false => transfer.run(outcome, cancelled).await,
    }
}

fn failed(mut outcome: TransferOutcome, error: impl Into<String>) -> TransferOutcome {
    outcome.error = error.into();
    outcome
}

impl Transfer<'_> {
    /// The same agent goes on: its reservations last longer.
    async fn renew(&self, mut outcome: TransferOutcome) -> TransferOutcome {
        let arguments = json!({
            "project_key": self.project,
            "agent_name": self.to,
            "extend_seconds": self.ttl,
            "paths": self.paths.all,
        });
        let answer = match self.mail.call("renew_file_reservations", arguments).await {
            Ok(answer) => answer,
            Err(error) => return failed(outcome, error.message),
        };
        let renewed = count(&answer, "renewed");
        let requested = self.paths.all.len();
        if renewed < requested {
            return failed(
                outcome,
                format!("{renewed} of {requested} reservations were renewed"),
            );
        }
        outcome.granted_paths.clone_from(&self.paths.all);
        outcome.success = true;
        outcome
    }

    async fn run(
        &self,
        mut outcome: TransferOutcome,
        cancelled: impl Future<Output = ()>,
    ) -> TransferOutcome {
        // What was granted so far is noted there, so that it is known when the work is cut off.
        let granted = std::sync::Mutex::new(Vec::new());
        let released = std::sync::Mutex::new(false);
        let work = self.work(&granted, &released);
        let ended = tokio::select! {
            ended = work => ended,
            () = cancelled => Err((MailError::new("cancelled"), Vec::new())),
        };
        let granted = granted.into_inner().unwrap_or_default();
        let was_released = released.into_inner().unwrap_or_default();
        if was_released {
            outcome.released_paths.clone_from(&self.paths.all);
        }
        match ended {
            Ok(()) => {
                outcome.granted_paths = granted;
                outcome.success = true;
                outcome
            }
            Err((error, conflicts)) => {
                outcome.conflicts = conflicts;
                // A release that failed may have gone through all the same.
                outcome.rolled_back = self.put_back(&granted).await;
                failed(outcome, error.message)
            }
        }
    }

    async fn work(
        &self,
        granted: &std::sync::Mutex<Vec<String>>,
        released: &std::sync::Mutex<bool>,
    ) -> Result<(), (MailError, Vec<ReservationConflict>)> {
        let note = |paths: Vec<String>| {
            if let Ok(mut granted) = granted.lock() {
                *granted = paths;
            }
        };
        let count = self
            .release(self.from, &self.paths.all)
            .await
            .map_err(|error| (error, Vec::new()))?;
        let requested = self.paths.all.len();
        if count < requested {
            let message = format!("{count} of {requested} reservations were released");
            return Err((MailError::new(message), Vec::new()));
        }
        if let Ok(mut released) = released.lock() {
            *released = true;
        }
        let mut grant = self.reserve(self.to, &note).await;
        if grant.error.is_none() && !grant.conflicts.is_empty() {
            // What was granted so far must not stand in the way of whoever waits for it.
            let _ = self.release(self.to, &grant.granted).await;
            note(Vec::new());
            tokio::time::sleep(self.grace).await;
            grant = self.reserve(self.to, &note).await;
        }
        if grant.is_complete() && grant.granted.len() < requested {
            let message = format!("{} of {requested} paths were granted", grant.granted.len());
            grant.error = Some(MailError::new(message));
        }
        if grant.is_complete() {
            return Ok(());
        }
        let conflicts = grant.conflicts.len();
        let error = grant
            .error
            .unwrap_or_else(|| MailError::new(format!("{conflicts} paths are reserved by others")));
        Err((error, grant.conflicts))
    }

    /// Gives back what the new agent got, and reserves everything for the old one.
    async fn put_back(&self, granted: &[String]) -> bool {
        let work = async {
            if !granted.is_empty() {
                let _ = self.release(self.to, granted).await;
            }
            let grant = self.reserve(self.from, &|_| {}).await;
            // Reservations are advice: one is granted beside another holder's, and the conflict is reported. It was
            // there before.
            let has = |path: &String| grant.granted.contains(path);
            grant.error.is_none() && self.paths.all.iter().all(has)
        };
        tokio::time::timeout(CLEAN_UP, work).await.unwrap_or(false)
    }

    /// Releases paths of an agent; returns how many reservations that were.
    async fn release(&self, agent: &str, paths: &[String]) -> Result<usize, MailError> {
        if paths.is_empty() {
            return Ok(0);
        }
        let arguments = json!({"project_key": self.project, "agent_name": agent, "paths": paths});
        let answer = self.mail.call("release_file_reservations", arguments).await?;
        Ok(count(&answer, "released"))
    }

    /// Reserves everything for an agent: exclusive paths first, then shared ones.
    async fn reserve(&self, agent: &str, note: &impl Fn(Vec<String>)) -> ReservationGrant {
        let mut all = ReservationGrant::default();
        for (paths, exclusive) in [(&self.paths.exclusive, true), (&self.paths.shared, false)] {
            if paths.is_empty() || all.error.is_some() {
                continue;
            }
            let arguments = json!({
                "project_key": self.project,
                "agent_name": agent,
                "paths": paths,
                "ttl_seconds": self.ttl,
                // Left out, it is exclusive.
                "exclusive": exclusive,
                "reason": format!("handoff transfer from {}", self.from),
            });
            // Whoever cuts this off, or gets no answer, does not know what was granted: it may be all of it.
            note(all.granted.iter().chain(paths).cloned().collect());
            match self.mail.call("file_reservation_paths", arguments).await {
                Ok(answer) => {
                    all.granted.extend(granted(&answer));
                    all.conflicts.extend(conflicts(&answer));
                    note(all.granted.clone());
                }
                Err(error) => all.error = Some(error),
            }
        }
        all
    }
}

fn count(answer: &Value, name: &str) -> usize {
    let number = answer.get(name).and_then(Value::as_u64).unwrap_or_default();
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    let list = value.get(key).and_then(Value::as_array);
    let text = |item: &Value| {
        let names = ["agent", "agent_name", "path_pattern", "path"];
        let named = || names.iter().find_map(|name| item.get(*name)?.as_str());
        item.as_str().or_else(named).map(str::to_owned)
    };
    list.into_iter().flatten().filter_map(text).collect()
}

fn granted(answer: &Value) -> Vec<String> {
    texts(answer, "granted")
}

fn conflicts(answer: &Value) -> Vec<ReservationConflict> {
    let list = answer.get("conflicts").and_then(Value::as_array);
    let conflict = |item: &Value| ReservationConflict {
        path: item
            .get("path")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        holders: texts(item, "holders"),
    };
    list.into_iter().flatten().map(conflict).collect()
}

//! `baton handoffs undo`: requests that a handoff be undone with the next request of its conversation. A running proxy
//! that keeps its conversations in memory is called over its admin listener; else the store is written.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde_json::{Value, json};

use super::lookup::only_stored;
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::load_state;
use crate::cli::output::{Out, visible};
use crate::cli::resume_args::UndoArgs;
use crate::cli::running::{self, Process, RunState};
use crate::cli::stored::{open, unanswered, wanted};
use crate::state::clock::now_ms;
use crate::state::config::{Config, Secret, StoreKind};
use crate::state::session::{Sessions, UndoRefused};
use baton_core::record::{PendingUndo, UndoAnswer};

/// How long the running proxy may take.
const TIME: Duration = Duration::from_secs(10);

/// Bytes of its answer.
const ANSWER_BYTES: usize = 64 << 10;

/// The output of `--json`. The names are API.
#[derive(Serialize)]
struct UndoOutput {
    handoff: String,
    /// `undone`, `taken_back`: with the next request; `withdrawn`: nothing is pending any more.
    #[serde(rename = "asked")]
    result: &'static str,
}

pub(super) async fn run(args: &UndoArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let config = load_state(&args.state)?;
    let running = match (config.store.kind, running::find(&config.state_dir)) {
        // Every process reads the store with each request.
        (StoreKind::Redis, _) => None,
        (_, RunState::Running(Some(process))) => Some(process),
        (_, RunState::Running(None)) => {
            let message = "a proxy is starting on this state directory";
            return Err(Exit::UNAVAILABLE.failure(message).help("try again in a moment"));
        }
        _ => None,
    };
    let (id, answer) = match &running {
        // A store in memory is accessible only to its proxy.
        Some(process) if config.store.kind == StoreKind::Memory => {
            (args.id.clone(), by_proxy(&config, process, &args.id, args).await?)
        }
        _ => {
            let store = open(&config)?;
            let handoff = wanted(&store, &args.id).await;
            let handoff = handoff.map_err(|failure| only_stored(&config, &args.id, "undone", failure))?;
            let id = handoff.id.to_string();
            let answer = match &running {
                Some(process) => by_proxy(&config, process, &id, args).await?,
                None => {
                    let sessions = Sessions::new(Arc::clone(&store), 1);
                    let key = args.conversation.as_deref();
                    let request = sessions.request_undo(&handoff, key, &config.handoff.windows, now_ms());
                    request.await.map_err(unanswered)?.map_err(|why| refused(&why))?
                }
            };
            (id, answer)
        }
    };
    let result = match answer {
        UndoAnswer::Requested(PendingUndo { undone: true, .. }) => "undone",
        UndoAnswer::Requested(_) => "taken_back",
        UndoAnswer::Withdrawn(_) | UndoAnswer::NotActive { .. } => "withdrawn",
    };
    if args.json {
        return Ok(out.json(&UndoOutput { handoff: id, result })?);
    }
    let message = match result {
        "undone" => {
            "with the next request of its conversation, the model sees what it saw before this handoff. The answer to that request reports it"
        }
        "taken_back" => {
            "with the next request of its conversation, the undo is reverted. The answer to that request reports it"
        }
        _ => "the earlier request is withdrawn; nothing changes",
    };
    Ok(out.line(format_args!("{}: {message}.", visible(&id)))?)
}

fn refused(why: &UndoRefused) -> CommandFailure {
    let failure = Exit::NO_INPUT.failure(why.to_string());
    match why {
        UndoRefused::UnknownConversation => failure.help("`baton log` shows the keys of conversations"),
        UndoRefused::NotActive { .. } => failure.help(
            "`baton handoffs show ID` shows its chain. Where it was resumed in another conversation: --conversation KEY",
        ),
        UndoRefused::OverWindow { .. } => failure.help("`baton handoffs resume ID --with AGENT` continues from it in a new session"),
    }
}

/// Sends the undo to the running proxy.
async fn by_proxy(
    config: &Config,
    process: &Process,
    id: &str,
    args: &UndoArgs,
) -> Result<UndoAnswer, CommandFailure> {
    let unreachable = |why: String| {
        let message = format!(
            "the running proxy (process {}) does not answer at {}: {why}",
            process.pid, process.admin
        );
        Exit::UNAVAILABLE.failure(message)
    };
    let posted = tokio::time::timeout(TIME, post(config, process, id, args)).await;
    let (status, answer) = match posted {
        Ok(Ok(answer)) => answer,
        Ok(Err(why)) => return Err(unreachable(why)),
        Err(_) => return Err(unreachable("it takes too long".to_owned())),
    };
    if status.is_success() {
        let undo = answer["undo"].clone();
        // Nothing is pending now, whatever was pending before.
        let none = PendingUndo {
            handoff: uuid::Uuid::nil(),
            undone: false,
            at_ms: 0,
        };
        return Ok(match serde_json::from_value::<PendingUndo>(undo) {
            Ok(undo) => UndoAnswer::Requested(undo),
            Err(_) => UndoAnswer::Withdrawn(none),
        });
    }
    let message = answer.pointer("/error/message").and_then(Value::as_str);
    let message = message.map_or_else(|| format!("the running proxy answered {status}"), visible);
    Err(Exit::NO_INPUT.failure(message))
}

async fn post(
    config: &Config,
    process: &Process,
    id: &str,
    args: &UndoArgs,
) -> Result<(StatusCode, Value), String> {
    let body = match &args.conversation {
        Some(key) => json!({"conversation": key}),
        None => json!({}),
    };
    let mut request = Request::post(format!("{}/api/handoffs/{id}/undo", process.admin))
        .header(CONTENT_TYPE, "application/json");
    if let Some(token) = config.admin.token.as_ref().map(Secret::reveal) {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|why| why.to_string())?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(request).await.map_err(|why| why.to_string())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
    let body = body.map_err(|why| why.to_string())?.to_bytes();
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}

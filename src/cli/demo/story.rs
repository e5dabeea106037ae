//! Runs the script through the real proxy and measures received and sent requests.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::oneshot;

use super::adapters::Adapter;
use super::agent::{DemoAgent, RequestResult};
use super::cost::{CostMeter, DemoCost};
use super::script::DemoLength;
use crate::app;
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::output::first_line;
use crate::serve::exchange::App;
use crate::serve::proxy::server;
use crate::state::config::{Config, Environment, Flags};
use crate::state::store::sqlite::SqliteStore;
use crate::state::store::{HandoffFilter, SharedStore, StoreError};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::mark::seal::SealKey;
use baton_core::transcript::{Transcript, TranscriptPartKind, TranscriptTurn};
use baton_core::wire::{Operation, Role, wire};
use baton_strict::{Options, Received, Strict};

/// Maximum number of requests before the run is aborted: more than the longest script needs.
const MOST_REQUESTS: usize = 1000;

/// The measured run. The field names are API.
#[derive(Debug, Serialize)]
pub(super) struct DemoRun {
    pub(super) wire: &'static str,
    pub(super) tasks: usize,
    pub(super) turns_per_task: usize,
    pub(super) seconds: f64,
    pub(super) totals: DemoTotals,
    pub(super) turns: Vec<MeasuredTurn>,
    pub(super) handoffs: Vec<DemoHandoff>,
    pub(super) complaints: Vec<String>,
    pub(super) example: Option<Example>,
}

/// One request of the agent, with its legs.
#[derive(Debug, Serialize)]
pub(super) struct MeasuredTurn {
    pub(super) turn: usize,
    pub(super) received_bytes: usize,
    /// One for each leg.
    pub(super) sent_bytes: Vec<usize>,
    pub(super) pinned: Option<String>,
    /// The handoff that fired in it.
    pub(super) fired: Option<String>,
}

/// A handoff.
#[derive(Debug, Serialize)]
pub(super) struct DemoHandoff {
    pub(super) id: String,
    pub(super) turn: usize,
    pub(super) reason: Option<String>,
    pub(super) prompt_bytes: usize,
    pub(super) prompt: String,
}

/// Sums over all requests.
#[derive(Debug, Default, Serialize)]
pub(super) struct DemoTotals {
    pub(super) requests: usize,
    pub(super) legs: usize,
    pub(super) received_bytes: usize,
    pub(super) sent_bytes: usize,
    /// Net: negative where more was sent than the agent sent.
    pub(super) unsent_bytes: i64,
    /// An estimate: four bytes of JSON make about one token.
    pub(super) unsent_tokens: i64,
    /// Simulated; none where the prices are unknown.
    pub(super) cost: Option<DemoCost>,
}

/// One request before and after.
#[derive(Debug, Serialize)]
pub(super) struct Example {
    pub(super) turn: usize,
    pub(super) received: Outline,
    pub(super) sent: Outline,
}

/// A request's messages, by how they begin.
#[derive(Debug, Serialize)]
pub(super) struct Outline {
    pub(super) bytes: usize,
    pub(super) messages: usize,
    pub(super) parts: Vec<MessageOutline>,
}

/// One text, call or result.
#[derive(Debug, Serialize)]
pub(super) struct MessageOutline {
    pub(super) role: &'static str,
    pub(super) kind: &'static str,
    pub(super) bytes: usize,
    pub(super) begins: String,
}

/// Plays the script.
pub(super) async fn play(adapter: &'static Adapter, script: DemoLength) -> Result<DemoRun, CommandFailure> {
    let began = Instant::now();
    let provider = Strict::start(script, Options::default()).await?;
    let config = config(&provider.url())?;
    let bound = server::bind(&config)?;
    let address = bound.addr();
    let store = SqliteStore::in_memory().map_err(unusable)?;
    let store: SharedStore = Arc::new(store);
    let seal = SealKey::new(*b"a key for the time of a demo");
    let app = Arc::new(App::new(config, Arc::clone(&store), seal)?);
    let gateway = Arc::new(app::gateway(&app, Arc::new(|_| ()))?);
    let (stop, stopped) = oneshot::channel::<()>();
    let proxy = tokio::spawn(bound.run(server::slot(gateway), async {
        let _ = stopped.await;
    }));

    let mut agent = DemoAgent::start(adapter, script, address).await?;
    let mut story = DemoRun::new(adapter, script);
    let mut both_sides = Vec::new();
    let mut meter = CostMeter::new(adapter);
    for _ in 0..MOST_REQUESTS {
        let before = provider.generations().len();
        let result = agent.ask().await?;
        let mut legs = provider.generations().split_off(before);
        let prompt_bytes = story.note(&result, &legs, &store).await?;
        if let Some(meter) = &mut meter {
            meter.add(&result.body, legs.iter().map(|leg| &leg.raw), prompt_bytes);
        }
        both_sides.push((result.body, legs.pop()));
        if result.done {
            break;
        }
    }
    story.totals.cost = meter.map(|meter| meter.cost());
    story.example = example(adapter, &story.handoffs, &both_sides);
    drop(agent);
    drop(stop);
    let _ = proxy.await;
    story.complaints = provider.complaints().iter().map(ToString::to_string).collect();
    story.seconds = began.elapsed().as_secs_f64();
    Ok(story)
}

/// The second request after the last handoff: cut, with some work after the cut.
fn example(
    adapter: &Adapter,
    handoffs: &[DemoHandoff],
    both_sides: &[(Bytes, Option<Arc<Received>>)],
) -> Option<Example> {
    let turn = (handoffs.last()?.turn + 2).min(both_sides.len());
    let (received, sent) = both_sides.get(turn - 1)?;
    let sent = sent.as_ref()?;
    Some(Example {
        turn,
        received: Outline::of(adapter, received)?,
        sent: Outline::of(adapter, &sent.raw)?,
    })
}

/// The default config with a free port and every upstream at `url`, independent of the process's environment and config
/// files.
/// The failure of the demo's own store.
fn unusable(error: StoreError) -> CommandFailure {
    Exit::SOFTWARE.failure(error.to_string())
}

fn config(url: &str) -> Result<Config, CommandFailure> {
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ndrain_secs = 0\n[store]\nkind = \"memory\"\n\
         [state]\ndir = \".\"\n\
         [upstreams.anthropic]\nbase_url = \"{url}\"\n[upstreams.openai]\nbase_url = \"{url}\"\n\
         [upstreams.gemini]\nbase_url = \"{url}\"\n"
    );
    Config::from_text(Some(("demo", &text)), &Environment::default(), &Flags::default()).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Exit::SOFTWARE.failure(lines.join("\n"))
    })
}

impl DemoRun {
    fn new(adapter: &Adapter, script: DemoLength) -> Self {
        Self {
            wire: adapter.wire.name(),
            tasks: script.tasks,
            turns_per_task: script.turns,
            seconds: 0.0,
            totals: DemoTotals::default(),
            turns: Vec::new(),
            handoffs: Vec::new(),
            complaints: Vec::new(),
            example: None,
        }
    }

    /// Measures one turn; returns the size of the carry-over prompt that was written in it.
    async fn note(
        &mut self,
        result: &RequestResult,
        legs: &[Arc<Received>],
        store: &SharedStore,
    ) -> Result<usize, CommandFailure> {
        let turn = self.turns.len() + 1;
        let fired = self.fired(turn, store).await?;
        let prompt = self.handoffs.last().filter(|_| fired.is_some());
        let prompt_bytes = prompt.map_or(0, |handoff| handoff.prompt_bytes);
        let measured = MeasuredTurn {
            turn,
            received_bytes: result.body.len(),
            sent_bytes: legs.iter().map(|leg| leg.raw.len()).collect(),
            pinned: result.pinned.clone(),
            fired,
        };
        self.totals.add(&measured);
        self.turns.push(measured);
        Ok(prompt_bytes)
    }

    /// The newest handoff in the store that is not known yet.
    async fn fired(&mut self, turn: usize, store: &SharedStore) -> Result<Option<String>, CommandFailure> {
        let all = store.handoffs(&HandoffFilter::default()).await;
        let all = all.map_err(unusable)?;
        let known = |id: &str| self.handoffs.iter().any(|handoff| handoff.id == id);
        let Some(new) = all.into_iter().find(|handoff| !known(&handoff.id.to_string())) else {
            return Ok(None);
        };
        let id = new.id.to_string();
        self.handoffs.push(DemoHandoff {
            id: id.clone(),
            turn,
            reason: new.reason,
            prompt_bytes: new.prompt.len(),
            prompt: new.prompt,
        });
        Ok(Some(id))
    }
}

impl DemoTotals {
    fn add(&mut self, turn: &MeasuredTurn) {
        self.requests += 1;
        self.legs += turn.sent_bytes.len();
        self.received_bytes += turn.received_bytes;
        self.sent_bytes += turn.sent_bytes.iter().sum::<usize>();
        self.unsent_bytes = self.received_bytes as i64 - self.sent_bytes as i64;
        self.unsent_tokens = self.unsent_bytes / BYTES_PER_TOKEN as i64;
    }
}

impl Outline {
    fn of(adapter: &Adapter, body: &Bytes) -> Option<Self> {
        let view = wire(adapter.wire).read(body, Operation::Generate).ok()?;
        let transcript = Transcript::of(&view);
        Some(Self {
            bytes: body.len(),
            messages: transcript.len(),
            parts: transcript.turns().flat_map(|turn| lines(&turn)).collect(),
        })
    }
}

/// The texts, calls and results of a turn, one line each.
fn lines(turn: &TranscriptTurn<'_>) -> Vec<MessageOutline> {
    let role = match turn.role {
        Role::System | Role::Tools => "system",
        Role::Assistant => "assistant",
        Role::User | Role::Tool | Role::Other => "user",
    };
    let line = |kind, text: &str| MessageOutline {
        role,
        kind,
        bytes: text.len(),
        // Show the sentinel, also on wires without a separate block for it.
        begins: first_line(&text[text.find(SENTINEL).unwrap_or(0)..], Some(BEGINS)),
    };
    let shown = turn.parts().into_iter().filter_map(|part| match part.kind {
        TranscriptPartKind::Text(text) => Some(line("text", &text.get())).filter(|line| line.bytes > 0),
        TranscriptPartKind::Result(_) => {
            let texts = part.texts().into_iter().map(|text| text.get());
            Some(line("result", &texts.collect::<String>()))
        }
        TranscriptPartKind::Call(call) => {
            let arguments = call.arguments?.get();
            let name = call.name?.get();
            Some(MessageOutline {
                begins: first_line(&format!("{name} {arguments}"), Some(BEGINS)),
                ..line("call", &arguments)
            })
        }
        _ => None,
    });
    shown.collect()
}

/// The beginning of a sentinel.
pub(super) const SENTINEL: &str = "[[handoff-resume:";

/// Maximum characters of a part in an outline.
const BEGINS: usize = 100;

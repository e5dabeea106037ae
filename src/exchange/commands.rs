//! Answers commands in the chat. Nothing goes upstream, and neither the command nor its answer is ever in the model's view.

use std::sync::Arc;

use http::Response;
use uuid::Uuid;

use super::active_handoff::{Active, find_active, meant};
use super::nudges::betas;
use super::request::Request;
use super::{Exchange, heavy, slow_answer};
use crate::commands::{Command, PinRefused, UndoOutcome, add_pin, help, listed, parse};
use crate::draft::{DraftAsk, End, FLAGS};
use crate::drafting::{Draft, Job, State, Wanted};
use crate::limits::{BYTES_PER_TOKEN, PINNED_BYTES, PINS};
use crate::mark::{note, pasted};
use crate::proxy::body::RequestBody;
use crate::proxy::fault::{Code, Fault};
use crate::proxy::response_body::ResponseBody;
use crate::record::{Handoff, HandoffId, telling_line};
use crate::rewrite::notes::{self, Look};
use crate::session::LiveConversation;
use crate::store::StoreError;
use crate::text::{Span, json};

/// Characters of a handoff's telling line that are shown.
const SHOWN: usize = 80;

/// What is told where no draft waits.
const NONE_WAITS: &str = "no draft waits for a yes.";

/// What makes a handoff now.
enum Asked {
    /// A draft.
    Draft(DraftAsk),
    /// Yes to the draft that waits, with another document in its place where there is one.
    Accept(Option<String>),
}

/// What an answer says and does.
pub(super) struct Said {
    pub(super) text: String,
    /// The note's id; an undo's is the handoff's.
    pub(super) note: Uuid,
    /// A sentinel behind it: from here on the model knows that handoff.
    sentinel: Option<String>,
    /// A text that it pins.
    pinned: Option<String>,
    /// A text that is pinned no longer.
    unpinned: Option<String>,
    /// What it undoes.
    undo: Option<UndoOutcome>,
}

impl Said {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            note: Uuid::now_v7(),
            sentinel: None,
            pinned: None,
            unpinned: None,
            undo: None,
        }
    }
}

impl Exchange {
    /// Answers the command that the request's last text is.
    pub(super) async fn answer_command(self) -> Response<ResponseBody> {
        let prepared = Arc::clone(&self.prepared);
        let text = prepared.command.as_deref().unwrap_or_default();
        let app = Arc::clone(&self.app);
        let prefix = app.config.commands.prefix.as_str();
        let Some(command) = parse(text, prefix) else {
            return self.begin().await;
        };
        match command {
            Command::HandOver(asked) => match DraftAsk::parse(asked) {
                Ok(ask) => return self.hand_over_now(Asked::Draft(ask)).await,
                Err(bad) => {
                    let said = Said::new(format!("{bad}.\n\n    {prefix}handoff {FLAGS}"));
                    return self.say_noted(&said).await;
                }
            },
            Command::Accept(edited) => {
                let edited = edited.map(str::to_owned);
                return self.hand_over_now(Asked::Accept(edited)).await;
            }
            _ => {}
        }
        match self.command(command, prefix).await {
            Ok(said) => {
                tracing::info!(exchange = self.ctx.id, "a command was answered");
                self.say_noted(&said).await
            }
            Err(error) => {
                tracing::error!(exchange = self.ctx.id, %error, "a command cannot be answered");
                self.ctx.refuse(Fault::from(Code::STORE))
            }
        }
    }

    /// Does what is asked. What it changes is written when this returns.
    async fn command(&self, command: Command<'_>, prefix: &str) -> Result<Said, StoreError> {
        let live = self.live()?;
        if matches!(command, Command::Status | Command::Cancel | Command::Reject) {
            self.restored_draft(live).await?;
        }
        let said = match command {
            Command::Help => Said::new(help(prefix, None)),
            Command::Unknown(word) => Said::new(help(prefix, Some(word))),
            Command::Status => self.status(live).await?,
            Command::Pins => Said::new(pins_told(&live.pins(), prefix)),
            Command::Pin(text) => pin(&live.pins(), text, prefix),
            Command::Unpin(number) => unpin(&live.pins(), number),
            Command::Undo(id) => self.undo(id).await?,
            Command::Resume(id) => self.resume(id).await?,
            Command::Cancel => self.cancelled(live).await?,
            Command::Reject => self.rejected(live).await?,
            // Answered where it is written.
            Command::HandOver(_) | Command::Accept(_) => Said::new(help(prefix, None)),
        };
        let (pinned, unpinned) = (said.pinned.clone(), said.unpinned.clone());
        self.app
            .sessions
            .command(live, pinned, unpinned, self.app.clock.now_ms())
            .await?;
        Ok(said)
    }

    /// Has a handoff written. Keep-alives go to the agent until that has come to an end, which is the answer.
    async fn hand_over_now(self, asked: Asked) -> Response<ResponseBody> {
        let exchange = match &asked {
            Asked::Draft(ask) => self.showing(ask),
            Asked::Accept(_) => self,
        };
        exchange.hand_over_patiently(asked).await
    }

    async fn hand_over_patiently(self, asked: Asked) -> Response<ResponseBody> {
        slow_answer::answered(self.clone(), async move {
            let said = match self.handed_over(asked).await {
                Ok(said) => said,
                Err(error) => {
                    tracing::error!(exchange = self.ctx.id, %error, "a command cannot be answered");
                    return self.ctx.refuse(Fault::from(Code::STORE));
                }
            };
            let response = self.say_noted(&said).await;
            match self.when_ended() {
                Some(then) => response.map(|body| body.when_handed_over(then)),
                None => response,
            }
        })
        .await
    }

    /// Makes a handoff of what stands in front of the command.
    async fn handed_over(&self, asked: Asked) -> Result<Said, StoreError> {
        let live = self.live()?;
        self.app
            .sessions
            .command(live, None, None, self.app.clock.now_ms())
            .await?;
        let Some(before) = self.without_command() else {
            return Ok(Said::new("nothing to hand off yet."));
        };
        if let Some(handoff) = self.made_before().await? {
            self.fired.add(handoff.id);
            return Ok(self.told_with_sentinel(&before, &handoff));
        }
        if self.prepared.request.view().facts.previous.is_some() {
            return Ok(Said::new(
                "no handoff was made: the provider holds this transcript, and baton sees only what is new in it.",
            ));
        }
        self.restored_draft(live).await?;
        let job = match self.job(live, asked) {
            Ok(job) => job,
            Err(why) => return Ok(Said::new(why)),
        };
        Ok(match before.hand_over(job).await {
            Ok(handoff) => self.told_with_sentinel(&before, &handoff),
            Err(End::Review) => {
                let draft = self.app.drafting.open_in(live.key());
                let document = draft.and_then(|draft| draft.document).unwrap_or_default();
                let waits = format!("the draft waits for your yes: {}.", self.yes_or_no());
                Said::new(match self.begun_draft() {
                    Some(_) => waits,
                    None => format!("{waits}\n\n{}", note::quoted(&document)),
                })
            }
            Err(end) => Said::new(format!("no handoff was made: {end}.")),
        })
    }

    /// The handoff that an answer to this very request showed, which broke off: agents send a request again then.
    async fn made_before(&self) -> Result<Option<Arc<Handoff>>, StoreError> {
        let live = self.live()?;
        let id = match live.may_repeat() {
            true => live.take_repeat(self.hash(), &self.answer, self.app.clock.now_ms()),
            false => None,
        };
        match id {
            Some(id) => self.app.sessions.handoff(&self.ctx.principal, id).await,
            None => Ok(None),
        }
    }

    /// What a person is told of a handoff that was made of the request `before` the command.
    fn told_with_sentinel(&self, before: &Self, handoff: &Handoff) -> Said {
        let told = before.told(handoff);
        Said {
            sentinel: Some(self.sentinel(handoff)),
            ..Said::new(told.strip_prefix(note::BEGINS).unwrap_or(&told))
        }
    }

    /// What a person may say to a draft.
    pub(super) fn yes_or_no(&self) -> String {
        match self.app.config.commands.prefix.as_str() {
            "" => "on the inspector's page of the conversation".to_owned(),
            prefix => {
                format!("`{prefix}handoff accept`, `{prefix}handoff edit TEXT` or `{prefix}handoff reject`")
            }
        }
    }

    /// The draft to be made, or the one that waits.
    fn job(&self, live: &LiveConversation, asked: Asked) -> Result<Job, String> {
        let drafting = &self.app.drafting;
        match asked {
            Asked::Draft(ask) => {
                let wanted = Wanted { ask, prompt: None };
                let begun = drafting.begin(live.key(), &self.ctx.principal, wanted);
                begun.map_err(|busy| match busy.state {
                    State::Review => format!("a draft waits for your yes already ({}).", busy.id),
                    _ => format!("a handoff is already being written ({}).", busy.id),
                })
            }
            Asked::Accept(edited) => {
                let open = drafting.open_in(live.key());
                let accepted = open.and_then(|draft| drafting.accept(draft.id, edited).ok());
                let job = accepted.and_then(|_| drafting.take(live.key()));
                job.ok_or_else(|| NONE_WAITS.to_owned())
            }
        }
    }

    /// A person says no to the draft that waits.
    async fn rejected(&self, live: &LiveConversation) -> Result<Said, StoreError> {
        let drafting = &self.app.drafting;
        let open = drafting.open_in(live.key());
        let Some(draft) = open.and_then(|draft| drafting.reject(draft.id).ok()) else {
            return Ok(Said::new(NONE_WAITS));
        };
        let store = self.app.sessions.store();
        store.archive(&self.ctx.principal, draft.id, true).await?;
        Ok(Said::new("the draft was rejected, and nothing was changed."))
    }

    /// The same exchange without the command that it ends with.
    fn without_command(&self) -> Option<Self> {
        let config = &self.app.config;
        let look = Look {
            prefix: &config.commands.prefix,
            tags: &config.handoff.preamble_tags,
            unanswered: false,
            coming: None,
        };
        let prepared = &self.prepared;
        let reading = prepared.request.reading();
        let left = heavy::work(prepared.weight, || {
            notes::without_last(prepared.wire, reading, look)
        })?;
        let removed = prepared.request.len().saturating_sub(left.view.body.len());
        let body = RequestBody::Plain(left.view.body.clone());
        let asked = self.hash();
        let mut before = self.clone();
        let prepared = Arc::make_mut(&mut before.prepared);
        prepared.request = Request::new(body, left);
        prepared.noted = Some(prepared.noted.unwrap_or_default() + removed);
        prepared.command = None;
        prepared.asked_hash = Some(asked);
        Some(before)
    }

    /// The conversation's open draft: one that waits for a person may have been written by another process.
    async fn restored_draft(&self, live: &LiveConversation) -> Result<Option<Draft>, StoreError> {
        let store = self.app.sessions.store();
        self.app.drafting.restored_in(store, live.key()).await
    }

    async fn cancelled(&self, live: &LiveConversation) -> Result<Said, StoreError> {
        let drafting = &self.app.drafting;
        let open = drafting.open_in(live.key());
        let Some(draft) = open.filter(|draft| drafting.cancel(draft.id).is_ok()) else {
            return Ok(Said::new("no handoff is being written."));
        };
        if draft.is_for_review() {
            let store = self.app.sessions.store();
            store.archive(&self.ctx.principal, draft.id, true).await?;
        }
        Ok(Said::new("the handoff that was being written is not made."))
    }

    async fn say_noted(&self, said: &Said) -> Response<ResponseBody> {
        if let Some(shown) = self.begun_draft() {
            shown.end(&said.text, said.sentinel.as_deref().unwrap_or_default().trim());
            return self.end_shown(shown);
        }
        let line = note::line(said.note);
        let mut text = format!("{}{}\n\n{line}", note::BEGINS, said.text);
        if let Some(sentinel) = &said.sentinel {
            text.push_str("\n\n");
            text.push_str(sentinel.trim());
        }
        let id = Uuid::now_v7();
        if let Err(error) = self.remember_answer(id).await {
            tracing::error!(exchange = self.ctx.id, %error, "a command's answer cannot be written");
            return self.ctx.refuse(Fault::from(Code::STORE));
        }
        self.say_alone_as(id, &text)
    }

    /// A later request may go on from the answer by its id alone: it goes on from the response before.
    async fn remember_answer(&self, id: Uuid) -> Result<(), StoreError> {
        let prepared = &self.prepared;
        let facts = &prepared.request.view().facts;
        // What resends its history does not go on by an id.
        if !prepared.wire.goes_on_by_id() || facts.unstored {
            return Ok(());
        }
        let previous = facts.previous.as_ref();
        let named = previous.map(|p| p.id.as_str());
        let behind = match &prepared.previous {
            Some(behind) => behind.written(),
            None => named.unwrap_or_default().to_owned(),
        };
        let shown = format!("resp_baton_{}", id.simple());
        let store = self.app.sessions.store();
        store.put_response_id(&self.ctx.principal, &shown, &behind).await
    }

    async fn status(&self, live: &LiveConversation) -> Result<Said, StoreError> {
        let prepared = &self.prepared;
        let tokens = prepared.request.len() as u64 / BYTES_PER_TOKEN;
        let sees = match &prepared.active {
            Some(active) => {
                let handoff = self.app.sessions.handoff(&self.ctx.principal, active.id).await?;
                let about = handoff.map(|h| shown(&h)).unwrap_or_default();
                let sent = crate::text::splice::len(&prepared.first(&self.app, prepared.tooled).rope);
                format!(
                    "the model sees the handoff {}{about} and what came after it, about {} tokens of the {tokens} that the \
                     agent sends.",
                    active.id,
                    sent as u64 / BYTES_PER_TOKEN
                )
            }
            None => format!("the model sees the whole history, about {tokens} tokens."),
        };
        let tool = match prepared.untooled {
            None => "\n\n    It may hand over by itself.".to_owned(),
            Some(why) => format!("\n\n    It cannot hand over by itself here: {}.", why.name()),
        };
        let pins = match live.pins().len() {
            0 => "Nothing is pinned.".to_owned(),
            1 => "One text is pinned.".to_owned(),
            many => format!("{many} texts are pinned."),
        };
        let draft = match self.app.drafting.open_in(live.key()) {
            Some(draft) => format!("\n    {} ({}).", drafted(draft.state), draft.id),
            None => String::new(),
        };
        Ok(Said::new(format!("{sees}{tool}\n    {pins}{draft}")))
    }

    /// Undoes a handoff, or its undo.
    pub(super) async fn undo(&self, id: Option<&str>) -> Result<Said, StoreError> {
        let said = self.undone_or_not(id).await?;
        let outcome = said.undo.unwrap_or(UndoOutcome::Refused);
        self.ctx.recorder.note(|e| e.undo = Some(outcome));
        Ok(said)
    }

    /// What is said where another handoff counts by now than the one that was to be undone.
    pub(super) fn overtaken(&self) -> Said {
        self.ctx.recorder.note(|e| e.undo = Some(UndoOutcome::Refused));
        Said::new("nothing was undone: another handoff is active by now.")
    }

    async fn undone_or_not(&self, id: Option<&str>) -> Result<Said, StoreError> {
        let prepared = &self.prepared;
        let reading = prepared.request.reading();
        if prepared.request.view().facts.previous.is_some() {
            return Ok(Said::new(
                "nothing was undone: the provider holds this transcript, and baton sees only what is new in it.",
            ));
        }
        let candidates = heavy::work(prepared.weight, || reading.candidates(prepared.wire));
        let active = prepared.active.as_ref().map(|active| active.id);
        let target = match id {
            Some(id) => {
                let known = candidates.iter().map(|c| c.sentinel.id).chain(active);
                let undone = prepared.undone.ever().iter().copied();
                let named = |known: &HandoffId| known.to_string().starts_with(id) && !id.is_empty();
                known.chain(undone).find(named)
            }
            None => prepared.undone.last.or(active),
        };
        let Some(target) = target else {
            return Ok(Said::new(match id {
                Some(_) => "nothing was undone: no handoff of this transcript has that id.",
                None => "there is nothing to undo: the model sees the whole history.",
            }));
        };
        match prepared.undone.is_undone(target) {
            true => Ok(Said {
                note: target,
                undo: Some(UndoOutcome::TakenBack),
                ..Said::new(format!(
                    "the undo was taken back. The model sees the handoff {target} again, and what came after it."
                ))
            }),
            false => self.undone(target, candidates).await,
        }
    }

    /// What the model sees where this handoff does not count.
    async fn undone(
        &self,
        target: HandoffId,
        mut candidates: Vec<crate::rewrite::Candidate>,
    ) -> Result<Said, StoreError> {
        let prepared = &self.prepared;
        let reading = prepared.request.reading();
        candidates.retain(|c| c.sentinel.id != target);
        let (app, wire) = (&*self.app, prepared.wire);
        let before = find_active(app, &self.ctx, wire, reading, candidates, prepared.weight).await?;
        let from = before.as_ref().and_then(Active::turn);
        let list = prepared.request.view().list;
        let start = from.map_or(list.start, |turn| prepared.request.view().turns[turn].span.start);
        let head = before.as_ref().map_or(0, |active| active.head.len());
        // System prompt and tools are part of it.
        let cut = start.saturating_sub(list.start);
        let tokens = (prepared.request.len().saturating_sub(cut) + head) as u64 / BYTES_PER_TOKEN;
        let model = prepared.request.view().facts.model.as_deref().unwrap_or_default();
        let window = self.app.config.handoff.windows.of(model, betas(&self.ctx));
        if let Some(over) = window
            .and_then(|window| tokens.checked_sub(window))
            .filter(|over| *over > 0)
        {
            return Ok(Said::new(format!(
                "nothing was undone: the model would see about {tokens} tokens, {over} more than its window holds."
            )));
        }
        Ok(Said {
            note: target,
            undo: Some(UndoOutcome::Undone),
            ..Said::new(match before {
                Some(before) => format!(
                    "the handoff {target} was undone. The model sees the handoff before it, {}, and all that came after, about \
                 {tokens} tokens. The same command takes this back.",
                    before.id
                ),
                None => format!(
                    "the handoff {target} was undone. The model sees the whole history again, about {tokens} tokens. The same \
                 command takes this back."
                ),
            })
        })
    }

    /// Goes on behind another handoff.
    async fn resume(&self, id: &str) -> Result<Said, StoreError> {
        let found = match id_range(id) {
            Some(ids) => meant(&self.app, &self.ctx, ids).await?,
            None => Vec::new(),
        };
        let handoff = match found[..] {
            [only] => self.app.sessions.handoff(&self.ctx.principal, only).await?,
            [] => None,
            _ => {
                return Ok(Said::new(
                    "more than one handoff has an id that begins like this: give more of it.",
                ));
            }
        };
        Ok(match handoff {
            Some(handoff) => Said {
                sentinel: Some(self.sentinel(&handoff)),
                ..Said::new(format!(
                    "from here on the model knows the handoff {}{}.{}",
                    handoff.id,
                    shown(&handoff),
                    self.resumed_by_command(handoff.id).await
                ))
            },
            None => Said::new(
                "this handoff is not known here. `baton handoffs list` shows the handoffs of this store; give the id, or at \
                 least its first 13 characters.",
            ),
        })
    }
}

/// How far a conversation's open draft is.
fn drafted(state: State) -> &'static str {
    match state {
        State::Asked => "A handoff was asked for; it is made with the next request",
        State::Review => "A draft waits for your yes",
        State::Accepted => "An accepted draft takes effect with the next request",
        _ => "A handoff is being written",
    }
}

/// What a handoff is about, in a few words.
fn shown(handoff: &Arc<Handoff>) -> String {
    let line: String = telling_line(&handoff.prompt).chars().take(SHOWN).collect();
    match line.is_empty() {
        true => String::new(),
        false => format!(" ({})", line.replace("[[", "[ [")),
    }
}

/// The first and the last id that a person's words may mean.
fn id_range(given: &str) -> Option<(HandoffId, HandoffId)> {
    let id = given.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let id = id.strip_prefix("handoff-resume:").unwrap_or(id);
    let line = json::quote(&format!("[[handoff-resume:{id}]]"));
    pasted::read(line.as_bytes(), Span::new(1, line.len() - 1)).map(|pasted| pasted.ids)
}

fn pins_told(pins: &[String], prefix: &str) -> String {
    match pins.is_empty() {
        true => {
            format!("nothing is pinned. `{prefix}pin TEXT` pins a text, which every later handoff carries.")
        }
        false => format!("pinned, and carried by every later handoff:\n{}", listed(pins)),
    }
}

fn pin(pins: &[String], text: &str, prefix: &str) -> Said {
    match add_pin(pins, text) {
        Ok(text) => Said {
            pinned: Some(text),
            ..Said::new(format!(
                "pinned as number {}. Every later handoff carries it, word for word.",
                pins.len() + 1
            ))
        },
        Err(PinRefused::Empty) => Said::new(format!("nothing was pinned: write `{prefix}pin TEXT`.")),
        Err(PinRefused::Known(n)) => Said::new(format!("it is pinned already, as number {n}.")),
        Err(PinRefused::Many) => Said::new(format!(
            "nothing was pinned: there are {PINS} pins, as many as there may be. `{prefix}unpin N` takes one away."
        )),
        Err(PinRefused::Long(over)) => Said::new(format!(
            "nothing was pinned: all pins together would be {over} bytes over the {PINNED_BYTES} that they may have."
        )),
    }
}

fn unpin(pins: &[String], number: &str) -> Said {
    let known = number.trim().parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    match known.filter(|n| *n < pins.len()) {
        Some(n) => {
            let gone = pins[n].clone();
            Said {
                unpinned: Some(gone.clone()),
                ..Said::new(format!("no longer pinned:\n{}", listed(&[gone])))
            }
        }
        None => Said::new(match pins.len() {
            0 => "nothing is pinned.".to_owned(),
            1 => "there is one pin: its number is 1.".to_owned(),
            many => format!("there are {many} pins: give a number from 1 to {many}."),
        }),
    }
}

//! Makes a handoff now, of what stands in front of the command.

use std::sync::Arc;

use http::Response;

use super::said::Said;
use crate::serve::exchange::request::Request;
use crate::serve::exchange::{Exchange, slow_answer};
use crate::serve::proxy::body::RequestBody;
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::jobs::drafts::{DraftJob, DraftOrder, DraftRecord, DraftState};
use crate::state::session::LiveConversation;
use crate::state::store::StoreError;
use baton_core::handoffs::draft::{DraftEnd, DraftRequest};
use baton_core::mark::note;
use baton_core::record::Handoff;
use baton_core::rewrite::notes::{self, NoteSearch};

/// What is told where no draft waits.
pub(super) const NONE_WAITS: &str = "no draft waits for a yes.";

/// What makes a handoff now.
pub(super) enum Asked {
    /// A draft.
    Draft(DraftRequest),
    /// Yes to the draft that waits, with another document in its place where there is one.
    Accept(Option<String>),
}

impl Exchange {
    /// Has a handoff written. Keep-alives go to the agent until that has come to an end, which is the answer.
    pub(super) async fn hand_over_now(self, asked: Asked) -> Response<ResponseBody> {
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
        let Some(before) = self.without_command() else {
            return Ok(Said::new("nothing to hand off yet."));
        };
        if let Some(handoff) = self.made_before().await? {
            self.fired.add(handoff.id);
            return Ok(self.told_with_sentinel(&before, &handoff));
        }
        if self.offered.agent.request.view().facts.previous.is_some() {
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
            Err(DraftEnd::Review) => {
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
            sentinel: Some((handoff.id, self.sentinel(handoff))),
            ..Said::new(told.strip_prefix(note::BEGINS).unwrap_or(&told))
        }
    }

    /// What a person may say to a draft.
    pub(in crate::serve::exchange) fn yes_or_no(&self) -> String {
        match self.app.config.commands.prefix.as_str() {
            "" => "on the inspector's page of the conversation".to_owned(),
            prefix => {
                format!("`{prefix}handoff accept`, `{prefix}handoff edit TEXT` or `{prefix}handoff reject`")
            }
        }
    }

    /// The draft to be made, or the one that waits.
    fn job(&self, live: &LiveConversation, asked: Asked) -> Result<DraftJob, String> {
        let drafting = &self.app.drafting;
        match asked {
            Asked::Draft(ask) => {
                let wanted = DraftOrder { ask, prompt: None };
                let begun = drafting.begin(live.key(), &self.ctx.principal, wanted);
                begun.map_err(|busy| match busy.state {
                    DraftState::Review => format!("a draft waits for your yes already ({}).", busy.id),
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

    /// The same exchange without the command that it ends with.
    fn without_command(&self) -> Option<Self> {
        let config = &self.app.config;
        let look = NoteSearch {
            prefix: &config.commands.prefix,
            tags: &config.handoff.preamble_tags,
            next_note: None,
        };
        let offered = &self.offered;
        let reading = offered.agent.request.reading();
        let left = notes::without_last(offered.agent.wire, reading, look)?;
        let removed = offered.agent.request.len().saturating_sub(left.view.body.len());
        let body = RequestBody::Plain(left.view.body.clone());
        let asked = self.hash();
        let mut before = self.clone();
        let offered = Arc::make_mut(&mut before.offered);
        offered.agent.request = Request::new(body, left);
        offered.pin.taken_out.add(removed);
        offered.pin.command = None;
        offered.agent.asked_hash = Some(asked);
        Some(before)
    }

    /// The conversation's open draft: one that waits for a person may have been written by another process.
    pub(super) async fn restored_draft(
        &self,
        live: &LiveConversation,
    ) -> Result<Option<DraftRecord>, StoreError> {
        let store = self.app.sessions.store();
        self.app.drafting.restored_in(store, live.key()).await
    }
}

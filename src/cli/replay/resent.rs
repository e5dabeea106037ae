//! Sends the next turns of a conversation again in an arm: after the arm's cut, or with the whole history. Measures how
//! many of the facts in the recorded turns are in the new answers.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Serialize;

use super::answer::{PricedAt, ReplayAnswer};
use super::request::{ReplayRequest, RequestChoice};
use super::transport::{recorded, send};
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::log::unread;
use crate::state::clock::now_ms;
use crate::state::config::Config;
use crate::state::journal::{JournalReader, JournaledSession};
use baton_core::bill::{ArmBill, PriceTable};
use baton_core::handoffs::draft::{self, Prompts};
use baton_core::rewrite::{Cut, RequestReading, Rewrite, preamble, rewrite};
use baton_core::text::splice;
use baton_core::transcript::AnswerContent;
use baton_core::wire::{Operation, Role, TextOnly, Wire, wire};

/// Shorter words are in most texts.
const NAME_CHARS: usize = 5;

/// The result of an arm's turns.
#[derive(Debug, Default, Serialize)]
pub(super) struct ResentTurns {
    /// Turns that were sent again.
    pub(super) turns: usize,
    /// Paths and names that the recorded answers used and that were in the history before the cut.
    pub(super) facts: usize,
    /// Of these, those that the new answers use.
    pub(super) known: usize,
    /// Dollars of the requests, the draft's included; none where one has no price.
    pub(super) cost: Option<f64>,
}

/// What the turns of all arms are sent with.
pub(super) struct TurnSender<'a> {
    pub(super) config: &'a Config,
    pub(super) query: &'a JournalReader,
    pub(super) table: &'a PriceTable,
    pub(super) session: &'a JournaledSession,
    /// Name of the upstream.
    pub(super) upstream: &'a str,
}

/// A cut after which turns are sent.
struct ArmHead {
    /// The first turn of the transcript that is kept.
    turn: usize,
    /// Preamble and carry-over prompt, as elements.
    head: String,
}

impl TurnSender<'_> {
    /// Sends this many calls again, from `first` on, as they are in an arm with this bill.
    pub(super) async fn ask(
        &self,
        bill: &ArmBill,
        first: usize,
        turns: usize,
    ) -> Result<ResentTurns, CommandFailure> {
        let mut resent = ResentTurns {
            cost: Some(0.0),
            ..ResentTurns::default()
        };
        let cut = bill.cuts.iter().map(|cut| cut.call).find(|call| *call <= first);
        let head = match cut {
            Some(call) => Some(self.head(call, &mut resent).await?),
            None => None,
        };
        let history = self.request(first)?.body;
        let last = (first + turns).min(self.session.exchanges.len());
        for call in first..last {
            let mut request = self.request(call)?;
            let reading = self.reading(&request)?;
            let cut = head.as_ref().map_or(Cut::None, |head| Cut::BeforeTurn {
                turn: head.turn,
                head: &head.head,
            });
            let what = Rewrite {
                cut,
                // This thinking followed another prefix, which is not sent here.
                omitted: Some(reading.view.turns.len()),
                ..Rewrite::default()
            };
            request.body = splice::flat(rewrite(wire(request.wire), &reading, &what).rope);
            let answer = self.answer(&request, &mut resent).await?;
            let then = recorded(self.query, &self.session.exchanges[call], 0)?;
            let facts = facts(&AnswerContent::of(&then).as_read().unwrap_or_default(), &history);
            resent.turns += 1;
            resent.known += facts.iter().filter(|fact| answer.text.contains(*fact)).count();
            resent.facts += facts.len();
        }
        Ok(resent)
    }

    /// The carry-over prompt of a cut in front of this call, which the model writes after its history.
    async fn head(&self, call: usize, resent: &mut ResentTurns) -> Result<ArmHead, CommandFailure> {
        let mut request = self.request(call)?;
        let reading = self.reading(&request)?;
        let wire = wire(request.wire);
        let view = &reading.view;
        let spoken = view.turns.iter().rposition(|turn| turn.role == Role::Assistant);
        let more = [wire.user_text(&Prompts::default().after_history(""))];
        let what = Rewrite {
            more: &more,
            text_only: Some(TextOnly {
                forbids_calls: true,
                max_tokens: self.config.draft.max_tokens,
            }),
            ..Rewrite::default()
        };
        request.body = splice::flat(rewrite(wire, &reading, &what).rope);
        let document = self.answer(&request, resent).await?;
        let tags = &self.config.handoff.preamble_tags;
        let kept = preamble::of(wire, view, None, tags);
        Ok(ArmHead {
            turn: spoken.map_or(view.leading(), |turn| turn + 1),
            head: preamble::head(wire, &kept, &draft::carried(&document.text)),
        })
    }

    /// What the agent sent in this call.
    fn request(&self, call: usize) -> Result<ReplayRequest, CommandFailure> {
        let id = &self.session.exchanges[call];
        let exchange = self.query.exchange(id).map_err(unread)?;
        let exchange = exchange.ok_or_else(|| {
            Exit::NO_INPUT.failure(format!("the exchange {id} is no longer in the journal"))
        })?;
        let choice = RequestChoice {
            received: true,
            leg: 1,
            to: Some(self.upstream),
            model: None,
        };
        ReplayRequest::of(&choice, self.config, self.query, &exchange)
    }

    fn reading(&self, request: &ReplayRequest) -> Result<RequestReading, CommandFailure> {
        let wire: &dyn Wire = wire(request.wire);
        RequestReading::new(wire, &request.body, Operation::Generate)
            .map_err(|_| Exit::DATA.failure("the journal's copy of a request cannot be read"))
    }

    async fn answer(
        &self,
        request: &ReplayRequest,
        resent: &mut ResentTurns,
    ) -> Result<ReplayAnswer, CommandFailure> {
        let upstream = request.upstream(self.config)?;
        let headers = request.headers(upstream, |name| std::env::var(name).ok())?;
        let (status, body) = send(self.config, request, headers).await?;
        let prices = PricedAt {
            table: self.table,
            at_ms: now_ms(),
        };
        let answer = ReplayAnswer::read(request, status, &body, prices);
        if !(200..300).contains(&status) {
            let message = format!("{} answered {status}: {:.300}", self.upstream, answer.text);
            return Err(Exit::UNAVAILABLE.failure(message));
        }
        resent.cost = resent.cost.zip(answer.cost).map(|(sum, cost)| sum + cost);
        Ok(answer)
    }
}

/// The paths and names of an answer that are in this history.
fn facts(answer: &str, history: &Bytes) -> BTreeSet<String> {
    let is_part = |c: char| c.is_alphanumeric() || "._/-".contains(c);
    let words = answer
        .split(|c| !is_part(c))
        .map(|word| word.trim_matches(['.', '-', '/']));
    let is_name = |word: &&str| word.len() >= NAME_CHARS && word.contains(['.', '_', '/']);
    let stands = |word: &&str| memchr::memmem::find(history, word.as_bytes()).is_some();
    words.filter(is_name).filter(stands).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_names_that_stood_in_the_history() {
        let history = Bytes::from_static(b"see src/parse.rs and read_bom in it");
        let found = facts(
            "I open src/parse.rs, then `read_bom` and new_name.rs. It is done.",
            &history,
        );
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["read_bom", "src/parse.rs"]
        );
    }
}

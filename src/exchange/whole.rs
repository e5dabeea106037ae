//! An answer in one piece: its legs are collected, and joined into one reply.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::response::Parts;

use super::answer::Exchange;
use super::legs::{self, Tries};
use super::shaped;
use super::stream::NOTHING_SAID;
use crate::course::{Circumstances, Refused, Verdict, judge};
use crate::mark::aside;
use crate::proxy::download::UpstreamBody;
use crate::proxy::fault::{Code, Fault};
use crate::proxy::out::OutBody;
use crate::record::Handoff;
use crate::rewrite::Rewritten;
use crate::store::StoreError;
use crate::telemetry::Outcome;
use crate::wire::{self, Ending, Leg, LegReport, Spoken, Stop};

/// What an answer to an agent that asked for no stream is made of.
pub(super) struct Asked {
    pub(super) exchange: Exchange,
    /// Head and body of upstream's answer.
    pub(super) parts: Parts,
    pub(super) body: UpstreamBody,
    pub(super) now: Circumstances,
    /// The handoff behind which a repeated request goes on.
    pub(super) opening: Option<Arc<Handoff>>,
}

/// The answer to an agent that asked for no stream.
pub(super) async fn answer(asked: Box<Asked>) -> Response<OutBody> {
    let Asked {
        exchange,
        parts,
        body,
        now,
        opening,
    } = *asked;
    let body = match collect(&exchange, body).await {
        Ok(body) => body,
        Err(fault) => return exchange.ctx.refuse(fault),
    };
    if wire::tells_error(&body) {
        exchange.ctx.meter.decide(Outcome::InBandError);
    }
    let Some(report) = exchange.read_reply(&body) else {
        return shaped(parts.status, &parts.headers, OutBody::whole(body));
    };
    let mut course = Course {
        exchange,
        legs: Vec::new(),
        now,
        head: None,
        more: Vec::new(),
        shown: opening,
    };
    if let Some(handoff) = &course.shown {
        course.head = Some(handoff.head.clone());
    }
    let opening = course.shown.clone();
    let ending = match judge(&report, &course.now) {
        Verdict::End(ending) => {
            course.ended(body, report);
            ending
        }
        // In a box: nearly all replies end with their first leg, and what is awaited here is as large as all of it.
        verdict => Box::pin(course.run(verdict, body, report)).await,
    };
    let said = opening.is_some() || course.legs.iter().any(|l| l.then.is_some());
    let over = matches!(ending, Ending::Own | Ending::WithoutCall);
    if over
        && let Some(last) = course.legs.last_mut()
        && last.then.is_none()
        && last.report.leaves_unfit(said)
    {
        last.then = Some(NOTHING_SAID.to_owned());
    }
    if over && course.legs.last().is_some_and(|l| l.report.stop == Stop::Error) {
        course.exchange.ctx.meter.decide(Outcome::InBandError);
    }
    course.write_id(ending).await;
    let joined = OutBody::whole(course.joined(ending, opening.as_deref()));
    let body = match course.exchange.when_ended() {
        Some(then) => joined.when_handed_over(then),
        None => joined,
    };
    shaped(parts.status, &parts.headers, body)
}

impl Exchange {
    fn read_reply(&self, body: &Bytes) -> Option<LegReport> {
        let prepared = &self.prepared;
        prepared.wire.reply_to(&prepared.reading.view, body, self.watch())
    }
}

async fn collect(exchange: &Exchange, body: UpstreamBody) -> Result<Bytes, Fault> {
    let app = &exchange.app;
    body.whole(app.config.limits.body_bytes, &app.bodies).await
}

/// The legs of one reply.
struct Course {
    exchange: Exchange,
    legs: Vec<Leg>,
    now: Circumstances,
    head: Option<String>,
    more: Vec<String>,
    shown: Option<Arc<Handoff>>,
}

impl Course {
    /// A leg has ended.
    fn ended(&mut self, body: Bytes, report: LegReport) {
        self.exchange.count(&report);
        self.legs.push(Leg {
            body,
            report,
            then: None,
        });
    }

    /// Runs leg after leg, from what the first one came to. Returns how the reply ends.
    async fn run(&mut self, mut verdict: Verdict, mut body: Bytes, mut report: LegReport) -> Ending {
        loop {
            self.ended(body.clone(), report);
            let go_on = match verdict {
                Verdict::End(ending) => Err(ending),
                Verdict::Fire { prompt, reason } => self.fire(prompt, reason).await,
                Verdict::Mixed(all) => {
                    if let Some(last) = self.legs.last()
                        && let Err(error) = self.exchange.write_beside(all, &last.report).await
                    {
                        tracing::error!(exchange = self.exchange.ctx.id, %error, "hidden call not written");
                    }
                    Err(Ending::Own)
                }
                Verdict::AskAgain(refused) => self.ask_again(refused, &body).await,
            };
            if let Err(ending) = go_on {
                return ending;
            }
            match self.next().await {
                Some(next) => (body, report) = next,
                None => return self.lost(),
            }
            verdict = judge(&report, &self.now);
        }
    }

    /// Writes the handoff and shows its sentinel; `Err` where the reply ends there.
    async fn fire(&mut self, prompt: String, reason: Option<String>) -> Result<(), Ending> {
        let active = self.exchange.prepared.active.as_ref().map(|a| a.id);
        let parent = self.shown.as_ref().map(|h| h.id).or(active);
        let handoff = match self.exchange.write_handoff(prompt, reason, parent).await {
            Ok(handoff) => Arc::new(handoff),
            Err(error) => {
                tracing::error!(exchange = self.exchange.ctx.id, %error, "handoff not written");
                return Err(Ending::WithoutCall);
            }
        };
        self.then(self.exchange.sentinel(&handoff));
        self.head = Some(handoff.head.clone());
        self.more.clear();
        self.now = Circumstances {
            legs: self.now.legs + 1,
            pending: None,
            asked: 0,
            ..self.now.clone()
        };
        self.shown = Some(handoff.clone());
        if self.exchange.stops() {
            return Err(Ending::Stopped {
                next_input: self.exchange.next_input(&handoff),
            });
        }
        Ok(())
    }

    async fn ask_again(&mut self, refused: Refused, body: &Bytes) -> Result<(), Ending> {
        let asked = self.aside(refused, body).await.unwrap_or_else(|error| {
            tracing::error!(exchange = self.exchange.ctx.id, %error, "refused call not written");
            None
        });
        asked.ok_or(Ending::WithoutCall)
    }

    async fn aside(&mut self, refused: Refused, body: &Bytes) -> Result<Option<()>, StoreError> {
        let pair = self.exchange.write_aside(refused).await?;
        let wire = self.exchange.prepared.wire;
        let Some(more) = wire.ask_again(&Spoken::Reply(body.clone()), std::slice::from_ref(&pair)) else {
            return Ok(None);
        };
        self.then(wire.sentinel_text(&aside::line(pair.id)));
        self.more.push(more);
        self.now.asked += 1;
        Ok(Some(()))
    }

    fn then(&mut self, text: String) {
        if let Some(last) = self.legs.last_mut() {
            last.then = Some(text);
        }
    }

    async fn next(&self) -> Option<(Bytes, LegReport)> {
        let shown = self.shown.as_ref().map(|handoff| handoff.id);
        let leg = self.exchange.leg(self.head.as_deref(), &self.more, shown);
        let mut tries = Tries::new(self.exchange.app.config.handoff.retries);
        loop {
            if let Some(answered) = self.once(&leg, &mut tries).await? {
                return Some(answered);
            }
            tracing::warn!(
                exchange = self.exchange.ctx.id,
                attempt = tries.failed(),
                "leg broke off, or was answered with an error under a status of success"
            );
            tokio::time::sleep(legs::retry(&self.exchange, &mut tries, None)?).await;
        }
    }

    /// One answer to a leg; `Some(None)`: upstream told an error in the body or broke off, and may be asked again, since
    /// nothing of the leg was shown.
    async fn once(&self, leg: &Rewritten, tries: &mut Tries) -> Option<Option<(Bytes, LegReport)>> {
        let (_, body) = self.exchange.persist(leg, false, tries).await?;
        let id = &self.exchange.ctx.id;
        let body = match collect(&self.exchange, body).await {
            Ok(body) => body,
            Err(fault) if [Code::CLOSED.name, Code::SILENT.name].contains(&fault.code.name) => {
                tracing::warn!(exchange = id, fault = fault.message(), "leg broke off");
                return Some(None);
            }
            Err(fault) => {
                tracing::error!(exchange = id, fault = fault.message(), "leg cannot be read");
                return None;
            }
        };
        match self.exchange.read_reply(&body) {
            Some(report) if report.stop != Stop::Error => Some(Some((body, report))),
            Some(_) => Some(None),
            None if wire::tells_error(&body) => Some(None),
            None => {
                tracing::error!(exchange = id, "leg answered with what is no reply of this API");
                None
            }
        }
    }

    fn lost(&self) -> Ending {
        match &self.shown {
            Some(handoff) => Ending::Lost {
                next_input: self.exchange.next_input(handoff),
            },
            None => Ending::WithoutCall,
        }
    }

    /// Writes down what stands behind the reply's id.
    async fn write_id(&self, ending: Ending) {
        let (Some(first), Some(last)) = (self.legs.first(), self.legs.last()) else {
            return;
        };
        let behind = self
            .exchange
            .behind(ending, self.shown.as_deref(), last.report.id.clone());
        if let Some(behind) = behind.filter(|b| *b != first.report.id) {
            self.exchange.write_id(&first.report.id, &behind).await;
        }
    }

    /// The reply as the agent gets it; upstream's own bytes where nothing is to be changed.
    fn joined(&self, ending: Ending, opening: Option<&Handoff>) -> Bytes {
        let wire = self.exchange.prepared.wire;
        let untouched = self.legs.len() == 1
            && opening.is_none()
            && ending == Ending::Own
            && self.legs[0].report.hidden.is_empty()
            && self.legs[0].report.broken_up == 0;
        let view = &self.exchange.prepared.reading.view;
        if untouched {
            return wire.as_asked(view, self.legs[0].body.clone());
        }
        let opening = opening.map(|h| self.exchange.sentinel(h));
        wire.as_asked(view, wire.join(&self.legs, opening.as_deref(), ending))
    }
}

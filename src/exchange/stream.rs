//! A streamed answer: the body that the server polls. It polls upstream itself; between two legs it waits for
//! the store and for upstream, and keeps the agent's line alive meanwhile.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use super::answer::Exchange;
use super::legs::{self, Tries};
use super::pieces::Pieces;
use super::put_by::{PutBy, TakenBack};
use crate::course::{Circumstances, Refused, StreamMerge, Verdict};
use crate::mark::aside;
use crate::proxy::download::{StreamFault, UpstreamBody};
use crate::record::{Handoff, HandoffId, HiddenPair};
use crate::rewrite::{Cut, Rewritten};
use crate::store::StoreError;
use crate::telemetry::Outcome;
use crate::wire::{Ending, LegReport, Spoken, Stop};

/// What goes on between two legs.
type Work = Pin<Box<dyn Future<Output = Next> + Send>>;

/// The body of a streamed answer.
pub(super) struct Driver {
    exchange: Exchange,
    /// The request, until a later leg needs it.
    put_by: Option<PutBy>,
    merge: StreamMerge,
    phase: Phase,
    out: Pieces,
    now: Circumstances,
    /// What the present leg was cut at, and what was appended to it, for asking again.
    base: Base,
    /// Tries of the present leg.
    tries: Tries,
    /// The last handoff shown.
    shown: Option<Arc<Handoff>>,
    /// Upstream's id of the first leg: the one that the agent knows.
    first_id: Option<String>,
    /// Whether anything of our own was shown.
    said: bool,
    quiet: Option<Pin<Box<Sleep>>>,
}

enum Phase {
    Leg(UpstreamBody),
    Between(Work),
    Done,
    Broken(StreamFault),
}

/// What the present leg's request was made of.
#[derive(Clone, Default)]
struct Base {
    head: Option<String>,
    more: Vec<String>,
}

/// How the work between two legs came out.
enum Next {
    TakenBack(io::Result<TakenBack>),
    Handoff(Result<Handoff, StoreError>),
    Beside(Result<(), StoreError>),
    Aside(Result<(HiddenPair, Option<String>), StoreError>),
    Leg(Option<UpstreamBody>, Tries),
    Close(Ending),
}

impl Driver {
    pub(super) fn new(
        mut exchange: Exchange,
        body: UpstreamBody,
        now: Circumstances,
        opening: Option<Arc<Handoff>>,
    ) -> Self {
        let dialect = exchange
            .prepared
            .wire
            .dialect(&exchange.prepared.reading.view, exchange.watch());
        let limit = exchange.app.config.limits.frame_bytes;
        let keep = exchange.tooled;
        let tries = Tries::new(exchange.app.config.handoff.retries);
        let mut merge = match exchange.framing() {
            Some(framing) => StreamMerge::framed(dialect, framing, limit, keep),
            None => StreamMerge::new(dialect, limit, keep),
        };
        let mut base = Base::default();
        if let Some(handoff) = &opening {
            merge.open_with(exchange.sentinel(handoff));
            base.head = Some(handoff.head.clone());
        }
        if now.pending.is_some() {
            merge.hold_ends();
        }
        // Behind a sentinel that was shown before, a leg may fail and be asked for again.
        let put_by = opening.is_none().then(|| exchange.put_by());
        Self {
            exchange,
            put_by,
            merge,
            phase: Phase::Leg(body),
            out: Pieces::default(),
            now,
            base,
            tries,
            first_id: None,
            said: opening.is_some(),
            shown: opening,
            quiet: None,
        }
    }

    fn feed(&mut self, chunk: Bytes) {
        let out = self.out.chunk(chunk.len());
        self.merge.feed(chunk, out);
    }

    /// The leg has ended: what it came to decides what comes next. The request is taken back where it is needed.
    fn leg_ended(&mut self) {
        let verdict = self.merge.judge(&self.now);
        let needed = matches!(verdict, Verdict::Fire { .. } | Verdict::AskAgain(_));
        match self.put_by.take_if(|_| needed || self.merge.report().again) {
            Some(put_by) => {
                let prepared = self.exchange.prepared.clone();
                self.work(async move { Next::TakenBack(put_by.read(prepared).await) });
            }
            None => self.came_to(verdict),
        }
    }

    fn came_to(&mut self, verdict: Verdict) {
        let report = self.merge.report().clone();
        self.exchange.count(&report);
        self.first_id.get_or_insert_with(|| report.id.clone());
        if report.again {
            return self.failed_early();
        }
        self.tries = Tries::new(self.exchange.app.config.handoff.retries);
        match verdict {
            Verdict::End(ending) => self.close(ending, &report),
            Verdict::Fire { prompt, reason } => {
                let exchange = self.exchange.clone();
                let active = exchange.prepared.active.as_ref().map(|a| a.id);
                let parent = self.shown.as_ref().map(|h| h.id).or(active);
                self.work(async move { Next::Handoff(exchange.write_handoff(prompt, reason, parent).await) });
            }
            Verdict::Mixed(all) => {
                let exchange = self.exchange.clone();
                self.work(async move { Next::Beside(exchange.write_beside(all, &report).await) });
            }
            Verdict::AskAgain(refused) => self.ask_again(refused, &report),
        }
    }

    /// A later leg answered with an error event before anything of it was shown.
    fn failed_early(&mut self) {
        match legs::retry(&self.exchange, &mut self.tries, None) {
            Some(pause) => self.next_leg(pause),
            None => self.lost(),
        }
    }

    /// The leg is over, and its connection goes back to the pool once the body's own end was read.
    fn let_go(&mut self) {
        if let Phase::Leg(body) = std::mem::replace(&mut self.phase, Phase::Done) {
            body.drained();
        }
    }

    fn ask_again(&mut self, refused: Refused, report: &LegReport) {
        let Some(spoken) = self.merge.spoken() else {
            return self.close(Ending::WithoutCall, report);
        };
        let exchange = self.exchange.clone();
        self.work(async move { Next::Aside(aside(&exchange, refused, &spoken).await) });
    }

    fn work(&mut self, work: impl Future<Output = Next> + Send + 'static) {
        self.phase = Phase::Between(Box::pin(work));
    }

    fn worked(&mut self, next: Next) {
        match next {
            Next::TakenBack(Ok(back)) => {
                self.exchange.take_back(back);
                self.leg_ended();
            }
            Next::TakenBack(Err(error)) => {
                tracing::error!(exchange = self.exchange.ctx.id, %error, "the request cannot be had again");
                self.came_to(Verdict::End(Ending::WithoutCall));
            }
            Next::Handoff(Ok(handoff)) => self.hand_over(handoff),
            Next::Handoff(Err(error)) => {
                // Not written, so not shown: the turn ends as if the call had not been made.
                tracing::error!(exchange = self.exchange.ctx.id, %error, "handoff not written");
                let report = self.merge.report().clone();
                self.close(Ending::WithoutCall, &report);
            }
            Next::Beside(written) => {
                if let Err(error) = written {
                    tracing::error!(exchange = self.exchange.ctx.id, %error, "hidden call not written");
                }
                let report = self.merge.report().clone();
                self.close(Ending::Own, &report);
            }
            Next::Aside(Ok((pair, Some(more)))) => {
                let text = self.exchange.prepared.wire.sentinel_text(&aside::line(pair.id));
                self.say(&text);
                self.base.more.push(more);
                self.now.asked += 1;
                self.next_leg(Duration::ZERO);
            }
            Next::Aside(failed) => {
                if let Err(error) = failed {
                    tracing::error!(exchange = self.exchange.ctx.id, %error, "refused call not written");
                }
                let report = self.merge.report().clone();
                self.close(Ending::WithoutCall, &report);
            }
            Next::Leg(Some(body), tries) => {
                self.tries = tries;
                self.merge.next_leg();
                self.phase = Phase::Leg(body);
            }
            Next::Leg(None, _) => self.lost(),
            Next::Close(ending) => self.finish(ending),
        }
    }

    /// The handoff is written: its sentinel is shown, and the next leg begins.
    fn hand_over(&mut self, handoff: Handoff) {
        let text = self.exchange.sentinel(&handoff);
        self.say(&text);
        self.base = Base {
            head: Some(handoff.head.clone()),
            more: Vec::new(),
        };
        let handoff = Arc::new(handoff);
        self.shown = Some(handoff.clone());
        self.now = Circumstances {
            legs: self.now.legs + 1,
            pending: None,
            asked: 0,
            ..self.now.clone()
        };
        if self.exchange.stops() {
            let next_input = self.exchange.next_input(&handoff);
            return self.end(Ending::Stopped { next_input });
        }
        self.next_leg(Duration::ZERO);
    }

    fn next_leg(&mut self, pause: Duration) {
        let (exchange, base) = (self.exchange.clone(), self.base.clone());
        let behind = self.shown.as_ref().map(|handoff| handoff.id);
        let mut tries = self.tries;
        self.work(async move {
            // A timer counts whole milliseconds: no pause is not the shortest one.
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let leg = exchange.leg(base.head.as_deref(), &base.more, behind);
            let answered = exchange.persist(&leg, true, &mut tries).await;
            Next::Leg(answered.map(|(_, body)| body), tries)
        });
    }

    /// The next leg could not be had: the response ends behind what was shown.
    fn lost(&mut self) {
        let ending = match &self.shown {
            Some(handoff) => Ending::Lost {
                next_input: self.exchange.next_input(handoff),
            },
            // Of the refused call's leg nothing is left to end with.
            None => Ending::Stopped {
                next_input: self
                    .exchange
                    .tokens_of(self.base.head.as_deref(), &self.base.more),
            },
        };
        self.end(ending);
    }

    fn close(&mut self, ending: Ending, report: &LegReport) {
        if report.leaves_unfit(self.said) {
            self.say(NOTHING_SAID);
        }
        self.end(ending);
    }

    /// Ends the response; what stands behind its id is written down first.
    fn end(&mut self, ending: Ending) {
        let last = self.merge.report().id.clone();
        let behind = self.exchange.behind(ending, self.shown.as_deref(), last);
        match (self.first_id.take().filter(|id| !id.is_empty()), behind) {
            (Some(shown), Some(behind)) if shown != behind => {
                let exchange = self.exchange.clone();
                self.work(async move {
                    exchange.write_id(&shown, &behind).await;
                    Next::Close(ending)
                });
            }
            _ => self.finish(ending),
        }
    }

    fn finish(&mut self, ending: Ending) {
        let mut out = Vec::new();
        self.merge.close(ending, &mut out);
        self.out.extend(out);
        self.phase = Phase::Done;
    }

    fn say(&mut self, text: &str) {
        self.said = true;
        let mut out = Vec::new();
        self.merge.say(text, &mut out);
        self.out.extend(out);
    }

    /// Polls what there is to poll; `Ready` when there may be something to send.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.phase {
            Phase::Done | Phase::Broken(_) => Poll::Ready(()),
            Phase::Between(work) => match work.as_mut().poll(cx) {
                Poll::Ready(next) => {
                    self.worked(next);
                    Poll::Ready(())
                }
                Poll::Pending => self.keep_alive(cx),
            },
            Phase::Leg(body) => match Pin::new(body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(chunk) = frame.into_data() {
                        self.feed(chunk);
                    }
                    if self.merge.failed() {
                        let why = "an event is over limits.frame_bytes".to_owned();
                        self.phase = Phase::Broken(StreamFault::Closed(why));
                    } else if self.merge.leg_ended() {
                        self.let_go();
                        self.leg_ended();
                    }
                    Poll::Ready(())
                }
                Poll::Ready(Some(Err(fault))) => {
                    self.phase = Phase::Broken(fault);
                    Poll::Ready(())
                }
                Poll::Ready(None) => {
                    self.upstream_done();
                    Poll::Ready(())
                }
                Poll::Pending if self.out.asks_for_more(cx) => Poll::Pending,
                Poll::Pending if !self.out.is_empty() => Poll::Ready(()),
                Poll::Pending if self.merge.withholding() => self.keep_alive(cx),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    /// Upstream's body is at its end without the leg's last event having been seen.
    fn upstream_done(&mut self) {
        let mut out = Vec::new();
        self.merge.finish_leg(&mut out);
        self.out.extend(out);
        let report = self.merge.report();
        if report.ended || report.stop.natural() {
            return self.leg_ended();
        }
        if report.stop == Stop::Error {
            // The agent was told, and nothing comes behind it.
            self.exchange.count(report);
            self.phase = Phase::Done;
            return;
        }
        if self.merge.withholding() || self.now.legs > 1 {
            // Ending here in silence would look complete to some agents.
            self.phase = Phase::Broken(StreamFault::Closed(
                "the stream ended before its last event".to_owned(),
            ));
        } else {
            self.exchange.count(report);
            if report.stop == Stop::Open {
                self.exchange.ctx.meter.decide(Outcome::Truncated);
            }
            self.phase = Phase::Done;
        }
    }

    /// Sends a keep-alive when nothing was sent for as long as the config says.
    fn keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let every = self.exchange.app.config.handoff.keepalive;
        let sleep = self
            .quiet
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(every)));
        if sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // A wire that has nothing to say yet is asked again later, and not at once.
        sleep.as_mut().reset(Instant::now() + every);
        let mut out = Vec::new();
        self.merge.keepalive(&mut out);
        self.out.extend(out);
        Poll::Ready(())
    }

    /// The last piece is on its way: agents may leave before they are told that there is no more.
    fn ended(&mut self) {
        let outcome = Outcome::of_end(self.merge.report().stop);
        self.exchange.ctx.meter.decide(outcome);
        if outcome == Outcome::Complete {
            self.exchange.ended();
        }
    }

    fn sent_something(&mut self) {
        // The next silence begins anew.
        self.quiet = None;
    }
}

/// Shown where a turn would otherwise hold nothing, or end in thinking: agents send such a message back, and
/// it is refused.
pub(super) const NOTHING_SAID: &str = "(The session goes on.)";

/// Writes a refused call down, and makes what asks the model again.
async fn aside(
    exchange: &Exchange,
    refused: Refused,
    spoken: &Spoken,
) -> Result<(HiddenPair, Option<String>), StoreError> {
    let pair = exchange.write_aside(refused).await?;
    let more = exchange
        .prepared
        .wire
        .ask_again(spoken, std::slice::from_ref(&pair));
    Ok((pair, more))
}

impl Exchange {
    /// The request of a later leg: afresh behind the `head` of the handoff `shown`, or the first one's, with `more`
    /// behind it.
    pub(super) fn leg(&self, head: Option<&str>, more: &[String], shown: Option<HandoffId>) -> Rewritten {
        let cut = head.map_or_else(|| self.prepared.cut(), |head| Cut::Fresh { head });
        let active = self.prepared.active.as_ref().map(|active| active.id);
        self.prepared
            .rewritten(&self.app, cut, true, more)
            .cut_at(shown.or(active))
    }
}

impl Body for Driver {
    type Data = Bytes;
    type Error = StreamFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamFault>>> {
        loop {
            let due = self.out.are_due() || !matches!(self.phase, Phase::Leg(_));
            if let Some(piece) = due.then(|| self.out.take()).flatten() {
                self.sent_something();
                if self.is_end_stream() {
                    self.ended();
                }
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            match &self.phase {
                Phase::Done => {
                    self.ended();
                    return Poll::Ready(None);
                }
                Phase::Broken(fault) => {
                    let fault = fault.clone();
                    tracing::warn!(exchange = self.exchange.ctx.id, %fault, "upstream broke off");
                    self.phase = Phase::Done;
                    return Poll::Ready(Some(Err(fault)));
                }
                Phase::Leg(_) | Phase::Between(_) => {}
            }
            if self.advance(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // A server takes one piece more than the connection has room for. Where it matters whether the last one was
        // handed over, it has to ask once more.
        matches!(self.phase, Phase::Done) && self.out.is_empty() && self.exchange.may_repeat().is_none()
    }
}

//! A streamed answer: the body that the server polls. It polls upstream itself; between two legs it waits for
//! the store and for upstream, and keeps the agent's line alive meanwhile.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use super::answer::Exchange;
use crate::handoff::plan::Cut;
use crate::handoff::record::{Handoff, HiddenPair};
use crate::handoff::sentinel;
use crate::merge::{Circumstances, Refused, StreamMerge, Verdict};
use crate::proxy::download::{StreamFault, UpstreamBody};
use crate::store::StoreError;
use crate::wire::{Ending, LegReport, Spoken};

/// What goes on between two legs.
type Work = Pin<Box<dyn Future<Output = Next> + Send>>;

/// The body of a streamed answer.
pub(super) struct Driver {
    exchange: Exchange,
    merge: StreamMerge,
    phase: Phase,
    out: VecDeque<Bytes>,
    now: Circumstances,
    /// What the present leg was cut at, and what was appended to it, for asking again.
    base: Base,
    /// The last handoff shown.
    shown: Option<Arc<Handoff>>,
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
    Handoff(Result<Handoff, StoreError>),
    Beside(Result<(), StoreError>),
    Aside(Result<(HiddenPair, Option<String>), StoreError>),
    Leg(Option<UpstreamBody>),
}

impl Driver {
    pub(super) fn new(
        exchange: Exchange,
        body: UpstreamBody,
        now: Circumstances,
        opening: Option<Arc<Handoff>>,
    ) -> Self {
        let dialect = exchange.prepared.wire.dialect(&exchange.prepared.reading.view);
        let mut merge = StreamMerge::new(dialect, exchange.app.config.limits.frame_bytes);
        let mut base = Base::default();
        if let Some(handoff) = &opening {
            merge.open_with(exchange.sentinel(handoff));
            base.head = Some(handoff.head.clone());
        }
        if now.pending.is_some() {
            merge.hold_ends();
        }
        Self {
            exchange,
            merge,
            phase: Phase::Leg(body),
            out: VecDeque::new(),
            now,
            base,
            shown: opening,
            quiet: None,
        }
    }

    fn feed(&mut self, chunk: Bytes) {
        let mut out = Vec::new();
        self.merge.feed(chunk, &mut out);
        self.out.extend(out);
    }

    /// The leg has ended: what it came to decides what comes next.
    fn leg_ended(&mut self) {
        let report = self.merge.report().clone();
        self.exchange.count(report.usage, report.broken_up);
        match self.merge.judge(&self.now) {
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
                let text = self
                    .exchange
                    .prepared
                    .wire
                    .sentinel_text(&sentinel::aside(pair.id));
                self.say(&text);
                self.base.more.push(more);
                self.now.asked += 1;
                self.next_leg();
            }
            Next::Aside(failed) => {
                if let Err(error) = failed {
                    tracing::error!(exchange = self.exchange.ctx.id, %error, "refused call not written");
                }
                let report = self.merge.report().clone();
                self.close(Ending::WithoutCall, &report);
            }
            Next::Leg(Some(body)) => {
                self.merge.next_leg();
                self.phase = Phase::Leg(body);
            }
            Next::Leg(None) => self.lost(),
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
        self.next_leg();
    }

    fn next_leg(&mut self) {
        let (exchange, base) = (self.exchange.clone(), self.base.clone());
        self.work(async move {
            let rope = exchange.leg_rope(base.head.as_deref(), &base.more);
            Next::Leg(exchange.persist(rope, true).await.map(|(_, body)| body))
        });
    }

    /// The next leg could not be had: the response ends behind what was shown.
    fn lost(&mut self) {
        let ending = match &self.shown {
            Some(handoff) => Ending::Lost {
                next_input: self.exchange.next_input(handoff),
            },
            None => Ending::WithoutCall,
        };
        self.end(ending);
    }

    fn close(&mut self, ending: Ending, report: &LegReport) {
        if ending == Ending::WithoutCall && report.parts == 0 && self.shown.is_none() {
            // A message of nothing at all is refused when the agent sends it back.
            self.say(NOTHING_SAID);
        }
        self.end(ending);
    }

    fn end(&mut self, ending: Ending) {
        let mut out = Vec::new();
        self.merge.close(ending, &mut out);
        self.out.extend(out);
        self.phase = Phase::Done;
    }

    fn say(&mut self, text: &str) {
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
                    if self.merge.leg_ended() {
                        if let Phase::Leg(body) = std::mem::replace(&mut self.phase, Phase::Done) {
                            body.read_out();
                        }
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
        if self.merge.withholding() || self.now.legs > 1 {
            // Ending here in silence would look complete to some agents.
            self.phase = Phase::Broken(StreamFault::Closed(
                "the stream ended before its last event".to_owned(),
            ));
        } else {
            self.exchange.count(report.usage, report.broken_up);
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
        let mut out = Vec::new();
        self.merge.keepalive(&mut out);
        self.out.extend(out);
        Poll::Ready(())
    }

    fn sent_something(&mut self) {
        let every = self.exchange.app.config.handoff.keepalive;
        if let Some(sleep) = &mut self.quiet {
            sleep.as_mut().reset(Instant::now() + every);
        }
    }
}

/// Shown where a turn would otherwise hold nothing at all.
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
    /// The request of a later leg: afresh behind `head`, or the first one's, with `more` behind it.
    pub(super) fn leg_rope(&self, head: Option<&str>, more: &[String]) -> Vec<Bytes> {
        let active = self.prepared.active.as_ref();
        let cut = match (head, active) {
            (Some(head), _) => Cut::Fresh { head },
            (None, Some(a)) => Cut::At {
                candidate: &a.candidate,
                prompt: &a.prompt,
                head: &a.head,
            },
            (None, None) => Cut::None,
        };
        self.prepared.rewritten(&self.app, cut, true, more).rope
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
            if let Some(piece) = self.out.pop_front() {
                self.sent_something();
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            match &self.phase {
                Phase::Done => {
                    self.exchange.forget();
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
}

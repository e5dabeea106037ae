//! Polls a connection's task until it has nothing to do, without the scheduler in between. Then does the work that could wait.
//!
//! hyper wakes the task of a connection from inside its poll: whoever takes a piece of a request's body wakes the sender, which
//! is the same task. The scheduler would poll the task again only after others, and would first wake another thread to take it
//! over: a system call for each piece, and cold caches there.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::AcqRel};
use std::task::{Context, Poll, Wake, Waker};

/// Maximum polls in a row, so that a large request does not keep other tasks waiting. A piece has up to 64 KiB.
const POLLS: usize = 32;

/// A future that is polled again at once if it has woken itself.
pub(super) struct Turn<F> {
    future: Pin<Box<F>>,
    /// The task's waker, wrapped, once there is one.
    wakes: Option<(Arc<Wakes>, Waker)>,
}

/// While the future is polled, its task need not be woken.
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

struct Wakes {
    task: Waker,
    state: AtomicU8,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, AcqRel) & POLLED == 0 {
            self.task.wake_by_ref();
        }
    }
}

type Later = Box<dyn FnOnce()>;

thread_local! {
    /// Work for the end of the turn. `None` outside of one.
    static LATER: RefCell<Option<Vec<Later>>> = const { RefCell::new(None) };
}

/// Does this at the end of the thread's turn, when all that the connection has to send is sent. Outside of a turn, does it now.
pub(crate) fn afterwards(work: impl FnOnce() + 'static) {
    let mut work: Option<Later> = Some(Box::new(work));
    LATER.with_borrow_mut(|later| later.iter_mut().for_each(|later| later.extend(work.take())));
    work.into_iter().for_each(|work| work());
}

/// Does the work for the end of a turn on drop, even after a panic.
struct DoneLater;

impl Drop for DoneLater {
    fn drop(&mut self) {
        for work in LATER.take().into_iter().flatten() {
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                tracing::error!("work at the end of a turn panicked; continuing without it");
            }
        }
    }
}

impl<F> Turn<F> {
    pub(super) fn new(future: F) -> Self {
        Self {
            // Boxed: otherwise a task reserves space for its largest future for its whole lifetime.
            future: Box::pin(future),
            wakes: None,
        }
    }
}

impl<F: Future> Future for Turn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, wakes } = &mut *self;
        // A task keeps its waker. Whoever kept the wrapper of another one wakes that one.
        wakes.take_if(|(wakes, _)| !wakes.task.will_wake(cx.waker()));
        let (wakes, waker) = wakes.get_or_insert_with(|| {
            let task = cx.waker().clone();
            let wakes = Arc::new(Wakes {
                task,
                state: AtomicU8::default(),
            });
            (Arc::clone(&wakes), wakes.into())
        });
        LATER.set(Some(Vec::new()));
        let _later = DoneLater;
        for _ in 0..POLLS {
            wakes.state.swap(POLLED, AcqRel);
            let polled = future.as_mut().poll(&mut Context::from_waker(waker));
            if wakes.state.swap(0, AcqRel) & WOKEN == 0 || polled.is_ready() {
                return polled;
            }
        }
        wakes.task.wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use super::*;

    /// Polls that are ready after `ready` of them. Each wakes itself.
    fn busy(ready: usize, polls: Arc<AtomicUsize>) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            match polls.fetch_add(1, SeqCst) + 1 >= ready {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
    }

    fn poll<F: Future>(turn: &mut Turn<F>) -> Poll<F::Output> {
        Pin::new(turn).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_future_that_wakes_itself_is_polled_again_but_not_for_ever() {
        let polls = Arc::<AtomicUsize>::default();
        assert_eq!(poll(&mut Turn::new(busy(POLLS, polls.clone()))), Poll::Ready(()));
        assert_eq!(polls.swap(0, SeqCst), POLLS);
        assert_eq!(
            poll(&mut Turn::new(busy(usize::MAX, polls.clone()))),
            Poll::Pending
        );
        assert_eq!(polls.load(SeqCst), POLLS);
    }

    /// Wakes from other threads, at any time, and the task's own ones arrive.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_is_lost() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let sends = tokio::spawn(async move {
            for number in 0..50_000 {
                sender.send(number).await.unwrap();
            }
        });
        let polls = Arc::<AtomicUsize>::default();
        let received = Turn::new(async move {
            busy(3 * POLLS, polls).await;
            let mut sum = 0u64;
            while let Some(number) = receiver.recv().await {
                sum += number;
            }
            sum
        });
        let sum = tokio::time::timeout(Duration::from_secs(60), tokio::spawn(received)).await;
        assert_eq!(sum.unwrap().unwrap(), 50_000 * 49_999 / 2);
        sends.await.unwrap();
    }

    #[test]
    fn work_waits_for_the_end_of_the_turn_even_if_it_panics() {
        let done = Arc::<AtomicUsize>::default();
        let add = |number: usize| {
            let done = done.clone();
            move || {
                done.fetch_add(number, SeqCst);
            }
        };
        afterwards(add(1));
        assert_eq!(done.load(SeqCst), 1, "outside of a turn at once");
        let mut turn = Turn::new(poll_fn(|_| {
            afterwards(add(10));
            afterwards(|| panic!("on purpose"));
            afterwards(add(100));
            assert_eq!(done.load(SeqCst), 1);
            Poll::<()>::Pending
        }));
        assert_eq!(poll(&mut turn), Poll::Pending);
        assert_eq!(done.load(SeqCst), 111);
        let mut turn = Turn::new(poll_fn(|_| -> Poll<()> {
            afterwards(add(1000));
            panic!("on purpose")
        }));
        assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut turn))).is_err());
        assert_eq!(done.load(SeqCst), 1111);
    }
}

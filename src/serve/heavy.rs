//! Keeps heavy work from blocking other agents.
//!
//! Work is heavy if it may take more than a millisecond. The future of a heavy request is polled as a whole
//! outside the runtime's threads, so its stages need not declare that they are heavy.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::ready;
use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Minimum weight of work that leaves the runtime's threads.
///
/// 4 MB of an ordinary request are read and rewritten in about a millisecond.
const HEAVY: usize = 4 << 20;

/// Weight of a candidate marker. Finding and placing it takes as long as this many ordinary bytes.
const MARK: usize = 1 << 10;

/// Weight of an opening brace, which stands for a message or a part. In each pass one costs about 120 ns, whatever
/// its size.
const CONTAINER: usize = 512;

/// Random bits that choose the blocks whose braces count.
pub(crate) static SAMPLE: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

/// Boxed future that may be offloaded.
pub(crate) type OffloadedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Wraps a future so that each of its polls is work of this weight, and has a place. A light one is returned unchanged.
pub(crate) fn offloaded<T: 'static>(weight: usize, mut future: OffloadedFuture<T>) -> OffloadedFuture<T> {
    if !is_heavy(weight) {
        return future;
    }
    let take = || Box::pin(Arc::clone(&PLACES).acquire_owned());
    let mut taken = take();
    Box::pin(poll_fn(move |cx| {
        if HAS_PLACE.get() {
            // Inside another heavy future, which would wait for this one while it has the place.
            return future.as_mut().poll(cx);
        }
        let _place = ready!(taken.as_mut().poll(cx));
        taken = take();
        work(weight, || {
            HAS_PLACE.set(true);
            let _reset = Reset;
            future.as_mut().poll(cx)
        })
    }))
}

thread_local! {
    static HAS_PLACE: Cell<bool> = const { Cell::new(false) };
}

/// Notes on drop that the thread's work has no place any more.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        HAS_PLACE.set(false);
    }
}

/// Places of heavy futures that are polled at the same time.
///
/// While a handoff of many small messages is prepared, it takes a hundred times their size in memory, and more of them
/// than processors would finish no sooner.
static PLACES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(places())));

fn places() -> usize {
    // Two at least, so that one request does not keep all others waiting.
    available_parallelism().map_or(2, |number| number.get().max(2))
}

/// Weight of a request in ordinary bytes. `stems` is the number of candidate markers.
pub(crate) fn weight(bytes: usize, stems: usize, braces: usize) -> usize {
    let marks = stems.saturating_mul(MARK);
    let containers = braces.saturating_mul(CONTAINER);
    bytes.saturating_add(marks).saturating_add(containers)
}

/// Runs work of this weight. Heavy work does not keep the thread's other tasks waiting.
pub(crate) fn work<T>(weight: usize, work: impl FnOnce() -> T) -> T {
    // `block_in_place` panics on a runtime with one thread.
    if is_heavy(weight) && has_other_threads() {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

fn is_heavy(weight: usize) -> bool {
    weight >= HEAVY
}

fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use baton_core::rewrite::BodyScan;

    use super::*;

    /// The runtime has one thread, and the work ends only after another task has run.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_heavy_work_goes_on() {
        let (done, waits) = mpsc::channel();
        let heavy = tokio::spawn(async move {
            tokio::spawn(async move { done.send(()) });
            work(HEAVY, move || waits.recv_timeout(Duration::from_secs(20)))
        });
        assert_eq!(heavy.await.unwrap(), Ok(()));
    }

    /// A stage after an await is as heavy as one before it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_during_every_poll_of_a_heavy_future() {
        let blocks_for_another_task = || {
            let (done, waits) = mpsc::channel();
            tokio::spawn(async move { done.send(()) });
            waits.recv_timeout(Duration::from_secs(20))
        };
        let future = async move {
            let first = blocks_for_another_task();
            tokio::task::yield_now().await;
            (first, blocks_for_another_task())
        };
        let heavy = tokio::spawn(offloaded(HEAVY, Box::pin(future)));
        assert_eq!(heavy.await.unwrap(), (Ok(()), Ok(())));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn no_more_heavy_work_runs_at_once_than_there_are_processors() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let heavy = (0..4 * places()).map(|_| {
            let runs = || {
                let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
                std::thread::sleep(Duration::from_millis(20));
                RUNNING.fetch_sub(1, Ordering::SeqCst);
                running
            };
            let future = async move {
                let first = runs();
                // A future that waits has no place.
                tokio::time::sleep(Duration::from_millis(1)).await;
                first.max(offloaded(HEAVY, Box::pin(async move { runs() })).await)
            };
            tokio::spawn(offloaded(HEAVY, Box::pin(future)))
        });
        for task in heavy.collect::<Vec<_>>() {
            let running = task.await.unwrap();
            assert!(running <= places(), "{running}");
        }
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_it_at_once() {
        assert_eq!(work(HEAVY, || 1), 1);
        assert_eq!(work(0, || 2), 2);
        assert_eq!(offloaded(HEAVY, Box::pin(async { 3 })).await, 3);
    }

    #[test]
    fn marks_weigh_more_than_text() {
        assert_eq!(weight(3, 0, 0), 3);
        assert_eq!(weight(3, 9, 0), 3 + 9 * MARK);
    }

    #[test]
    fn many_small_messages_or_parts_are_heavy_and_as_much_prose_is_not() {
        let message = r#"{"role":"user","content":"a"}"#;
        let count = 3_900_000 / (message.len() + 1);
        let messages = format!(r#"{{"messages":[{}]}}"#, vec![message; count].join(","));
        let part = r#"{"type":"text","text":"a"}"#;
        let parts = vec![part; count].join(",");
        let parts = format!(r#"{{"messages":[{{"role":"user","content":[{parts}]}}]}}"#);
        for text in [&messages, &parts] {
            assert!(text.len() < HEAVY);
            let braces = BodyScan::new(text.as_bytes(), *SAMPLE).braces;
            let exact = text.matches('{').count();
            assert!(braces.abs_diff(exact) < exact / 50, "{braces} {exact}");
            assert!(weight(text.len(), 0, braces) >= HEAVY);
        }
        // Braces that keep out of every fourth block.
        let hidden = format!("{:64}{}", "", "{}".repeat(96)).repeat(3_900_000 / 256);
        let braces = BodyScan::new(hidden.as_bytes(), *SAMPLE).braces;
        assert!(weight(hidden.len(), 0, braces) >= HEAVY);
        let prose = 3_900_000;
        assert!(weight(prose, 0, 0) < HEAVY);
    }
}

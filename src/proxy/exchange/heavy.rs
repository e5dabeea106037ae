//! Work on a request that would hold up other agents: anything that may take more than a millisecond.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::skim::Skim;

/// Weight from which work leaves the runtime's threads: 4 MB of an ordinary request are read and rewritten in about a
/// millisecond.
const HEAVY: usize = 4 << 20;

/// What something that looks like a mark of ours weighs: it is found and placed in the time of so many ordinary bytes.
const MARK: usize = 1 << 10;

/// How much work a request is, in ordinary bytes.
pub(super) fn weight(text: &[u8], skim: &Skim) -> usize {
    text.len().saturating_add(skim.stem_count().saturating_mul(MARK))
}

/// Does work of this weight; what is heavy does not keep the thread's other tasks waiting.
pub(super) fn work<T>(weight: usize, work: impl FnOnce() -> T) -> T {
    if weight >= HEAVY && has_other_threads() {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// The runtime has one thread, and the work ends only when another task has run.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_heavy_work_goes_on() {
        let (done, waits) = mpsc::channel();
        let heavy = tokio::spawn(async move {
            tokio::spawn(async move { done.send(()) });
            work(HEAVY, move || waits.recv_timeout(Duration::from_secs(20)))
        });
        assert_eq!(heavy.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_it_at_once() {
        assert_eq!(work(HEAVY, || 1), 1);
        assert_eq!(work(0, || 2), 2);
    }

    #[test]
    fn marks_weigh_more_than_text() {
        assert_eq!(weight(b"[1]", &Skim::default()), 3);
    }
}

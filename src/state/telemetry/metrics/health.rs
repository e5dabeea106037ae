//! Metrics of the process itself: readiness, the store, waiting requests, memory and descriptors.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{Labels, add, labels};

/// Values of the label `operation`, in the order of [`HealthMetrics::note`].
const OPERATIONS: [&str; 2] = ["read", "write"];

pub(super) struct HealthMetrics {
    ready: Gauge,
    config_current: Gauge,
    store_up: Family<Labels, Gauge>,
    waiting: Gauge,
    /// Bytes of memory, and open descriptors. `None` if the system does not report them.
    process: Option<[Gauge; 2]>,
}

impl HealthMetrics {
    #[rustfmt::skip]
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            ready: add(r, "baton_ready", "1 if every required dependency works and the process is not stopping, else 0", Gauge::default()),
            config_current: add(r, "baton_config_current", "1 if the newest config is in use, 0 if it was refused", Gauge::default()),
            store_up: add(r, "baton_store_up", "1 if this operation of the store works, else 0", Family::default()),
            waiting: add(r, "baton_waiting_exchanges", "Requests that wait for a slot of limits.max_concurrent_requests", Gauge::default()),
            process: process().is_some().then(|| [
                add(r, "process_resident_memory_bytes", "Resident memory", Gauge::default()),
                add(r, "process_open_fds", "Open file descriptors", Gauge::default()),
            ]),
        }
    }

    /// Sets the result of the latest readiness check.
    pub(super) fn note(&self, is_ready: bool, store_up: [bool; 2], config_current: bool) {
        self.ready.set(i64::from(is_ready));
        self.config_current.set(i64::from(config_current));
        for (operation, is_up) in OPERATIONS.into_iter().zip(store_up) {
            let up = self
                .store_up
                .get_or_create_owned(&labels([("operation", operation)]));
            up.set(i64::from(is_up));
        }
    }

    /// Sets the number of waiting requests.
    pub(super) fn note_waiting(&self, waiting: usize) {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Updates the values that the system reports.
    pub(super) fn refresh(&self) {
        if let (Some(gauges), Some(values)) = (&self.process, process()) {
            for (gauge, value) in gauges.iter().zip(values) {
                gauge.set(value);
            }
        }
    }
}

/// Returns the bytes of resident memory and the number of open descriptors, as far as the system has `/proc`.
fn process() -> Option<[i64; 2]> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = resident.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    Some([kilobytes * 1024, i64::try_from(open).ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn the_state_of_the_process_is_exported() {
        let mut registry = Registry::default();
        let health = HealthMetrics::new(&mut registry);
        health.note(false, [true, false], false);
        health.note_waiting(3);
        health.refresh();
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "baton_ready 0\n",
            "baton_config_current 0\n",
            "baton_store_up{operation=\"read\"} 1\n",
            "baton_store_up{operation=\"write\"} 0\n",
            "baton_waiting_exchanges 3\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let memory = text
            .lines()
            .find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        assert_eq!(
            memory.is_some_and(|bytes| bytes != "0"),
            cfg!(target_os = "linux"),
            "{text}"
        );
    }
}

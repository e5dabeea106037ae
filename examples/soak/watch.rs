//! Memory and descriptors of the processes over time, and whether they reach a plateau.

/// The line through the last third of a stretch without restarts, after caches have filled, may rise by so much of its mean, or by these amounts,
/// whichever is more.
const SHARE: f64 = 0.10;
const OWN_MIB: f64 = 8.0;
const DESCRIPTORS: f64 = 24.0;

/// A stretch that is shorter in seconds is not judged: caches and pools fill first.
pub const SHORTEST: f64 = 60.0;

/// One sample of one process.
#[derive(Clone, Debug)]
pub struct Sample {
    pub seconds: f64,
    pub process: String,
    pub pid: u32,
    pub rss_mib: f64,
    /// The part that is not in pages of mapped files, which the system reclaims: the journal and the program are
    /// mapped.
    pub own_mib: f64,
    pub descriptors: usize,
    /// Whether no process is restarted any more in this phase.
    pub settled: bool,
}

/// How one process ran in a stretch without restarts.
#[derive(Clone, Debug)]
pub struct Plateau {
    pub process: String,
    pub seconds: f64,
    pub rss_mib: f64,
    pub own_mib: f64,
    pub own_rise_mib: f64,
    pub descriptors: f64,
    pub descriptors_rise: f64,
    /// `None`: too short to be judged.
    pub holds: Option<bool>,
}

pub fn sample(process: &str, pid: u32, seconds: f64, settled: bool) -> Option<Sample> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kib / 1024.0)
    };
    Some(Sample {
        seconds,
        process: process.to_owned(),
        pid,
        rss_mib: mib("VmRSS:")?,
        own_mib: mib("RssAnon:")?,
        descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count(),
        settled,
    })
}

/// The last process of each name, over its settled stretch.
pub fn plateaus(samples: &[Sample]) -> Vec<Plateau> {
    let mut names: Vec<&str> = samples.iter().map(|sample| sample.process.as_str()).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter_map(|name| plateau(name, samples))
        .collect()
}

fn plateau(name: &str, samples: &[Sample]) -> Option<Plateau> {
    let of_name = || {
        samples
            .iter()
            .filter(|sample| sample.process == name && sample.settled)
    };
    let pid = of_name().next_back()?.pid;
    let stretch: Vec<&Sample> = of_name().filter(|sample| sample.pid == pid).collect();
    let (first, last) = (stretch.first()?.seconds, stretch.last()?.seconds);
    let rest: Vec<&Sample> = stretch
        .into_iter()
        .filter(|sample| sample.seconds >= last - (last - first) / 3.0)
        .collect();
    let line = |value: fn(&Sample) -> f64| {
        let points: Vec<(f64, f64)> = rest
            .iter()
            .map(|sample| (sample.seconds, value(sample)))
            .collect();
        mean_and_rise(&points)
    };
    let (rss, _) = line(|sample| sample.rss_mib);
    let (own, own_rise) = line(|sample| sample.own_mib);
    let (descriptors, descriptors_rise) = line(|sample| sample.descriptors as f64);
    let holds =
        own_rise <= OWN_MIB.max(own * SHARE) && descriptors_rise <= DESCRIPTORS.max(descriptors * SHARE);
    Some(Plateau {
        process: name.to_owned(),
        seconds: last - first,
        rss_mib: rss,
        own_mib: own,
        own_rise_mib: own_rise,
        descriptors,
        descriptors_rise,
        holds: (last - first >= SHORTEST).then_some(holds),
    })
}

/// The mean of the points, and how far the least-squares line through them rises from the first to the last.
fn mean_and_rise(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut products, mut squares) = (0.0, 0.0);
    for point in points {
        products += (point.0 - x) * (point.1 - y);
        squares += (point.0 - x) * (point.0 - x);
    }
    let span = points.last().map_or(0.0, |point| point.0) - points.first().map_or(0.0, |point| point.0);
    (
        y,
        if squares > 0.0 {
            products / squares * span
        } else {
            0.0
        },
    )
}

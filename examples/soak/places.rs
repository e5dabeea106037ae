//! A disk that can be full, and a clock that can jump.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// Bytes of the small disk.
const DISK: &str = "256m";

/// Where distributions put libfaketime.
const FAKETIME: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
];

/// The directory of the state, and how it becomes full.
pub enum Disk {
    /// A file system of its own, which a file fills.
    Mounted(PathBuf),
    /// A limit on the size of each file of the process, since nothing can be mounted.
    Limited(PathBuf),
}

impl Disk {
    pub fn new(dir: &Path) -> std::io::Result<Self> {
        let place = dir.join("disk");
        std::fs::create_dir_all(&place)?;
        let size = format!("size={DISK}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "soak"])
            .arg(&place)
            .output();
        Ok(match mounted.is_ok_and(|output| output.status.success()) {
            true => Self::Mounted(place),
            false => Self::Limited(place),
        })
    }

    pub fn dir(&self) -> &Path {
        match self {
            Self::Mounted(dir) | Self::Limited(dir) => dir,
        }
    }

    /// From now on nothing can be written.
    pub fn fill(&self, pid: Option<u32>) {
        match self {
            Self::Mounted(dir) => {
                let Ok(mut file) = File::create(dir.join("filler")) else {
                    return;
                };
                let zeros = vec![0; 1 << 20];
                while file.write_all(&zeros).is_ok() {}
                while file.write_all(&zeros[..512]).is_ok() {}
            }
            Self::Limited(_) => limit(pid, Some(0)),
        }
    }

    pub fn free(&self, pid: Option<u32>) {
        match self {
            Self::Mounted(dir) => drop(std::fs::remove_file(dir.join("filler"))),
            Self::Limited(_) => limit(pid, None),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Self::Mounted(dir) = self {
            let _ = Command::new("umount").arg("-l").arg(dir).status();
        }
    }
}

fn limit(pid: Option<u32>, bytes: Option<u64>) {
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    if pid.is_some() {
        let _ = prlimit(pid, Resource::Fsize, limit);
    }
}

/// The wall clock of a process, by libfaketime and a file that it reads anew each second.
pub struct Clock {
    library: &'static str,
    file: PathBuf,
}

impl Clock {
    /// `None` where libfaketime is not installed.
    pub fn new(dir: &Path) -> Option<Self> {
        let library = FAKETIME.into_iter().find(|file| Path::new(file).is_file())?;
        let clock = Self {
            library,
            file: dir.join("clock"),
        };
        clock.shift(0);
        Some(clock)
    }

    /// So many seconds from the machine's clock.
    pub fn shift(&self, seconds: i64) {
        let written = self.file.with_extension("new");
        let _ = std::fs::write(&written, format!("{seconds:+}\n"));
        let _ = std::fs::rename(written, &self.file);
    }

    /// What a process needs in its environment. Its monotonic clock stays that of the machine.
    pub fn environment(&self) -> Vec<(String, String)> {
        let pairs = [
            ("LD_PRELOAD", self.library.to_owned()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

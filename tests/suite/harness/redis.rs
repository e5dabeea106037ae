//! A real Redis or Valkey server for one test. Also compiled into the library's own tests.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Programs to try, unless `BATON_REDIS_SERVER` names one.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// Maximum time for the start of a server.
const START: Duration = Duration::from_secs(20);

/// First port and number of ports of [`free_port`].
const FIRST_PORT: u16 = 20_000;
const PORTS: u32 = 12_000;

/// A server on a port of its own. Dropping it kills the server.
pub struct RedisServer {
    child: Option<Child>,
    pub port: u16,
    dir: tempfile::TempDir,
    args: Vec<String>,
}

/// Finds the server's program.
pub fn program() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("BATON_REDIS_SERVER") {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).flat_map(|dir| PROGRAMS.map(|program| dir.join(program)));
    all.find(|file| file.is_file())
}

impl RedisServer {
    /// Starts a server if its program is installed, for benchmarks that are useful without one.
    pub fn start_if_there(args: &[&str]) -> Option<Self> {
        program().map(|_| Self::start(args))
    }

    /// Starts a server with these settings in addition to those of every test.
    pub fn start(args: &[&str]) -> Self {
        let Some(program) = program() else {
            panic!("no redis-server or valkey-server on the PATH: apt-get install redis-server");
        };
        // Another test may take the port in between.
        for _ in 0..5 {
            let mut server = Self {
                child: None,
                port: free_port(),
                dir: tempfile::tempdir().unwrap(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            };
            if server.run(&program) {
                return server;
            }
        }
        panic!("{} does not start", program.display());
    }

    /// Starts a server that writes every change to its file.
    pub fn durable() -> Self {
        Self::start(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts a new server with a copy of this one's files: the append-only file or the snapshot.
    pub fn restored(&self, args: &[&str]) -> Self {
        let program = program().unwrap();
        let dir = tempfile::tempdir().unwrap();
        copy_all(self.dir.path(), dir.path());
        let mut server = Self {
            child: None,
            port: free_port(),
            dir,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        };
        assert!(server.run(&program), "it does not start on a copy");
        server
    }

    /// Whether the server has at least this version.
    pub fn is_version(&self, major: u32, minor: u32) -> bool {
        let info = self.cli(&["INFO", "server"]);
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        let mut parts = version
            .unwrap()
            .trim()
            .split('.')
            .map(|part| part.parse::<u32>().unwrap());
        (parts.next().unwrap(), parts.next().unwrap()) >= (major, minor)
    }

    /// Starts a replica of this server.
    pub fn replica(&self, args: &[&str]) -> Self {
        let port = self.port.to_string();
        let of = [
            "--replicaof",
            "127.0.0.1",
            &port,
            "--repl-diskless-sync-delay",
            "0",
        ];
        let replica = Self::start(&[&of, args].concat());
        let began = Instant::now();
        while !self.cli(&["INFO", "replication"]).contains("state=online") {
            assert!(began.elapsed() < START, "no replica");
            std::thread::sleep(Duration::from_millis(10));
        }
        replica
    }

    fn run(&mut self, program: &Path) -> bool {
        let port = self.port.to_string();
        let dir = self.dir.path().display().to_string();
        let mut command = Command::new(program);
        let sentinel = self.args.iter().any(|arg| arg == "--sentinel");
        match sentinel {
            true => drop(command.args(&self.args).args(["--port", &port, "--dir", &dir])),
            false => {
                let own = [
                    "--port",
                    &port,
                    "--bind",
                    "127.0.0.1",
                    "--save",
                    "",
                    "--dir",
                    &dir,
                ];
                command
                    .args(own)
                    .args(["--repl-diskless-sync-delay", "0"])
                    .args(&self.args);
            }
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let began = Instant::now();
        let tls = self.args.iter().any(|arg| arg == "--tls-port");
        while began.elapsed() < START {
            let exited = self
                .child
                .as_mut()
                .is_some_and(|child| child.try_wait().unwrap().is_some());
            if exited {
                return false;
            }
            let up = match tls {
                true => TcpStream::connect(("127.0.0.1", self.tls_port())).is_ok(),
                false => self.answers(),
            };
            if up {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    fn answers(&self) -> bool {
        use std::io::{Read, Write};
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return false;
        };
        let mut answer = [0; 16];
        stream.write_all(b"PING\r\n").is_ok()
            && stream
                .read(&mut answer)
                .is_ok_and(|n| answer[..n].starts_with(b"+PONG") || answer[..n].starts_with(b"-NOAUTH"))
    }

    /// CPU time used so far.
    pub fn cpu(&self) -> Duration {
        let pid = self.child.as_ref().map_or(0, Child::id);
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let nanos = tasks.filter_map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }

    fn tls_port(&self) -> u16 {
        let at = self.args.iter().position(|arg| arg == "--tls-port").unwrap();
        self.args[at + 1].parse().unwrap()
    }

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills the server, like a power failure.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends a signal. A stopped server keeps its connections without answering.
    #[cfg(unix)]
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.child.as_ref().map(rustix::process::Pid::from_child);
        rustix::process::kill_process(pid.unwrap(), signal).unwrap();
    }

    /// Starts the server again on the same port with its file.
    pub fn start_again(&mut self) {
        self.kill();
        let program = program().unwrap();
        assert!(self.run(&program), "it does not start again");
    }

    /// Sends a command and returns the response in lines.
    pub fn cli(&self, args: &[&str]) -> String {
        use std::io::{BufRead, BufReader, Read, Write};
        let mut command = format!("*{}\r\n", args.len());
        for arg in args {
            command.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
        }
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(command.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (mut lines, mut open) = (Vec::new(), 1usize);
        while open > 0 {
            open -= 1;
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.trim_end();
            let count = |text: &str| text.parse::<i64>().unwrap();
            match line.split_at(1) {
                ("*", more) => open += usize::try_from(count(more)).unwrap_or_default(),
                ("$", size) => {
                    if let Ok(size) = usize::try_from(count(size)) {
                        let mut text = vec![0; size + 2];
                        reader.read_exact(&mut text).unwrap();
                        text.truncate(size);
                        lines.push(String::from_utf8_lossy(&text).into_owned());
                    }
                }
                (_, text) => lines.push(text.to_owned()),
            }
        }
        lines.join("\n")
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => {
                std::fs::create_dir(&to).unwrap();
                copy_all(&entry.path(), &to);
            }
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// A port without a listener, which other programs do not take before the caller's program listens.
///
/// The ports are below those that systems choose for connections and for listeners on port 0.
pub fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Test runners start processes with consecutive ids at the same time.
    let first = std::process::id().wrapping_mul(64);
    (0..PORTS)
        .map(|_| first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % PORTS)
        .map(|port| FIRST_PORT + u16::try_from(port).unwrap())
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

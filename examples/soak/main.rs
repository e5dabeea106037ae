//! A soak: random agents on five wires in front of real `baton serve` processes and the strict provider. Meanwhile
//! processes are killed, stores go down, the disk is full, the clock jumps and upstream fails.
//!
//! `cargo run --release --example soak -- --minutes 30`
//!
//! docs/dev/reliability.md says what happens, and what counts as a violation. Exits with 1 after one.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    unreachable_pub
)]

mod agent;
mod chaos;
mod exchange;
#[allow(dead_code, reason = "the suite uses all of it")]
mod harness;
mod ledger;
#[allow(dead_code, unused_imports, unused_macros, reason = "the suite uses all of it")]
mod matrix;
mod places;
mod process;
mod provider;
mod random;
mod report;
mod scene;
mod view;
mod watch;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;

use self::agent::{Agent, Conversation};
use self::chaos::{Chaos, RESTARTS};
use self::ledger::Ledger;
use self::matrix::variants::{ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};
use self::provider::Judge;
use self::random::Random;
use self::report::Report;
use self::scene::{Phase, Scene};
use self::watch::Sample;

const WIRES: [Variant; 5] = [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA];

/// Random agents before real processes, with everything that can go wrong.
#[derive(Parser)]
struct Arguments {
    /// How long, in minutes; divided equally among the phases that run: kills, full disks with clock jumps, and replicas over
    /// Redis.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Agents at the same time, shared evenly by the five wires.
    #[arg(long, default_value_t = 15)]
    agents: usize,
    /// Seed of the schedule and of what agents and model do.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program; by default it is built first, in the profile of this example.
    #[arg(long, value_name = "FILE")]
    baton: Option<PathBuf>,
    /// Only these phases.
    #[arg(long, value_enum)]
    only: Vec<Phase>,
    /// Keep the bodies of upstream requests that break a rule in this directory, which exists.
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
}

/// What stays over all phases.
struct Soak {
    ledger: Arc<Ledger>,
    judge: Arc<Judge>,
    random: Random,
    program: PathBuf,
    agents: usize,
    samples: Arc<Mutex<Vec<Sample>>>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = tokio::select! {
        outcome = soak(&arguments) => outcome,
        () = interrupted() => Err("interrupted".to_owned()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Until Ctrl-C or SIGTERM; processes and mounts end with the future that is dropped then.
async fn interrupted() {
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = term.recv() => {}
    }
}

async fn soak(arguments: &Arguments) -> Result<bool, String> {
    let program = match &arguments.baton {
        Some(program) => program.clone(),
        None => tokio::task::block_in_place(built)?,
    };
    let (ledger, mut random) = (
        Arc::new(Ledger::new(arguments.evidence.clone())),
        Random::new(arguments.seed),
    );
    let judge = Arc::new(Judge::new(Arc::clone(&ledger), random.branch(), arguments.agents));
    let mut soak = Soak {
        ledger: Arc::clone(&ledger),
        judge,
        random,
        program,
        agents: arguments.agents,
        samples: Arc::default(),
    };
    let began = Instant::now();
    let mut phases = Phase::ALL.to_vec();
    phases.retain(|phase| arguments.only.is_empty() || arguments.only.contains(phase));
    let time = Duration::from_secs_f64(arguments.minutes * 60.0 / phases.len() as f64);
    for phase in phases {
        soak.phase(phase, time).await?;
    }
    let samples = soak.samples.lock().unwrap_or_else(PoisonError::into_inner);
    let report = Report {
        ledger: &ledger,
        samples: &samples,
        took: began.elapsed(),
        seed: arguments.seed,
    };
    report.print();
    Ok(report.is_good())
}

/// Builds the program that belongs to this example.
fn built() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let directory = this.parent().and_then(|directory| directory.parent());
    let program = directory
        .ok_or("this example is in no target directory")?
        .join("baton");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--locked", "--bin", "baton"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    match status.is_ok_and(|status| status.success()) {
        true => Ok(program),
        false => Err("baton cannot be built; give its path with --baton".to_owned()),
    }
}

impl Soak {
    async fn phase(&mut self, phase: Phase, time: Duration) -> Result<(), String> {
        let provider = self.judge.start().await.map_err(|error| error.to_string())?;
        self.ledger.begin_phase();
        let (program, upstream) = (&self.program, provider.url());
        let started = tokio::task::block_in_place(|| Scene::start(phase, program, upstream, &self.ledger));
        let Some(scene) = started? else { return Ok(()) };
        eprintln!("[{:7.1} s] {phase:?}", self.ledger.seconds());
        let began = Instant::now();
        let urls: Vec<String> = scene
            .processes()
            .iter()
            .map(|process| process.url.clone())
            .collect();
        let mut agents = tokio::task::JoinSet::new();
        for number in 0..self.agents {
            agents.spawn(self.agent(number, &urls).work());
        }
        let chaos = Chaos {
            judge: Arc::clone(&self.judge),
            ledger: Arc::clone(&self.ledger),
            random: self.random.branch(),
            scene: Arc::new(scene),
        };
        let scene = Arc::clone(&chaos.scene);
        let settled_at = began + time.mul_f64(RESTARTS);
        let pause = Duration::from_secs_f64((time.as_secs_f64() / 150.0).clamp(0.25, 5.0));
        let (look, happens) = (
            self.look(&scene, began + time, settled_at, pause),
            chaos.run(began, time),
        );
        let (looked, happened) = tokio::join!(look, happens);
        looked.and(happened)?;
        agents.join_all().await;
        tokio::task::block_in_place(|| scene.processes().iter_mut().for_each(process::Process::finish));
        Ok(())
    }

    fn agent(&mut self, number: usize, urls: &[String]) -> Agent {
        Agent {
            judge: Arc::clone(&self.judge),
            http: exchange::http(),
            variant: WIRES[number % WIRES.len()],
            number,
            random: self.random.branch(),
            urls: urls.to_vec(),
            conversation: Conversation::default(),
        }
    }

    /// Samples the processes until the end, and ends the phase.
    async fn look(
        &self,
        scene: &Scene,
        end: Instant,
        settled_at: Instant,
        pause: Duration,
    ) -> Result<(), String> {
        while Instant::now() < end {
            tokio::time::sleep(pause).await;
            let (seconds, settled) = (self.ledger.seconds(), Instant::now() >= settled_at);
            let looked = tokio::task::block_in_place(|| {
                let mut processes = scene.processes();
                processes.iter_mut().try_for_each(process::Process::revive)?;
                let pids = processes
                    .iter()
                    .filter_map(|process| Some((process.name.as_str(), process.pid()?)));
                let all = pids.filter_map(|(name, pid)| watch::sample(name, pid, seconds, settled));
                let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
                samples.extend(all);
                Ok::<(), String>(())
            });
            looked?;
        }
        self.ledger.end();
        Ok(())
    }
}

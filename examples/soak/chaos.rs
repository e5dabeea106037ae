//! What happens to the processes, upstream, the store, the disk and the clock: a random schedule by the seed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::ledger::{Disturbance, Ledger};
use crate::provider::Judge;
use crate::random::Random;
use crate::scene::{Phase, Scene};

/// Processes are restarted in this share of a phase alone; in the rest their memory reaches its plateau.
pub const RESTARTS: f64 = 0.4;

/// One disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Kill,
    Stop,
    Reload,
    WrongConfig,
    Storm,
    Slow,
    LockStore,
    PauseStore,
    KillStore,
    FillDisk,
    JumpClock,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "baton killed",
            Self::Stop => "baton stopped and started",
            Self::Reload => "config reloaded",
            Self::WrongConfig => "wrong config reloaded",
            Self::Storm => "storm of upstream faults",
            Self::Slow => "slow upstream",
            Self::LockStore => "SQLite locked",
            Self::PauseStore => "Redis paused",
            Self::KillStore => "Redis killed",
            Self::FillDisk => "disk full",
            Self::JumpClock => "clock jump",
        }
    }

    fn restarts(self) -> bool {
        matches!(self, Self::Kill | Self::Stop)
    }
}

/// The disturbances of a phase, each as often as it is listed.
fn actions(phase: Phase) -> &'static [Action] {
    use Action::*;
    match phase {
        Phase::Kills => &[
            Kill,
            Kill,
            Kill,
            Kill,
            Stop,
            Stop,
            Reload,
            Reload,
            WrongConfig,
            Storm,
            Storm,
            Slow,
            LockStore,
            LockStore,
        ],
        Phase::Disk => &[
            Kill, FillDisk, FillDisk, FillDisk, JumpClock, JumpClock, JumpClock, Storm, Slow, LockStore,
            Reload,
        ],
        Phase::Replicas => &[
            Kill, Kill, Kill, Stop, Stop, PauseStore, PauseStore, KillStore, KillStore, Storm, Slow, Reload,
        ],
    }
}

pub struct Chaos {
    pub scene: Arc<Scene>,
    pub judge: Arc<Judge>,
    pub ledger: Arc<Ledger>,
    pub random: Random,
}

impl Chaos {
    /// Until the phase ends.
    pub async fn run(mut self, began: Instant, time: Duration) -> Result<(), String> {
        let all = actions(self.scene.phase);
        while !self.ledger.is_ending() {
            let pause = self.random.between(800, 3500);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let settled = began.elapsed() >= time.mul_f64(RESTARTS);
            let action = self.random.pick(all);
            if self.ledger.is_ending() || settled && action.restarts() {
                continue;
            }
            if action == Action::JumpClock && self.scene.clock.is_none() {
                continue;
            }
            self.ledger.event(action.name());
            self.happen(action).await?;
        }
        Ok(())
    }

    async fn happen(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Kill | Action::Stop => self.restart(action),
            Action::Reload | Action::WrongConfig => self.reload(action == Action::WrongConfig).await,
            Action::Storm => {
                self.judge.storm(true);
                self.wait(1000, 3000).await;
                self.judge.storm(false);
                Ok(())
            }
            Action::Slow => {
                self.judge.slow(true);
                self.wait(1000, 3000).await;
                self.judge.slow(false);
                Ok(())
            }
            Action::LockStore => self.lock().await,
            Action::PauseStore | Action::KillStore => self.store_outage(action == Action::KillStore).await,
            Action::FillDisk => {
                self.fill_disk().await;
                Ok(())
            }
            Action::JumpClock => {
                self.jump_clock().await;
                Ok(())
            }
        }
    }

    async fn wait(&mut self, least: u64, most: u64) {
        let pause = self.random.between(least, most);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    fn restart(&mut self, action: Action) -> Result<(), String> {
        let mut processes = self.scene.processes();
        let at = self.random.below(processes.len());
        let process = &mut processes[at];
        tokio::task::block_in_place(|| match action {
            Action::Kill => process.kill_and_restart(),
            _ => process.stop_and_restart(),
        })
    }

    /// A wrong config changes nothing, and is fixed before the next start.
    async fn reload(&mut self, wrong: bool) -> Result<(), String> {
        let nudge_at = self.random.pick(&[0.2, 0.3, 0.5]);
        let auto_at = self.random.pick(&[0.6, 0.7, 0.9]);
        let config = &self.scene.config;
        let written = match wrong {
            true => config.spoil(),
            false => config.write(nudge_at, auto_at),
        };
        written.map_err(|error| error.to_string())?;
        self.scene
            .processes()
            .iter()
            .for_each(|process| process.signal(Signal::HUP));
        if wrong {
            self.wait(500, 1500).await;
            let mended = self.scene.config.write(nudge_at, auto_at);
            mended.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Another program writes to the database for long, but not for as long as a write waits (5 s).
    async fn lock(&mut self) -> Result<(), String> {
        let file = self.scene.state.join("baton.db");
        let lock = rusqlite::Connection::open(file).map_err(|error| error.to_string())?;
        self.ledger.disturb(Disturbance::Lock);
        // Where the store is being written at this moment there is nothing to lock.
        let _ = lock.execute_batch("BEGIN IMMEDIATE");
        self.wait(300, 2500).await;
        drop(lock);
        self.ledger.calm(Disturbance::Lock);
        Ok(())
    }

    async fn store_outage(&mut self, kill: bool) -> Result<(), String> {
        let pause = Duration::from_millis(self.random.between(500, 4000));
        let Some(server) = &self.scene.redis else {
            return Ok(());
        };
        let server = || server.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.ledger.disturb(Disturbance::Store);
        match kill {
            true => tokio::task::block_in_place(|| server().kill()),
            false => server().signal(Signal::STOP),
        }
        tokio::time::sleep(pause).await;
        match kill {
            true => tokio::task::block_in_place(|| server().start_again()),
            false => server().signal(Signal::CONT),
        }
        self.ledger.calm(Disturbance::Store);
        Ok(())
    }

    async fn fill_disk(&mut self) {
        let pid = self
            .scene
            .processes()
            .first()
            .and_then(crate::process::Process::pid);
        let Some(disk) = &self.scene.disk else { return };
        self.ledger.disturb(Disturbance::Disk);
        tokio::task::block_in_place(|| disk.fill(pid));
        let pause = Duration::from_millis(self.random.between(500, 4000));
        tokio::time::sleep(pause).await;
        disk.free(pid);
        self.ledger.calm(Disturbance::Disk);
    }

    /// By minutes, hours or days, in either direction, and back.
    async fn jump_clock(&mut self) {
        let jumps = [-86_400, -3_600, -61, 61, 3_600, 86_400, 3 * 86_400];
        let seconds = self.random.pick(&jumps);
        if let Some(clock) = &self.scene.clock {
            clock.shift(seconds);
        }
        self.wait(1500, 5000).await;
        if let Some(clock) = &self.scene.clock {
            clock.shift(0);
        }
    }
}

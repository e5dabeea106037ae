//! `baton uninstall`: removes what baton made on this machine, after it has listed it.

use std::fs;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::exit::{CommandFailure, Exit};
use super::load_state;
use super::output::{Out, shown, visible};
use super::running::{self, RunState};
use super::service::{
    self,
    manager::{MANAGERS, ServiceManager},
};
use super::system_args::UninstallArgs;
use crate::state::config::{Config, StoreKind};

/// The files of the state directory.
const STATE_FILES: &[&str] = &[
    "baton.db",
    "baton.db-wal",
    "baton.db-shm",
    "journal.db",
    "journal.db-wal",
    "journal.db-shm",
    "seal.key",
    "seal-older.keys",
    "seal.lock",
    "serving.json",
    "serving.lock",
    "agents.lock",
    "starting.lock",
    "serve.log",
    "serve.log.old",
    service::LOG,
];

/// The folders of the state directory. `ledgers` is next to the documents of handoffs.
const STATE_FOLDERS: &[&str] = &["agents", "runs", "handoffs", "ledgers"];

/// Time for a stopped service to end its open streams.
const STOP_TIME: Duration = Duration::from_secs(60);

/// What is removed, in order.
struct RemovalPlan {
    services: Vec<(&'static ServiceManager, PathBuf)>,
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    /// Removed if it is empty then.
    state_dir: Option<PathBuf>,
    /// What stays, each with the reason.
    stays: Vec<String>,
}

pub(super) fn run(args: &UninstallArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let config = load_state(&args.state)?;
    let plan = plan(args, &config)?;
    if plan.services.is_empty() {
        refuse_running(&config, Duration::ZERO)?;
    }
    print(&plan, out)?;
    if plan.is_empty() {
        return Ok(());
    }
    if !args.yes {
        if !io::stdin().is_terminal() {
            out.line("nothing removed; --yes removes it without a question")?;
            return Err(Exit::USAGE.silent());
        }
        if !confirmed(&mut io::stdin().lock(), out)? {
            out.line("nothing removed")?;
            return Ok(());
        }
    }
    for (manager, path) in &plan.services {
        service::remove(manager, path)?;
    }
    refuse_running(&config, STOP_TIME)?;
    for file in &plan.files {
        fs::remove_file(file).map_err(|error| unremoved(file, &error))?;
    }
    for folder in &plan.folders {
        fs::remove_dir_all(folder).map_err(|error| unremoved(folder, &error))?;
    }
    if let Some(dir) = &plan.state_dir {
        // Other files may be in it, which stay.
        let _ = fs::remove_dir(dir);
    }
    out.line("removed")?;
    Ok(())
}

fn plan(args: &UninstallArgs, config: &Config) -> Result<RemovalPlan, CommandFailure> {
    let services = MANAGERS.iter().filter_map(|manager| {
        let path = manager.path().filter(|path| path.exists())?;
        Some((*manager, path))
    });
    let mut plan = RemovalPlan {
        services: services.collect(),
        files: Vec::new(),
        folders: Vec::new(),
        state_dir: None,
        stays: Vec::new(),
    };
    let dir = std::path::absolute(&config.state_dir)?;
    match args.purge {
        true => plan.purge(args, &dir),
        false if dir.exists() => plan.stays.push(format!(
            "{}: handoffs, keys and journal (--purge removes them)",
            dir.display()
        )),
        false => {}
    }
    if config.store.kind == StoreKind::Redis {
        plan.stays
            .push("the records in the store's server (`store.url`)".to_owned());
    }
    let documents = std::path::absolute(config.handoffs_dir())?;
    if documents.exists() && !documents.starts_with(&dir) {
        plan.stays
            .push(format!("{}: documents of handoffs", documents.display()));
    }
    let program = std::env::current_exe()?;
    plan.stays.push(format!(
        "{}: remove it the way it was installed",
        program.display()
    ));
    Ok(plan)
}

impl RemovalPlan {
    fn purge(&mut self, args: &UninstallArgs, dir: &Path) {
        // A link is removed, and what it names stays.
        let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
        let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        // A file is replaced by way of `NAME.new`, which a killed process leaves.
        let files = STATE_FILES.iter();
        let files = files.flat_map(|name| [dir.join(name), dir.join(format!("{name}.new"))]);
        self.files.extend(files.filter(exists));
        let folders = STATE_FOLDERS.iter().map(|name| dir.join(name));
        self.folders.extend(folders.filter(is_folder));
        self.state_dir = dir.exists().then(|| dir.to_owned());
        match (&args.state.config, super::config_file(None)) {
            (Some(given), _) => self
                .stays
                .push(format!("{}: a config of your own", given.display())),
            (None, Some(file)) => self.files.push(file),
            (None, None) => {}
        }
        let listed = |path: &PathBuf| self.files.contains(path) || self.folders.contains(path);
        let others = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
        let others = others.map(|entry| entry.path()).filter(|path| !listed(path));
        let stays: Vec<_> = others
            .map(|path| format!("{}: not baton's", path.display()))
            .collect();
        self.stays.extend(stays);
    }

    fn is_empty(&self) -> bool {
        self.services.is_empty()
            && self.files.is_empty()
            && self.folders.is_empty()
            && self.state_dir.is_none()
    }
}

fn print(plan: &RemovalPlan, out: &mut Out) -> Result<(), CommandFailure> {
    if plan.is_empty() {
        out.line("nothing to remove")?;
    } else {
        out.line("to be removed:")?;
    }
    for (manager, path) in &plan.services {
        out.line(format_args!(
            "  the {} service, stopped first: {}",
            manager.name,
            shown(path)
        ))?;
    }
    for file in &plan.files {
        out.line(format_args!("  {}", shown(file)))?;
    }
    for folder in &plan.folders {
        out.line(format_args!("  {}/ and everything in it", shown(folder)))?;
    }
    if let Some(dir) = &plan.state_dir {
        out.line(format_args!("  {}/ (if empty afterwards)", shown(dir)))?;
    }
    out.line("stays:")?;
    for line in &plan.stays {
        out.line(format_args!("  {}", visible(line)))?;
    }
    Ok(())
}

/// The answer of a person.
fn confirmed(person: &mut impl BufRead, out: &mut Out) -> Result<bool, CommandFailure> {
    out.line("remove this? [y/N]")?;
    let mut answer = String::new();
    person.read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Fails if a proxy still serves from the state directory after `patience`.
fn refuse_running(config: &Config, patience: Duration) -> Result<(), CommandFailure> {
    const PAUSE: Duration = Duration::from_millis(100);
    let due = Instant::now() + patience;
    loop {
        let RunState::Running(process) = running::find(&config.state_dir) else {
            return Ok(());
        };
        if Instant::now() >= due {
            let process = process.map_or_else(String::new, |process| format!(" (process {})", process.pid));
            let message = format!("a proxy serves from the state directory{process}");
            return Err(Exit::UNAVAILABLE.failure(message).help("stop it first"));
        }
        thread::sleep(PAUSE);
    }
}

fn unremoved(path: &Path, error: &io::Error) -> CommandFailure {
    let message = format!("{} cannot be removed: {error}", path.display());
    Exit::IO.failure(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_yes_removes() {
        let answer = |text: &str| confirmed(&mut text.as_bytes(), &mut Out::stderr()).unwrap();
        assert!(answer("y\n") && answer(" Yes \n"));
        assert!(!answer("n\n") && !answer("\n") && !answer("") && !answer("yesterday\n"));
    }
}

//! The `baton uninstall` command: lists all that baton created on this machine, and then removes it.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use clap::Args as ClapArgs;

use super::exit::{CliResult, Exit};
use super::output::{Out, shown, visible};
use super::running::{self, RunState};
use super::service::manager::{MANAGERS, ServiceManager};
use super::state_args::StateArgs;
use super::{load_state, service};
use baton_core::handoffs::yaml::names;
use baton_state::config::{Config, StoreKind};

/// Files of the state directory.
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

/// Directories of the state directory.
const STATE_FOLDERS: &[&str] = &["agents", "run-configs", "started-runs"];

/// Directories where other programs may write as well. `ledgers` is next to the documents of handoffs.
const SHARED_FOLDERS: &[&str] = &["handoffs", "ledgers"];

/// Time for a stopped service to end its open streams.
const STOP_TIME: Duration = Duration::from_secs(60);

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Lists what it removes and what stays, and asks first. Stops and removes the service; a proxy that runs without it must be \
stopped first. Handoffs, keys, journal and config stay without --purge. The program itself is removed the way it was \
installed.

Examples:
  baton uninstall
  baton uninstall --purge --dry-run
  baton uninstall --purge --yes")]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Remove handoffs, keys, journal and the default config as well
    #[arg(long)]
    purge: bool,
    /// Skip the confirmation
    #[arg(long)]
    yes: bool,
    /// List what would be removed, and remove nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

/// Items to remove, in order.
#[derive(Default)]
struct RemovalPlan {
    items: Vec<Removal>,
    /// Items that stay, each with the reason.
    stays: Vec<String>,
}

enum Removal {
    Service(&'static ServiceManager, PathBuf),
    File(PathBuf),
    Directory(PathBuf),
    /// A directory where other programs may write as well: baton's files in it.
    Shared(PathBuf),
    /// Removed if it is empty afterwards.
    StateDir(PathBuf),
}

impl Removal {
    /// Line for the list that the user confirms.
    fn line(&self) -> String {
        match self {
            Self::Service(manager, path) => {
                format!("the {} service, stopped first: {}", manager.name, shown(path))
            }
            Self::File(path) => shown(path),
            Self::Directory(path) => format!("{}/ and everything in it", shown(path)),
            Self::Shared(path) => format!("{}/ and baton's files in it", shown(path)),
            Self::StateDir(path) => format!("{}/ (if empty afterwards)", shown(path)),
        }
    }

    fn remove(&self) -> CliResult {
        let (path, removed) = match self {
            Self::Service(manager, path) => return service::remove(manager, path),
            Self::File(path) => (path, fs::remove_file(path)),
            Self::Directory(path) => (path, fs::remove_dir_all(path)),
            // Ignored: other files in it stay, and with them the directory.
            Self::Shared(path) => (path, visit(path, &mut remove_own)),
            Self::StateDir(path) => (path, fs::remove_dir(path).or(Ok(()))),
        };
        removed.map_err(|error| Exit::IO.failure(format!("failed to remove {}: {error}", path.display())))
    }

    fn is_service(&self) -> bool {
        matches!(self, Self::Service(..))
    }
}

pub(super) fn run(args: &UninstallArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, &[])?;
    let plan = plan(args, &config)?;
    // A proxy of the service is stopped below. Any other must be stopped by whoever started it.
    if !args.dry_run && !plan.items.iter().any(Removal::is_service) {
        refuse_running(&config, Duration::ZERO)?;
    }
    print(&plan, out)?;
    if plan.items.is_empty() || args.dry_run {
        return Ok(());
    }
    if !args.yes {
        if !io::stdin().is_terminal() {
            out.line("nothing removed; pass --yes to remove without confirmation")?;
            return Err(Exit::USAGE.silent());
        }
        if !confirmed(&mut io::stdin().lock(), out)? {
            return out.line("nothing removed");
        }
    }
    let (services, files): (Vec<_>, Vec<_>) = plan.items.iter().partition(|item| item.is_service());
    // A failure stops nothing else: without a service manager, handoffs and keys are removed all the same.
    let mut failures: Vec<_> = services.iter().filter_map(|item| item.remove().err()).collect();
    // A stopped service may still write, so its files are removed only after the proxy has ended.
    refuse_running(&config, STOP_TIME)?;
    failures.extend(files.iter().filter_map(|item| item.remove().err()));
    let Some(last) = failures.pop() else {
        return out.line("removed");
    };
    out.line("removed, except for the failures below")?;
    for failure in failures {
        Out::stderr().line(format_args!("baton: {}", visible(&failure.message)))?;
    }
    Err(last)
}

fn plan(args: &UninstallArgs, config: &Config) -> CliResult<RemovalPlan> {
    let services = MANAGERS.iter().filter_map(|manager| {
        let path = manager.path().filter(|path| path.exists())?;
        Some(Removal::Service(manager, path))
    });
    let mut plan = RemovalPlan {
        items: services.collect(),
        ..RemovalPlan::default()
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
    let program = program.display();
    plan.stays
        .push(format!("{program}: remove it the way it was installed"));
    Ok(plan)
}

impl RemovalPlan {
    fn purge(&mut self, args: &UninstallArgs, dir: &Path) {
        // Links are not followed: the link is removed, and its target stays.
        let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
        let is_directory = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        // A file is replaced by way of `NAME.new`, which may remain from a killed process.
        let files = STATE_FILES.iter();
        let files = files.flat_map(|name| [dir.join(name), dir.join(format!("{name}.new"))]);
        // Only the default config is baton's. One that the user names stays.
        let (own, default) = match super::named_config(args.state.config.as_ref()) {
            Some(named) => (Some(format!("{}: your own config", named.display())), None),
            None => (None, super::default_config()),
        };
        let files: Vec<_> = files.filter(exists).chain(default).collect();
        // Other programs have directories of these names. baton's are next to its files.
        let is_used = files.iter().any(|file| file.parent() == Some(dir));
        let folders = |names: &[&str]| {
            let paths = names.iter().filter(|_| is_used).map(|name| dir.join(name));
            paths.filter(is_directory).collect::<Vec<_>>()
        };
        let (directories, shared) = (folders(STATE_FOLDERS), folders(SHARED_FOLDERS));
        let listed = |path: &PathBuf| {
            [&files, &directories, &shared]
                .iter()
                .any(|all| all.contains(path))
        };
        let others = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
        let others = others.map(|entry| entry.path()).filter(|path| !listed(path));
        let others = others.map(|path| not_batons(&path));
        self.stays.extend(own.into_iter().chain(others));
        self.items.extend(files.into_iter().map(Removal::File));
        self.items.extend(directories.into_iter().map(Removal::Directory));
        for path in shared {
            // An error is ignored here: the removal meets it again.
            let _ = visit(&path, &mut |path| {
                let is_others = !is_directory(&path.to_owned()) && !is_batons(path);
                self.stays.extend(is_others.then(|| not_batons(path)));
                Ok(())
            });
            self.items.push(Removal::Shared(path));
        }
        self.items
            .extend(dir.exists().then(|| Removal::StateDir(dir.to_owned())));
    }
}

/// Calls `each` for all that is below a path, and then for the path. Links are not followed.
fn visit(path: &Path, each: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            visit(&entry?.path(), each)?;
        }
    }
    each(path)
}

/// Removes a file of baton, or an empty directory.
fn remove_own(path: &Path) -> io::Result<()> {
    match is_batons(path) {
        true => fs::remove_file(path),
        // Ignored: others' files stay, and with them their directory.
        false => fs::remove_dir(path).or(Ok(())),
    }
}

/// Whether baton gives files in the directories of handoffs and ledgers this name.
fn is_batons(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = &*name;
    let is_between = |begins, ends| name.starts_with(begins) && name.ends_with(ends);
    matches!(name, "handoff.json" | "handoff.md" | ".lock")
        || names::is_file(name) && names::time(name).is_some()
        || is_between("CONTINUITY_", ".md")
        // Temporary files of a killed process.
        || is_between(".handoff", ".tmp")
}

fn not_batons(path: &Path) -> String {
    format!("{}: not baton's", path.display())
}

fn print(plan: &RemovalPlan, out: &mut Out) -> CliResult {
    out.line(match plan.items.is_empty() {
        true => "nothing to remove",
        false => "will be removed:",
    })?;
    for item in &plan.items {
        out.line(format_args!("  {}", item.line()))?;
    }
    out.line("will be kept:")?;
    for line in &plan.stays {
        out.line(format_args!("  {}", visible(line)))?;
    }
    Ok(())
}

/// Asks the user for confirmation. Anything but `y` or `yes` declines.
fn confirmed(user: &mut impl BufRead, out: &mut Out) -> CliResult<bool> {
    out.line("remove this? [y/N]")?;
    let mut answer = String::new();
    user.read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Fails if a proxy still serves from the state directory after `patience`.
fn refuse_running(config: &Config, patience: Duration) -> CliResult {
    const PAUSE: Duration = Duration::from_millis(100);
    let due = Instant::now() + patience;
    loop {
        let RunState::Running(process) = running::find(&config.state_dir) else {
            return Ok(());
        };
        if Instant::now() >= due {
            let process = process.map_or_else(String::new, |process| format!(" (process {})", process.pid));
            let message = format!("a proxy serves from the state directory{process}");
            return Err(Exit::UNAVAILABLE.with_help(message, "stop it first"));
        }
        thread::sleep(PAUSE);
    }
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

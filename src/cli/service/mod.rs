//! The `baton service` command: has systemd or launchd start the proxy at login, so that agents can keep its
//! URL in their config.

pub(super) mod manager;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use clap::{Args as ClapArgs, Subcommand};

use self::manager::{ManagerKind, ServiceManager, ServicePlan, ServiceStep};
use super::exit::{CliResult, Exit};
use super::output::{Out, visible};
use super::state_args::StateArgs;
use super::{config_file, load_state, running};
use baton_state::config::Config;
use baton_state::disk;

/// Log in the state directory for a service whose manager keeps none.
pub(super) const LOG: &str = "service.log";

/// Time for the last writes after open streams have ended, in seconds.
const LAST_WRITES_SECS: u64 = 15;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton service install
  baton service uninstall")]
pub(super) struct ServiceArgs {
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ServiceCommand {
    /// Start the proxy now and at each login
    Install(ServiceInstallArgs),
    /// Stop the proxy, and no longer start it at login
    Uninstall(ServiceUninstallArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Writes a systemd user unit or a launch agent with this binary's path, this config and this state directory, and starts \
it.

Examples:
  baton service install
  baton service install --config ~/team.toml
  baton service install --print --manager launchd")]
pub(super) struct ServiceInstallArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Use this service manager [default: the platform's own]
    #[arg(long)]
    manager: Option<ManagerKind>,
    /// Print the file and install nothing
    #[arg(long)]
    print: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Handoffs, keys and journal stay.

Examples:
  baton service uninstall
  baton service uninstall --print")]
pub(super) struct ServiceUninstallArgs {
    /// Use this service manager [default: the platform's own]
    #[arg(long)]
    manager: Option<ManagerKind>,
    /// Print the commands to run and the files to remove, and change nothing
    #[arg(long)]
    print: bool,
}

pub(super) fn run(args: &ServiceArgs, out: &mut Out) -> CliResult {
    match &args.command {
        ServiceCommand::Install(args) => install(args, out),
        ServiceCommand::Uninstall(args) => uninstall(args, out),
    }
}

fn install(args: &ServiceInstallArgs, out: &mut Out) -> CliResult {
    let manager = manager::of(args.manager);
    let config = load_state(&args.state, &[])?;
    let text = (manager.render)(&plan(&args.state, &config)?);
    if args.print {
        return out.document(&text);
    }
    let path = path(manager)?;
    let failed = |error: io::Error| {
        let message = format!("failed to write {}: {error}", path.display());
        Exit::CANNOT_CREATE.failure(message)
    };
    // Kept for a rollback. A FIFO or a device is not a manager's file.
    let before = match disk::read_named(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        read => read.ok(),
    };
    write(&path, &text).map_err(failed)?;
    if let Err(failure) = perform(manager, ServiceStep::Start) {
        // Roll back: a service that never ran would be reported as stopped for good.
        let restored = match before {
            Some(before) => fs::write(&path, before),
            None => fs::remove_file(&path),
        };
        if let Err(error) = restored {
            Out::stderr().line(format_args!(
                "baton: failed to roll back {}: {error}",
                path.display()
            ))?;
        }
        return Err(failure);
    }
    out.line(format_args!("wrote {}", path.display()))?;
    let here = running::reachable(config.server.at.listen);
    match here.port() {
        0 => out.line(
            "started; set `server.listen` to a fixed port, so that agents can have the URL in their config",
        )?,
        _ => out.line(format_args!(
            "started at {}, and again at each login",
            running::url(&config, here)
        ))?,
    }
    Ok(())
}

/// Builds a command that does not depend on the manager's directory or environment.
fn plan(state: &StateArgs, config: &Config) -> CliResult<ServicePlan> {
    let text = |path: PathBuf| path.display().to_string();
    let mut command = vec![text(std::env::current_exe()?), "serve".to_owned()];
    if let Some(file) = config_file(state.config.as_ref()) {
        command.extend(["--config".to_owned(), text(std::path::absolute(file)?)]);
    }
    let dir = std::path::absolute(&config.state_dir)?;
    command.extend(["--state-dir".to_owned(), text(dir.clone())]);
    Ok(ServicePlan {
        command,
        stop_secs: config.server.drain.as_secs() + LAST_WRITES_SECS,
        log: text(dir.join(LOG)),
    })
}

fn path(manager: &ServiceManager) -> CliResult<PathBuf> {
    let missing = || Exit::CANNOT_CREATE.failure("there is no home directory");
    manager.path().ok_or_else(missing)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text)
}

fn uninstall(args: &ServiceUninstallArgs, out: &mut Out) -> CliResult {
    let manager = manager::of(args.manager);
    let path = path(manager)?;
    if args.print {
        for command in manager.commands(ServiceStep::Stop, uid()) {
            out.line(command.join(" "))?;
        }
        return out.line(format_args!("rm {}", path.display()));
    }
    if !path.exists() {
        return out.line(format_args!("not installed: there is no {}", path.display()));
    }
    remove(manager, &path)?;
    out.line(format_args!("stopped, and removed {}", path.display()))
}

/// Stops the service and removes its file.
///
/// The file is removed even if the manager does not know the service.
pub(super) fn remove(manager: &ServiceManager, path: &Path) -> CliResult {
    if let Err(failure) = perform(manager, ServiceStep::Stop) {
        // Ignored: standard error may be closed.
        let _ = Out::stderr().line(format_args!("baton: {}", visible(&failure.message)));
    }
    fs::remove_file(path).map_err(|error| {
        let message = format!("failed to remove {}: {error}", path.display());
        Exit::IO.failure(message)
    })?;
    perform(manager, ServiceStep::Forget)
}

/// Runs the manager's commands of a step, up to the first that fails.
fn perform(manager: &ServiceManager, step: ServiceStep) -> CliResult {
    for command in manager.commands(step, uid()) {
        let [program, arguments @ ..] = &command[..] else {
            continue;
        };
        let mut child = Command::new(program);
        let ran = child.args(arguments).stdin(Stdio::null()).output();
        let why = match &ran {
            Ok(done) if done.status.success() => continue,
            Ok(done) => String::from_utf8_lossy(&done.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!("`{}` failed: {}", command.join(" "), visible(&why));
        let name = manager.name;
        let help = format!("{name} must run for this user; else start `baton serve` by other means");
        return Err(Exit::UNAVAILABLE.with_help(message, help));
    }
    Ok(())
}

fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

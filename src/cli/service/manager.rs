//! Service managers as a table: the path of each one's file, its content, and the commands. No IO.

use std::fmt::Write;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::output::xml_text;

/// A service manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ManagerKind {
    /// A user unit
    Systemd,
    /// A launch agent
    Launchd,
}

/// Program that a manager starts, and its limits.
pub(super) struct ServicePlan {
    /// Program and arguments.
    pub(super) command: Vec<String>,
    /// Time for a proxy to stop, in seconds.
    pub(super) stop_secs: u64,
    /// File for standard error, if the manager keeps no log itself.
    pub(super) log: String,
}

/// A service manager: its file and its commands.
pub(in crate::cli) struct ServiceManager {
    pub(in crate::cli) name: &'static str,
    directory: fn() -> Option<PathBuf>,
    file: &'static str,
    pub(super) render: fn(&ServicePlan) -> String,
    /// Commands of each [`ServiceStep`], indexed by the step. `{file}` and `{uid}` are filled in.
    steps: [&'static [&'static [&'static str]]; 3],
}

const SYSTEMD: ServiceManager = ServiceManager {
    name: "systemd",
    directory: || Some(directories::BaseDirs::new()?.config_dir().join("systemd/user")),
    file: "baton.service",
    render: systemd_unit,
    steps: [
        &[
            &["systemctl", "--user", "daemon-reload"],
            &["systemctl", "--user", "enable", "baton.service"],
            // Restarted even if it runs: an older file may have been replaced.
            &["systemctl", "--user", "restart", "baton.service"],
        ],
        &[&["systemctl", "--user", "disable", "--now", "baton.service"]],
        &[&["systemctl", "--user", "daemon-reload"]],
    ],
};

const LAUNCHD: ServiceManager = ServiceManager {
    name: "launchd",
    directory: || {
        Some(
            directories::BaseDirs::new()?
                .home_dir()
                .join("Library/LaunchAgents"),
        )
    },
    file: "local.baton.plist",
    render: launchd_plist,
    steps: [
        &[&["launchctl", "bootstrap", "gui/{uid}", "{file}"]],
        &[&["launchctl", "bootout", "gui/{uid}/local.baton"]],
        // `bootout` has made launchd forget the service.
        &[],
    ],
};

/// All managers. The platform's own is the first.
pub(in crate::cli) const MANAGERS: [&ServiceManager; 2] = match cfg!(target_os = "macos") {
    true => [&LAUNCHD, &SYSTEMD],
    false => [&SYSTEMD, &LAUNCHD],
};

/// Returns the manager of this kind; without one, the platform's.
pub(super) fn of(kind: Option<ManagerKind>) -> &'static ServiceManager {
    match kind {
        Some(ManagerKind::Systemd) => &SYSTEMD,
        Some(ManagerKind::Launchd) => &LAUNCHD,
        None => MANAGERS[0],
    }
}

/// A point in the life of a service at which commands run.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum ServiceStep {
    /// After the file has been written.
    Start,
    /// Before the file is removed.
    Stop,
    /// After the file has been removed.
    Forget,
}

impl ServiceManager {
    /// Path of the manager's file for baton; `None` if there is no home directory.
    pub(in crate::cli) fn path(&self) -> Option<PathBuf> {
        Some((self.directory)()?.join(self.file))
    }

    /// Commands of a step for the user with this id.
    pub(in crate::cli) fn commands(&self, step: ServiceStep, uid: u32) -> Vec<Vec<String>> {
        let file = self.path().map(|path| path.display().to_string());
        let file = file.unwrap_or_default();
        let filled = |word: &&str| word.replace("{uid}", &uid.to_string()).replace("{file}", &file);
        // The table has the order of the enum.
        let commands = self.steps[step as usize].iter();
        commands
            .map(|command| command.iter().map(filled).collect())
            .collect()
    }
}

fn systemd_unit(plan: &ServicePlan) -> String {
    let command: Vec<_> = plan.command.iter().map(|word| systemd_word(word)).collect();
    format!(
        "\
# Made by `baton service install`.
[Unit]
Description=baton, a proxy in front of LLM APIs

[Service]
ExecStart={}
ExecReload=/bin/kill -HUP $MAINPID
# glibc would keep the freed memory of parallel handoffs in up to eight arenas for each processor.
Environment=MALLOC_ARENA_MAX=2
# Variables such as BATON_UPSTREAMS__ANTHROPIC__API_KEY; the file may be missing.
EnvironmentFile=-%E/baton/environment
Restart=on-failure
RestartSec=2
# Open streams may end first: longer than server.drain_secs.
TimeoutStopSec={}
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
",
        command.join(" "),
        plan.stop_secs
    )
}

/// Quotes a word of a command line, so that it has no specifiers or variables (systemd.service(5)).
fn systemd_word(word: &str) -> String {
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' | '$' => quoted.extend([c, c]),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn launchd_plist(plan: &ServicePlan) -> String {
    let mut words = String::new();
    for word in &plan.command {
        let _ = writeln!(words, "    <string>{}</string>", xml_text(word));
    }
    // A property list has no octal numbers: the mask 63 is 0077.
    let log = xml_text(&plan.log);
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Made by `baton service install`. -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>local.baton</string>
  <key>ProgramArguments</key>
  <array>
{words}  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ExitTimeOut</key>
  <integer>{}</integer>
  <key>Umask</key>
  <integer>63</integer>
  <key>StandardOutPath</key>
  <string>{log}</string>
  <key>StandardErrorPath</key>
  <string>{log}</string>
</dict>
</plist>
"#,
        plan.stop_secs
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn plan() -> ServicePlan {
        let command = [
            "/opt/my tools/baton",
            "serve",
            "--config",
            "/home/a&b/50% $HOME \"x\"\\.toml",
        ];
        ServicePlan {
            command: command.map(str::to_owned).into(),
            stop_secs: 45,
            log: "/home/a&b/service.log".to_owned(),
        }
    }

    #[test]
    fn a_systemd_unit_has_its_command_quoted() {
        let unit = (SYSTEMD.render)(&plan());
        let command =
            r#"ExecStart="/opt/my tools/baton" "serve" "--config" "/home/a&b/50%% $$HOME \"x\"\\.toml""#;
        assert!(unit.contains(&format!("\n{command}\n")), "{unit}");
        for line in [
            "ExecReload=/bin/kill -HUP $MAINPID",
            "Environment=MALLOC_ARENA_MAX=2",
            "TimeoutStopSec=45",
            "Restart=on-failure",
            "WantedBy=default.target",
        ] {
            assert!(unit.contains(&format!("\n{line}\n")), "{line}");
        }
        let commands = SYSTEMD.commands(ServiceStep::Start, 7);
        assert_eq!(commands[2].join(" "), "systemctl --user restart baton.service");
    }

    #[test]
    fn a_launchd_file_has_its_words_escaped_and_starts_at_login() {
        let plist = (LAUNCHD.render)(&plan());
        for part in [
            "<string>/opt/my tools/baton</string>\n    <string>serve</string>",
            "<string>/home/a&amp;b/50% $HOME \"x\"\\.toml</string>",
            "<key>RunAtLoad</key>\n  <true/>",
            "<key>ExitTimeOut</key>\n  <integer>45</integer>",
            "<key>StandardErrorPath</key>\n  <string>/home/a&amp;b/service.log</string>",
        ] {
            assert!(plist.contains(part), "{part}\n{plist}");
        }
        assert_eq!(plist.matches("<key>").count(), 9, "{plist}");
        let stop = LAUNCHD.commands(ServiceStep::Stop, 501);
        assert_eq!(stop, [["launchctl", "bootout", "gui/501/local.baton"]]);
    }
}

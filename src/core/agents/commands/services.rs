//! Lines that stop commands that keep running, or ask whether they run.

use super::single::name_of_program;
use super::steps::{bare, steps};
use crate::agents::command_table::WORDS;

/// Whether a command may stop others that keep running.
pub(super) fn may_stop(plain: &str) -> bool {
    let mut words = plain.split_whitespace().skip(1);
    let has = |some: &[&str]| plain.split_whitespace().any(|word| some.contains(&word));
    match name_of_program(plain) {
        "docker" | "docker-compose" | "podman" | "systemctl" | "pm2" => {
            words.any(|word| WORDS.stops_with.contains(&word))
        }
        "xargs" => has(&WORDS.stops),
        "fuser" => plain.contains(" -k"),
        name => WORDS.stops.contains(&name),
    }
}

/// The names of the commands that a line stops. The list is empty if they are unknown. `None` if the line stops nothing.
pub fn stops(line: &str) -> Option<Vec<&str>> {
    let steps = steps(line);
    let plain = || steps.iter().map(|step| bare(step.text));
    let mut stopping = plain().filter(|plain| may_stop(plain)).peekable();
    stopping.peek()?;
    // The other programs stop processes by numbers.
    let named = stopping.filter(|plain| matches!(name_of_program(plain), "pkill" | "killall"));
    let names = named.filter_map(|plain| {
        let (_, mut rest) = plain.split_once(char::is_whitespace)?;
        while let Some(option) = rest.strip_prefix('-') {
            rest = option.split_once(char::is_whitespace)?.1.trim_start();
        }
        let name = rest.split(" 2>").next()?.split('>').next()?;
        Some(name.trim().trim_matches(['\'', '"'])).filter(|name| name.len() > 2)
    });
    Some(names.collect())
}

/// Whether a line asks a server of this machine for an answer, or for the processes that run.
pub fn asks_services(line: &str) -> bool {
    const HERE: [&str; 4] = ["localhost", "127.0.0.1", "0.0.0.0", "[::1]"];
    let asks = |plain: &str| match name_of_program(plain) {
        "curl" | "wget" | "nc" | "http" | "Invoke-WebRequest" | "iwr" => {
            HERE.iter().any(|host| plain.contains(host))
        }
        "lsof" | "pgrep" => true,
        _ => false,
    };
    // Most lines name none of them, and need not be divided.
    let mut names = HERE.iter().chain(&["lsof", "pgrep"]);
    names.any(|name| line.contains(name)) && steps(line).iter().any(|step| asks(bare(step.text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_stops_commands_names_them_or_not() {
        for (line, names) in [
            (
                "pkill -f \"next dev\" 2>/dev/null; sleep 1",
                Some(vec!["next dev"]),
            ),
            ("killall node", Some(vec!["node"])),
            ("pkill -9 -f 'shop.main'", Some(vec!["shop.main"])),
            ("lsof -ti:3000 | xargs kill -9", Some(Vec::new())),
            ("kill %1", Some(Vec::new())),
            ("docker compose down", Some(Vec::new())),
            ("docker compose ps", None),
            ("skill list", None),
            ("echo kill", None),
        ] {
            assert_eq!(stops(line), names, "{line}");
        }
    }

    #[test]
    fn only_questions_about_this_machine_concern_its_servers() {
        for line in [
            "curl -s http://localhost:3000/up",
            "sleep 2 && lsof -i :3000",
            "pgrep -f shop",
        ] {
            assert!(asks_services(line), "{line}");
        }
        for line in ["curl https://example.com", "echo curl localhost"] {
            assert!(!asks_services(line), "{line}");
        }
    }
}

//! The `baton client` command: adds, lists and removes clients in the directory of clients.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args as ClapArgs, Subcommand};
use serde::Serialize;
use serde_json::json;

use super::agents::{self, AgentSetup, Setup};
use super::exit::{CliResult, CommandFailure, Exit};
use super::output::{Out, shown, table, visible};
use super::shells::ShellSyntax;
use super::state_args::StateArgs;
use super::{block_on, doctor, invalid, load_state, read, running, state_flags};
use baton_state::config::{ClientKey, Config, Problem, client_files};
use baton_state::store::{self, HandoffFilter};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton client add ada
  baton client list
  baton client remove ada")]
pub(super) struct ClientArgs {
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Debug, Subcommand)]
enum ClientCommand {
    /// Add a client, and print its key and the settings of its agents
    Add(AddArgs),
    /// List the clients of the config and of the directory
    List(ListArgs),
    /// Remove the file of a client, whose key stops working
    Remove(RemoveArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Writes NAME.toml with the SHA-256 digest of the key to `server.clients_dir`. A running proxy admits the client within two seconds. \
The key is printed once and stored nowhere.

Examples:
  baton client add ada
  baton client add grace --url https://baton.example.com
  baton client add alan --json | jq -r .key")]
struct AddArgs {
    /// Name that the client's handoffs are stored under (letters, digits, `-`, `_`, `.`)
    name: String,
    #[command(flatten)]
    state: StateArgs,
    /// URL of the proxy for the client [default: from server.hosts and server.listen]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton client list
  baton client list --json | jq -r '.[].name'")]
struct ListArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A running proxy refuses the key within two seconds; open streams end by themselves. What is stored of the client stays: \
`baton store forget --client NAME` deletes it.

Examples:
  baton client remove ada")]
struct RemoveArgs {
    /// Name of the client
    name: String,
    #[command(flatten)]
    state: StateArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ClientArgs, out: &mut Out) -> CliResult {
    match &args.command {
        ClientCommand::Add(args) => add(args, out),
        ClientCommand::List(args) => list(args, out),
        ClientCommand::Remove(args) => remove(args, out),
    }
}

fn add(args: &AddArgs, out: &mut Out) -> CliResult {
    // The name becomes that of a file, so it must neither leave the directory nor hide in it.
    if !client_files::is_name(&args.name) {
        let message = format!("{:?} cannot be the name of a client", visible(&args.name));
        return Err(Exit::USAGE.with_help(message, "use letters, digits, `-`, `_` and `.`, and not `local`"));
    }
    let config = load_state(&args.state, &[])?;
    if config.clients.iter().any(|client| client.name == args.name) {
        return Err(taken(&args.name));
    }
    let file = file_of(&config, &args.name)?;
    let key = client_files::add(&file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => taken(&args.name),
        _ => Exit::CANNOT_CREATE.failure(format!("failed to write {}: {error}", shown(&file))),
    })?;
    warn_of_stored(args, &config);
    let key = key.reveal();
    let url = args.url.clone().unwrap_or_else(|| client_url(&config));
    let url = url.trim_end_matches('/');
    let agents = remote_agents(&config, url);
    if args.json {
        let settings = agents.map(|RemoteAgent { agent, keys, setup }| {
            let keys = keys.into_iter().map(|name| (name, key));
            let own = setup.variables.iter();
            let all = own.map(|(name, value)| (*name, value.as_str())).chain(keys);
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.into());
            let variables: serde_json::Map<_, _> = all.map(owned).collect();
            json!({ "agent": agent.name, "variables": variables, "arguments": setup.arguments })
        });
        let settings: Vec<_> = settings.collect();
        // These names are public API.
        return out.json(&json!({
            "name": args.name, "key": key, "url": url, "file": file, "agents": settings,
        }));
    }
    out.line(format_args!("client {} added in {}", args.name, shown(&file)))?;
    out.line(format_args!("key, shown only now: {key}"))?;
    let lines: Vec<_> = agents.map(|remote| command(&remote, key)).collect();
    if lines.is_empty() {
        return out.line("no known agent sends to the upstreams of the config");
    }
    out.line(format_args!("\nHow {} starts an agent:", args.name))?;
    out.lines(lines)
}

/// Reports handoffs that an earlier client of this name has left, because the new one can resume them.
fn warn_of_stored(args: &AddArgs, config: &Config) {
    let name = &args.name;
    let handoffs = block_on(async {
        let store = store::open_for_reading(&config.store, &config.state_dir)?;
        let filter = HandoffFilter {
            principal: Some(name.clone()),
            limit: 1,
            ..HandoffFilter::everything()
        };
        Ok(store.handoffs(&filter).await?)
    });
    // A store that cannot be read here, as without its secrets, does not keep a client from being added.
    if handoffs.is_ok_and(|handoffs| !handoffs.is_empty()) {
        let options = args.state.options();
        let _ = Out::stderr().line(format_args!(
            "baton: handoffs of an earlier client {name} are stored, and this one can use them; before you give it the key, delete them: \
             baton store forget{options} --client {name}"
        ));
    }
}

/// An agent that needs nothing but variables and arguments, for a client of the proxy.
struct RemoteAgent {
    agent: &'static AgentSetup,
    /// Variables for the client's key.
    keys: Vec<&'static str>,
    setup: Setup,
}

/// The agents that can reach an upstream of the config through the proxy at `url`, with their variables for those.
fn remote_agents(config: &Config, url: &str) -> impl Iterator<Item = RemoteAgent> {
    let is_reached = |name: &str| {
        let upstreams = agents::upstreams_for(name);
        upstreams.is_none_or(|names| names.iter().any(|name| config.upstreams.contains_key(*name)))
    };
    // A config file would have to be written on the client's machine.
    let agents = agents::known().iter().filter(|agent| agent.file.is_none());
    let agents = agents.map(move |agent| {
        let keys = agent.keys.iter().map(String::as_str);
        let mut setup = agent.setup(url, url, "");
        setup.variables.retain(|(name, _)| is_reached(name));
        RemoteAgent {
            agent,
            keys: keys.filter(|name| is_reached(name)).collect(),
            setup,
        }
    });
    agents.filter(|remote| !remote.keys.is_empty())
}

/// Formats the command line that starts an agent with a client's key.
fn command(RemoteAgent { agent, keys, setup }: &RemoteAgent, key: &str) -> String {
    // The proxy's URL without a path is for programs that the agent starts.
    let own = setup.variables.iter().filter(|(name, _)| *name != agents::URL);
    let own = own.map(|(name, value)| format!("{name}={}", ShellSyntax::Sh.quoted(value)));
    let keys = keys.iter().map(|name| format!("{name}={key}"));
    let arguments = setup.arguments.iter().map(|word| ShellSyntax::Sh.quoted(word));
    let name = [agent.name.clone()];
    let words: Vec<_> = own.chain(keys).chain(name).chain(arguments).collect();
    format!("  {}", words.join(" "))
}

/// URL of the proxy for other machines, as far as the config shows it.
fn client_url(config: &Config) -> String {
    let listen = config.server.at.listen;
    match config.server.hosts.first() {
        Some(host) => format!("{}://{host}:{}", config.server.at.scheme(), listen.port()),
        None => running::url(config, running::reachable(listen)),
    }
}

fn taken(name: &str) -> CommandFailure {
    let help = format!("choose another name, or `baton client remove {name}` first for a new key");
    Exit::CANNOT_CREATE.with_help(format!("a client {name:?} exists already"), help)
}

/// Returns the file of a client, in the configured directory.
fn file_of(config: &Config, name: &str) -> CliResult<PathBuf> {
    let Some(dir) = &config.server.clients_dir else {
        let help = "set it, for example to /etc/baton/clients, or add a [[clients]] entry";
        return Err(Exit::CONFIG.with_help("`server.clients_dir` is not set", help));
    };
    Ok(client_files::path(dir, name))
}

/// A client in the output of `list`. The names are public API.
#[derive(Serialize)]
struct ShownClient {
    name: String,
    /// File in the directory of clients; absent for an entry of the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

fn list(args: &ListArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, &[])?;
    let shown_client = |client: &ClientKey| ShownClient {
        name: client.name.clone(),
        file: client.file.clone(),
    };
    for problem in &config.refused_clients {
        Out::stderr().line(format_args!("baton: refused: {}", visible(&problem.to_string())))?;
    }
    let clients: Vec<_> = config.clients.iter().map(shown_client).collect();
    if args.json {
        return out.json(&clients);
    }
    if clients.is_empty() {
        return out.line(match config.server.clients_dir {
            Some(_) => "no clients: the proxy refuses every request until one is added",
            None => "no clients: everybody who reaches the proxy may use it",
        });
    }
    let heading = ["NAME", "FROM"].map(str::to_owned).to_vec();
    let rows = clients.iter().map(|client| {
        let file = client.file.as_deref();
        vec![
            visible(&client.name),
            file.map_or_else(|| "the config".to_owned(), shown),
        ]
    });
    out.lines(table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>()))
}

fn remove(args: &RemoveArgs, out: &mut Out) -> CliResult {
    // Only the directory is needed: no other key may keep a client from being removed.
    let (config, problems) = read(args.state.config.as_ref(), &state_flags(&args.state, &[]));
    if config.server.clients_dir.is_none() && !problems.is_empty() {
        return Err(invalid(&problems));
    }
    let file = file_of(&config, &args.name)?;
    // The name is compared with those that exist, so that it cannot lead out of the directory.
    let dir = file.parent().unwrap_or(Path::new("."));
    let files = client_files::list(dir)
        .map_err(|error| Exit::NO_INPUT.failure(format!("{}: {error}", shown(dir))))?;
    if !files.iter().any(|(name, _)| *name == args.name) {
        let message = format!("there is no client {:?} in {}", args.name, shown(dir));
        let help = "`baton client list` shows the clients; edit the config for its entries";
        return Err(Exit::NO_INPUT.with_help(message, help));
    }
    fs::remove_file(&file)
        .map_err(|error| Exit::IO.failure(format!("failed to remove {}: {error}", shown(&file))))?;
    let refused = doctor::config::refused_files(&config).into_iter();
    let refused = refused.map(|finding| finding.to_string());
    for why in problems.iter().map(Problem::to_string).chain(refused) {
        let line = "baton: the client is removed, but a running proxy refuses other changes";
        Out::stderr().line(format_args!("{line}: {}", visible(&why)))?;
    }
    if args.json {
        return out.json(&json!({ "name": args.name, "file": file }));
    }
    let name = &args.name;
    out.line(format_args!(
        "client {name} removed; its key stops working within two seconds"
    ))?;
    out.line(format_args!(
        "what is stored of it stays until `baton store forget --client {name}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_state::config::{Environment, Flags};

    /// Command lines for a client of a proxy with only these upstreams.
    fn commands(upstreams: &[&str]) -> Vec<String> {
        let mut config = Config::from_text(None, &Environment::default(), &Flags::default()).unwrap();
        config
            .upstreams
            .retain(|name, _| upstreams.contains(&name.as_str()));
        let agents = remote_agents(&config, "https://baton.test");
        agents.map(|remote| command(&remote, "KEY")).collect()
    }

    #[test]
    fn a_client_gets_the_lines_that_work_with_the_upstreams() {
        let lines = commands(&["anthropic"]);
        let agents = lines.iter().map(|line| line.rsplit(' ').next().unwrap());
        assert_eq!(
            agents.collect::<Vec<_>>(),
            ["claude", "opencode", "qwen", "goose"]
        );
        let others = ["OPENAI_", "GOOGLE_", "GEMINI_"];
        assert!(
            lines
                .iter()
                .all(|line| !others.iter().any(|name| line.contains(name))),
            "{lines:?}"
        );
        let gemini = commands(&["gemini"]);
        assert_eq!(
            gemini[0],
            "  GOOGLE_GEMINI_BASE_URL=https://baton.test GEMINI_API_KEY=KEY gemini"
        );
        let openai = commands(&["openai"]);
        assert!(
            openai
                .iter()
                .any(|line| line.contains("CODEX_API_KEY=KEY codex -c")),
            "{openai:?}"
        );
        assert_eq!(commands(&["plan"]), [""; 0]);
    }
}

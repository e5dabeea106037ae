//! The `baton run` command: runs an agent on this terminal, through the proxy that serves from the state
//! directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;

use clap::Args as ClapArgs;

use super::agents::{self, AgentSetup};
use super::declared::{self, OwnUrl, place};
use super::exit::{CliResult, CommandFailure, Exit};
use super::output::{Out, visible};
use super::proxy_watch::ProxyWatch;
use super::running::{self, Process, StartedWith};
use super::sharing::{self, ProxyLease};
use super::shells::ShellSyntax;
use super::state_args::StateArgs;
use super::{config_file, foreground, load_state};
use baton_core::brake::{BrakeOutcome, parse_dollars, provider_limit};
use baton_core::plan::FreeCutPolicy;
use baton_core::record::{LOCAL, is_topic};
use baton_core::text::closest::closest_name;
use baton_state::config::Config;
use baton_state::journal::JournalReader;
use uuid::Uuid;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Agents: claude, codex, opencode, gemini, agy, qwen, pi, goose, cline, aider, or a path to one. Any other program gets the \
variables that the SDKs read. All arguments after the agent's name are the agent's.

Uses the proxy that serves from the state directory, or starts one in the background, which stops after the last agent \
and is started again if it is killed; its log is serve.log in the state directory. None of your files is edited. The \
exit code is the agent's, or 128 plus the signal's number if a signal ended the agent. When the agent exits, each \
session with work since its last handoff leaves a handoff; a line names its directory (handoff.at_exit).

Examples:
  baton run claude
  baton run codex exec \"fix the tests\"
  baton run --topic importer claude
  baton run --budget 5 claude
  baton run --shadow claude
  baton run -- ./node_modules/.bin/gemini -m gemini-2.5-pro
  baton run --config team.toml my-agent --verbose")]
pub(super) struct RunArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Set the topic of the session's handoffs: letters, digits, `.`, `_` and `-` [handoff.topic]
    #[arg(long, value_name = "NAME", value_parser = topic)]
    topic: Option<String>,
    /// Stop the agent when its session has cost this many US dollars; `::go` lets it continue [brake.session_dollars]
    #[arg(long, value_name = "DOLLARS", value_parser = budget)]
    budget: Option<String>,
    /// Change nothing, and record where handoffs would have happened [handoff.inject]
    #[arg(long)]
    shadow: bool,
    /// Agent to run, followed by its own arguments
    #[arg(value_name = "AGENT", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    agent: Vec<OsString>,
}

fn topic(text: &str) -> Result<String, &'static str> {
    is_topic(text)
        .then(|| text.to_owned())
        .ok_or("a topic has up to 64 letters, digits, dots, `_` and `-`")
}

fn budget(text: &str) -> Result<String, &'static str> {
    parse_dollars(text)?;
    // The proxy takes it from the base URL.
    Ok(text.trim().trim_start_matches('$').to_owned())
}

pub(super) fn run(args: &RunArgs, at_exit: AtExit) -> CliResult {
    let [program, own @ ..] = args.agent.as_slice() else {
        return Err(Exit::USAGE.with_help("no agent given", "name one, as in `baton run claude`"));
    };
    if let Some(option) = program.to_str().filter(|word| word.starts_with('-')) {
        return Err(unknown_option(option));
    }
    let start = AgentStart {
        named: program,
        first: &[],
        own,
        topic: args.topic.as_deref(),
        budget: args.budget.as_deref(),
        shadow: args.shadow,
        at_exit,
    };
    agent(&start, &args.state)
}

/// Failure for an unknown option before the agent's name.
fn unknown_option(option: &str) -> CommandFailure {
    let command = RunArgs::augment_args(clap::Command::new("run"));
    let known: Vec<_> = command.get_arguments().filter_map(|arg| arg.get_long()).collect();
    let meant = closest_name(option.trim_start_matches('-'), known);
    let help = match meant {
        Some(name) => format!("did you mean `--{name}`?"),
        None => "`baton run --help` lists the options; an agent's own options come after its name".to_owned(),
    };
    Exit::USAGE.with_help(format!("there is no option {}", visible(option)), help)
}

/// Callback for an agent that has exited.
pub(super) type AtExit = fn(&Config, &EndedRun<'_>);

/// A run whose agent has exited.
pub(super) struct EndedRun<'a> {
    pub(super) id: &'a str,
    /// Options that make `baton handoffs resume` start the same agent from the same state, quoted for the user's shell.
    pub(super) resume_options: String,
    /// Whether the journal has all of the run's requests.
    pub(super) is_complete: bool,
}

/// Parameters for the start of an agent.
pub(super) struct AgentStart<'a> {
    /// Name or path of the agent on the command line.
    pub(super) named: &'a OsStr,
    /// Arguments before the user's.
    pub(super) first: &'a [String],
    pub(super) own: &'a [OsString],
    /// Topic of the run's handoffs.
    pub(super) topic: Option<&'a str>,
    /// Budget of the run's sessions, in US dollars.
    pub(super) budget: Option<&'a str>,
    /// Whether the run is in shadow mode.
    pub(super) shadow: bool,
    pub(super) at_exit: AtExit,
}

/// Runs an agent and returns its exit code as the command's.
pub(super) fn agent(start: &AgentStart<'_>, state: &StateArgs) -> CliResult {
    let named = start.named;
    let mut config = load_state(state, &[])?;
    // Absolute, because the proxy and the agent get paths below it.
    config.state_dir = std::path::absolute(&config.state_dir)?;
    let agent = agents::find_or_generic(&named.to_string_lossy());
    // Checked first, so that no proxy is started in vain.
    must_exist(named)?;
    // Taken before the proxy is looked up, so that it cannot stop in between.
    let stay = ProxyLease::begin(&config.state_dir)?;
    let file = config_file(state.config.as_ref());
    let proxy = sharing::proxy(&config.state_dir, file.as_deref(), None)?;
    if proxy.started_by_run {
        let own = StartedWith::of_process(&config, file.as_deref());
        own.check(&running::started_with(&config.state_dir))?;
    }
    announce(named, agent, &proxy, &config)?;
    let id = Uuid::now_v7();
    stay.note(id)?;
    let run = AgentRun {
        start,
        id: id.to_string(),
        agent,
        proxy: &proxy,
        config: &config,
        stay: &stay,
    };
    let watch = ProxyWatch::begin(&proxy, &config, file, run.is_headless());
    let ended = run.to_its_end();
    let id = run.id;
    let proxy = watch.map_or_else(|| proxy.clone(), ProxyWatch::end);
    // An error of the agent is returned only after this, so that the proxy can stop in any case.
    let is_complete = stay.leave(&proxy);
    let code = ended?;
    // The user may have switched handoffs off since.
    if let Ok(now) = load_state(state, &[]) {
        config.handoff.inject = now.handoff.inject;
    }
    if !start.shadow {
        let ended = EndedRun {
            id: &id,
            resume_options: resume_options(named, state),
            is_complete,
        };
        (start.at_exit)(&config, &ended);
    }
    tell_stop(&config, &id, start.budget);
    match code {
        0 => Ok(()),
        code => Err(Exit::of_agent(code).silent()),
    }
}

fn resume_options(named: &OsStr, state: &StateArgs) -> String {
    let shell = ShellSyntax::of_user();
    let with = ["--with".to_owned(), named.to_string_lossy().into_owned()];
    let words = with.into_iter().chain(state.words()).chain(["--run".to_owned()]);
    let words: Vec<_> = words.map(|word| shell.quoted(&word)).collect();
    visible(&words.join(" "))
}

/// Returns the chat command that lets a client's stopped agent continue, unless the config forbids it.
pub(super) fn go_command(config: &Config, client: Option<&str>, stop: BrakeOutcome) -> Option<String> {
    let prefix = &config.commands.prefix;
    let policy = config.brake_of(client.unwrap_or(LOCAL));
    let may_go_on = stop != BrakeOutcome::StoppedBudget || policy.may_raise();
    // Without a prefix there are no chat commands.
    (may_go_on && !prefix.is_empty()).then(|| format!("{prefix}go"))
}

/// Reports that the brake or the provider stopped the agent, whose own screen is gone. Errors are ignored: the agent has
/// ended.
fn tell_stop(config: &Config, run: &str, budget: Option<&str>) {
    let journal = JournalReader::open(&config.state_dir).ok().flatten();
    let last = journal.and_then(|journal| journal.last_of_run(run).ok().flatten());
    let last = last.unwrap_or_default();
    if let Some(stop) = last.brake.filter(|outcome| outcome.is_stop()) {
        let _ = Out::stderr().line(match go_command(config, last.client.as_deref(), stop) {
            // Another run without the option has no budget that the command could raise.
            Some(go) if budget.is_some() => format!(
                "baton: the brake stopped this session; continue it in another run with a larger `--budget`, or with the same one and `{go}`"
            ),
            Some(go) => format!(
                "baton: the brake stopped this session; continue it in the agent with `{go}`, or see `baton log brake:stopped*`"
            ),
            None => "baton: the brake stopped this session; see `baton log brake:stopped*`".to_owned(),
        });
    }
    if let Some(limit) = last.provider_limit {
        let _ = Out::stderr().line(format_args!("baton: {}", provider_limit(limit.opens_ms)));
    }
}

/// Writes notices about unexpected settings to standard error. On a terminal, adds the proxy's address.
fn announce(named: &OsStr, agent: &'static AgentSetup, proxy: &Process, config: &Config) -> CliResult {
    let mut out = Out::stderr();
    if !agent.is_known() {
        let named = visible(&named.to_string_lossy());
        let given = agent.setup(&proxy.data, &proxy.data, "").variables;
        let names: Vec<_> = given.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        out.line(format_args!(
            "baton: {named} is not a known agent; it gets {names}"
        ))?;
    }
    let configured = config.server.at.listen;
    if proxy.started_by_run && configured.port() != 0 && proxy.port() != Some(configured.port()) {
        let data = visible(&proxy.data);
        out.line(format_args!(
            "baton: {configured} is in use; the proxy is at {data}"
        ))?;
    }
    if proxy.version != env!("CARGO_PKG_VERSION") {
        let version = visible(&proxy.version);
        out.line(format_args!(
            "baton: the running proxy is version {version}; restart it to use this one"
        ))?;
    }
    // With a key in the environment, the agent needs no subscription.
    let has_key = |(name, value): (OsString, OsString)| {
        name.to_string_lossy().ends_with("_API_KEY") && !value.is_empty()
    };
    let terms = agent.terms().filter(|_| !std::env::vars_os().any(has_key));
    if let Some(why) = terms {
        out.line(format_args!("baton: {why}; use an API key"))?;
    }
    for (name, _) in pauses(agent, config) {
        out.line(format_args!(
            "baton: {} does not compact in a pause ({name}), because handoff.when_cache_cold hands over then",
            agent.title
        ))?;
    }
    if io::IsTerminal::is_terminal(&io::stderr()) {
        let (data, admin) = (visible(&proxy.data), visible(&proxy.admin));
        out.line(format_args!(
            "baton: {} through {data}, inspector {admin}",
            agent.title
        ))?;
    }
    Ok(())
}

/// Returns the variables that turn off an agent's own compaction during pauses.
///
/// They are needed only if baton hands off in pauses itself (`handoff.when_cache_cold`). Variables that the user has
/// set are left out.
fn pauses<'a>(agent: &'a AgentSetup, config: &Config) -> impl Iterator<Item = &'a (String, String)> {
    let is_on = config.handoff.when_cache_cold != FreeCutPolicy::Off;
    let all = agent.pauses.iter().filter(move |_| is_on);
    all.filter(|(name, _)| std::env::var_os(name).is_none())
}

/// An agent that is about to run.
struct AgentRun<'a> {
    start: &'a AgentStart<'a>,
    /// Id of the run, which its requests carry if [`Self::has_id`].
    id: String,
    agent: &'static AgentSetup,
    proxy: &'a Process,
    config: &'a Config,
    stay: &'a ProxyLease,
}

impl AgentRun<'_> {
    /// Runs the agent and returns its exit code.
    fn to_its_end(&self) -> CliResult<u8> {
        self.check_overriding()?;
        let (mut directory, mut path) = (None, String::new());
        let url = self.url();
        if let Some(file) = &self.agent.file {
            let made = self.stay.directory();
            let made = made.map_err(|error| agents::unwritten(&file.name, &error))?;
            path = file.write(made.path(), &url)?;
            directory = Some(made);
        }
        let base = declared::base(self.agent, &url);
        let setup = self.agent.setup(&self.proxy.data, &base, &path);
        let program = agent_program(self.agent, self.start.named);
        let mut command = Command::new(program);
        for (name, value) in &setup.variables {
            let theirs = own_variable(name);
            if theirs.map_or(Ok(true), |theirs| self.replaces(&theirs))? {
                command.env(name, value);
            }
        }
        command.envs(pauses(self.agent, self.config).map(|(name, value)| (name, value)));
        // The arguments set baton's base URL, so they are left out if a URL of the user's files stays.
        let mut replaces = true;
        for theirs in declared::own_urls(self.agent) {
            replaces &= self.replaces(&theirs)?;
        }
        if replaces {
            command.args(&setup.arguments);
        }
        command.args(self.start.first).args(self.start.own);
        if self.has_id() && self.is_headless() {
            running::tell_drafts(self.proxy, self.config.admin.token.as_ref(), &self.id);
        }
        let ended = foreground::run(&mut command).map_err(|error| unstarted(program, &error));
        // The agent reads its config file until it ends, so the directory is deleted only now.
        drop(directory);
        ended
    }

    /// The proxy's URL, with path segments for the run, the topic, the budget and shadow mode.
    fn url(&self) -> String {
        let run = self.has_id().then(|| format!("/r/{}", self.id));
        let topic = self.start.topic.map(|name| format!("/t/{name}"));
        let budget = self.start.budget.map(|dollars| format!("/b/{dollars}"));
        let shadow = self.start.shadow.then(|| "/h/shadow".to_owned());
        let data = Some(self.proxy.data.clone());
        [data, run, topic, budget, shadow].into_iter().flatten().collect()
    }

    /// Whether requests carry the id of the run.
    fn has_id(&self) -> bool {
        let policy = &self.config.documents;
        policy.enabled && policy.at_exit
    }

    /// Whether the agent has no screen that a line on standard error would disturb.
    fn is_headless(&self) -> bool {
        let has_terminal =
            io::IsTerminal::is_terminal(&io::stdin()) && io::IsTerminal::is_terminal(&io::stdout());
        let first: Vec<_> = self.start.first.iter().map(OsString::from).collect();
        !has_terminal || self.agent.is_headless(&first) || self.agent.is_headless(self.start.own)
    }

    /// Fails if the agent's configuration would send its requests past the proxy.
    fn check_overriding(&self) -> CliResult {
        let words: Vec<_> = self.start.first.iter().map(OsString::from).collect();
        let words = [&words, self.start.own].concat();
        let values = declared::overriding_values(self.agent, &words);
        let url = &self.proxy.data;
        let bypassing = values.iter().find(|value| value.bypasses(url));
        let unreached = || {
            let (message, help) = declared::unreached(self.agent, &words, url)?;
            Some((message, format!("{help}; or start the agent without baton")))
        };
        match bypassing.map(|value| value.problem(url)).or_else(unreached) {
            None => Ok(()),
            Some((message, help)) => Err(Exit::CONFIG.with_help(visible(&message), visible(&help))),
        }
    }

    /// Whether baton's URL replaces the user's.
    ///
    /// A URL of another server is an error: the agent holds a credential for that server, and baton would
    /// send it to its own upstream.
    fn replaces(&self, theirs: &OwnUrl) -> CliResult<bool> {
        let there = place(&theirs.url);
        // The user's URL leads to baton already, with a chosen upstream or declared windows. A URL of another
        // run (`/r/`) is replaced.
        let has = |part: &str| theirs.url.contains(part);
        if there == place(&self.proxy.data) && !has("/r/") && (has("/u/") || has("/w/")) {
            return Ok(false);
        }
        let base = |upstream: &&str| {
            let configured = self.config.upstreams.get(*upstream);
            configured.map_or("", |upstream| upstream.base_url.as_str())
        };
        let listen = self.config.server.at.listen.to_string();
        // `baton env` may have set it for a proxy that has ended since.
        let before = std::env::var(agents::URL).unwrap_or_default();
        let own = [self.proxy.data.as_str(), &listen, &before];
        let mut known = own.into_iter().chain(theirs.upstreams.iter().map(base));
        if known.any(|url| place(url) == there) {
            return Ok(true);
        }
        let (setting, url) = (visible(&theirs.setting), visible(&theirs.url));
        let Some(upstream) = theirs.upstreams.first() else {
            return Ok(true);
        };
        let variable = format!("BATON_UPSTREAMS__{}__BASE_URL", upstream.to_uppercase());
        let message = format!("{setting} is {url}, and baton sends to {}", base(upstream));
        Err(Exit::CONFIG.with_help(message, format!(
            "to go there through baton, set upstreams.{upstream}.base_url in the config, or {variable}; else unset {setting}"
        )))
    }
}

/// The user's value of a variable, if it is a URL that baton can replace.
pub(super) fn own_variable(name: &str) -> Option<OwnUrl> {
    let url = std::env::var(name).ok().filter(|value| value.contains("://"))?;
    Some(OwnUrl {
        setting: name.to_owned(),
        url,
        upstreams: agents::upstreams_for(name)?.to_vec(),
    })
}

/// Resolves an agent's name on the command line to the program to start.
fn agent_program<'a>(agent: &'static AgentSetup, named: &'a OsStr) -> &'a OsStr {
    named
        .to_str()
        .map_or(named, |text| OsStr::new(agent.program(text)))
}

/// Fails if an agent's program certainly does not exist.
pub(super) fn must_exist(named: &OsStr) -> CliResult {
    let agent = agents::find_or_generic(&named.to_string_lossy());
    let program = agent_program(agent, named);
    match is_missing(program) {
        true => Err(unfound(program)),
        false => Ok(()),
    }
}

/// Whether the program certainly does not exist.
fn is_missing(program: &OsStr) -> bool {
    match program.to_string_lossy().contains('/') {
        true => !Path::new(program).exists(),
        // Without `PATH` the system searches its default directories, so nothing is certain.
        false => std::env::var_os("PATH").is_some() && !agents::on_path(program).any(|file| file.exists()),
    }
}

fn unfound(program: &OsStr) -> CommandFailure {
    let message = format!("{} is not found", visible(&program.to_string_lossy()));
    let help = "install it, or give the path to it: baton run ./path/to/it";
    Exit::NOT_FOUND.with_help(message, help)
}

fn unstarted(program: &OsStr, error: &io::Error) -> CommandFailure {
    match error.kind() {
        io::ErrorKind::NotFound => unfound(program),
        _ => {
            let program = visible(&program.to_string_lossy());
            Exit::NOT_EXECUTABLE.failure(format!("failed to start {program}: {error}"))
        }
    }
}

//! Compares the facts that baton reports as seen with the real work of agents (`tests/recordings`).
//!
//! The agents' requests were recorded while they ran tests and builds of a small project, and are read at
//! each step. The recorder determined the exit codes and the files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use baton_core::agents::files::FileChange;
use baton_core::record::WireId;
use baton_core::transcript::Transcript;
use baton_core::wire::Operation;
use baton_core::work::{
    DraftIndex, DraftIndexSettings, SeenChange, SeenFacts, SeenFailure, SeenVerification,
};
use serde::Deserialize;
use serde_json::Value;

use crate::seen::seen;

/// The recorder's data about an agent.
#[derive(Deserialize)]
struct Truth {
    agent: String,
    version: String,
    wire: String,
    #[serde(rename = "folder")]
    directory: String,
    /// Index of the first prompt that the last request contains. Before it the agent had sent other content.
    from_prompt: usize,
    start: BTreeMap<String, String>,
    steps: Vec<Step>,
}

/// The content added in a step.
#[derive(Deserialize)]
struct Step {
    step: usize,
    prompt: usize,
    #[serde(default)]
    lines: Vec<Line>,
    #[serde(default)]
    ran: Vec<Ran>,
    /// Files that differ, with their digests. `None` for a deleted file.
    #[serde(default)]
    files: BTreeMap<String, Option<String>>,
    todos: Option<Vec<(String, String)>>,
    asked: Option<String>,
    /// Digest of all files. `None` if unchanged.
    tree: Option<String>,
    /// Branch and commit. `None` if unchanged.
    git: Option<(String, String)>,
}

/// A shell line with its exit code. `None` if it did not end.
#[derive(Deserialize)]
struct Line {
    line: String,
    exit: Option<i32>,
}

/// A program that tests or builds, as it was started.
#[derive(Deserialize)]
struct Ran {
    cwd: String,
    words: Vec<String>,
    exit: Option<i32>,
    /// Digest of the files when it ended. `None` means the files after the step.
    tree: Option<String>,
}

/// All steps up to a given one.
struct World<'t> {
    truth: &'t Truth,
    steps: &'t [Step],
}

/// A run with its turn.
struct Run<'t> {
    at: usize,
    ran: &'t Ran,
    turn: usize,
}

impl Truth {
    /// Fills in unchanged values.
    fn fill(&mut self) {
        let (mut tree, mut git) = (None, None);
        for step in &mut self.steps {
            tree = step.tree.take().or(tree);
            git = step.git.take().or(git);
            (step.tree, step.git) = (tree.clone(), git.clone());
            for ran in step.ran.iter_mut().filter(|ran| ran.exit.is_some()) {
                ran.tree = ran.tree.take().or(tree.clone());
            }
        }
    }
}

impl<'t> World<'t> {
    fn runs(&self) -> impl Iterator<Item = Run<'t>> {
        let steps = self.steps.iter();
        let of = |step: &'t Step| step.ran.iter().map(|ran| (step.prompt, ran));
        steps
            .flat_map(of)
            .enumerate()
            .map(|(at, (turn, ran))| Run { at, ran, turn })
    }

    /// Returns the runs that a stated command may refer to, in the order of their start.
    ///
    /// If the words name a directory, these are the runs in it. Otherwise they are the last run in the
    /// project's directory and the last run of all.
    fn runs_of(&self, command: &str) -> Vec<Run<'t>> {
        let (directory, words) = self.told(command);
        let same = |run: &Run<'t>| run.ran.words == words;
        let in_directory = |name: &str| self.runs().filter(same).filter(|run| run.ran.cwd == name).last();
        match directory {
            Some(directory) => in_directory(&directory).into_iter().collect(),
            None => in_directory(".")
                .into_iter()
                .chain(self.runs().filter(same).last())
                .collect(),
        }
    }

    /// Returns the directory and the words of a stated command.
    fn told(&self, command: &str) -> (Option<String>, Vec<String>) {
        let (mut directory, mut rest) = (None, command);
        while let Some((first, behind)) = rest
            .split_once(" && ")
            .filter(|(first, _)| first.starts_with("cd "))
        {
            let path = first["cd ".len()..].trim();
            let inside = path
                .strip_prefix(&self.truth.directory)
                .map(|path| path.trim_start_matches('/'));
            directory = Some(inside.unwrap_or(path).to_owned());
            rest = behind;
        }
        let typed = rest.split(" #").next().unwrap_or(rest);
        let mut words: Vec<&str> = typed.split_whitespace().collect();
        while words.first().is_some_and(|word| word.contains('=')) {
            words.remove(0);
        }
        if words.first() == Some(&"timeout") {
            words.drain(..2);
        }
        let told = words
            .into_iter()
            .take_while(|word| !word.contains('>') && *word != "&");
        (
            directory,
            told.map(|word| word.trim_matches(['\'', '"']).to_owned())
                .collect(),
        )
    }

    /// Whether the files changed between the end of this run and now.
    fn changed_behind(&self, run: &Run<'_>) -> bool {
        let mut at = 0;
        let Some(then) = self.tree_of(run) else {
            return false;
        };
        for step in self.steps {
            for ran in &step.ran {
                if at > run.at && ran.tree.as_deref().is_some_and(|tree| tree != then) {
                    return true;
                }
                at += 1;
            }
            if at > run.at && step.tree.as_deref() != Some(then) {
                return true;
            }
        }
        false
    }

    /// Returns the files when the run ended, or when it began if it did not end.
    fn tree_of(&self, run: &Run<'t>) -> Option<&'t str> {
        let mut begun = self
            .steps
            .iter()
            .filter(|step| step.ran.iter().any(|ran| std::ptr::eq(ran, run.ran)));
        run.ran.tree.as_deref().or_else(|| begun.next()?.tree.as_deref())
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &'t Step, &'t Line)> {
        let steps = self.steps.iter().enumerate();
        steps.flat_map(|(at, step)| step.lines.iter().map(move |line| (at, step, line)))
    }

    fn files(&self) -> (BTreeMap<&str, &str>, BTreeSet<&str>) {
        let mut now: BTreeMap<&str, &str> = self
            .truth
            .start
            .iter()
            .map(|(path, is)| (&**path, &**is))
            .collect();
        let mut touched = BTreeSet::new();
        for (path, is) in self.steps.iter().flat_map(|step| &step.files) {
            touched.insert(&**path);
            match is {
                Some(is) => now.insert(path, is),
                None => now.remove(&**path),
            };
        }
        (now, touched)
    }
}

/// Stated facts, and the false ones.
#[derive(Default)]
struct Judged {
    stated: usize,
    wrong: Vec<String>,
}

impl Judged {
    fn hold(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.stated += 1;
        if !holds {
            self.wrong.push(what());
        }
    }

    fn all(&mut self, world: &World<'_>, seen: &SeenFacts) {
        seen.verification.iter().for_each(|run| self.run(world, run));
        seen.failed().for_each(|failed| self.failed(world, failed));
        seen.files.iter().for_each(|changed| self.file(world, changed));
        for ran in seen.commands.iter().filter(|ran| ran.exit.is_some()) {
            let mut lines = world.lines();
            let known = lines.any(|(_, _, line)| is_line(line, &ran.command) && line.exit == ran.exit);
            self.hold(known, || format!("{ran:?}"));
        }
        if !seen.todos.is_empty() {
            let last = world.steps.iter().rev().find_map(|step| step.todos.as_ref());
            let named = |state: &str| {
                match state {
                    "completed" => "done",
                    "in_progress" => "in progress",
                    other => other,
                }
                .to_owned()
            };
            let told: Vec<_> = seen
                .todos
                .iter()
                .map(|todo| (todo.text.clone(), todo.state.name().to_owned()))
                .collect();
            let really = last.map(|todos| {
                todos
                    .iter()
                    .map(|(text, state)| (text.clone(), named(state)))
                    .collect()
            });
            self.hold(really.as_ref() == Some(&told), || format!("to-do {told:?}"));
        }
        for asked in &seen.questions {
            let prompt = world.steps.last().map_or(0, |step| step.prompt);
            let open = |step: &&Step| step.asked.as_ref() == Some(&asked.text) && step.prompt == prompt;
            self.hold(world.steps.iter().any(|step| open(&step)), || {
                format!("{asked:?}")
            });
        }
        self.repository(world, seen);
    }

    fn run(&mut self, world: &World<'_>, run: &SeenVerification) {
        let known = world.runs_of(&run.command);
        // The exit code of a shell that does not find the program.
        let missing =
            |(_, step, line): (usize, &Step, &Line)| line.exit == Some(127) && step.prompt == run.turn;
        if known.is_empty() && matches!(run.exit, None | Some(127)) {
            return self.hold(world.lines().any(missing), || format!("ended otherwise: {run:?}"));
        }
        if known.is_empty() {
            return self.hold(false, || format!("never ran: {run:?}"));
        }
        let ended = |one: &Run<'_>| {
            one.turn == run.turn && (run.exit.is_none() || run.exit == one.ran.exit || limit(run))
        };
        self.hold(known.iter().any(ended), || format!("ended otherwise: {run:?}"));
        if let Some(passed) = run.passed {
            let so = |one: &Run<'_>| one.turn == run.turn && (one.ran.exit == Some(0)) == passed;
            self.hold(known.iter().any(so) || limit(run), || format!("passed: {run:?}"));
        }
        if let Some(stale) = run.stale {
            let holds = known.iter().any(|one| world.changed_behind(one) == stale);
            self.hold(holds, || format!("files: {run:?}"));
        }
    }

    fn failed(&mut self, world: &World<'_>, failed: &SeenFailure) {
        let last = world
            .lines()
            .filter(|(_, _, line)| is_line(line, &failed.command))
            .last();
        let Some((at, step, line)) = last else {
            return self.hold(false, || format!("never ran: {failed:?}"));
        };
        let later = || world.steps[at + 1..].iter().flat_map(|step| &step.ran);
        let bad = |ran: &&Ran| ran.exit.is_some_and(|code| code != 0);
        let again = |ran: &Ran| {
            later().any(|one| one.words == ran.words && one.cwd == ran.cwd && one.exit == Some(0))
        };
        let done_again = step.ran.iter().filter(bad).any(again);
        let holds = line.exit == failed.exit && step.prompt == failed.turn && !done_again;
        self.hold(holds, || format!("{failed:?}"));
    }

    fn file(&mut self, world: &World<'_>, changed: &SeenChange) {
        let (now, touched) = world.files();
        let path = &*changed.path;
        let (was, is) = (world.truth.start.contains_key(path), now.contains_key(path));
        let so = match changed.change {
            FileChange::Created => !was && is,
            FileChange::Modified => was && is,
            FileChange::Deleted => was && !is,
            FileChange::Written => is,
        };
        self.hold(so && touched.contains(path), || format!("{changed:?}"));
    }

    fn repository(&mut self, world: &World<'_>, seen: &SeenFacts) {
        let git = |step: &Step| step.git.clone().unwrap_or_default();
        let Some(last) = world.steps.last().map(git) else {
            return;
        };
        if let Some(branch) = &seen.branch {
            self.hold(*branch == last.0, || format!("branch {branch}"));
        }
        if let Some(good) = &seen.good_commit {
            let committed = world.steps.iter().find(|step| git(step).1.starts_with(&**good));
            let passed = |step: &Step| {
                world
                    .runs()
                    .any(|run| run.ran.exit == Some(0) && run.ran.tree == step.tree)
            };
            self.hold(committed.is_some_and(passed), || format!("good commit {good}"));
        }
        let since = world
            .steps
            .iter()
            .rposition(|step| git(step).1 != last.1)
            .map_or(0, |at| at + 2);
        let behind: BTreeSet<_> = world
            .steps
            .iter()
            .skip(since)
            .flat_map(|step| step.files.keys())
            .collect();
        for path in &seen.uncommitted {
            self.hold(behind.contains(path), || format!("uncommitted {path}"));
        }
    }
}

/// Whether this is the stated line. Long lines are truncated.
fn is_line(line: &Line, told: &str) -> bool {
    line.line == told || told.len() > 300 && line.line.starts_with(told)
}

/// Whether the code belongs to `timeout` itself, as in `timeout 1 …`.
fn limit(run: &SeenVerification) -> bool {
    run.command.contains("timeout ") && run.exit == Some(124)
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

/// Returns the request as it was after a step, without the model's later output.
fn behind(body: &Value, step: usize) -> Value {
    let mut body = body.clone();
    let list = ["messages", "input", "contents"]
        .into_iter()
        .find(|key| body[*key].is_array());
    let list = body[list.expect("a transcript")].as_array_mut().unwrap();
    let next = format!("\"Step {}.\"", step + 1);
    if let Some(end) = list.iter().position(|item| item.to_string().contains(&next)) {
        list.truncate(end);
    }
    body
}

fn recordings() -> Vec<(Truth, Value)> {
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut found = Vec::new();
    for file in std::fs::read_dir(directory()).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let Some(agent) = name.strip_suffix(".truth.json") else {
            continue;
        };
        let mut truth: Truth = serde_json::from_slice(&read(&file)).unwrap();
        truth.fill();
        let body = serde_json::from_slice(&read(&directory().join(format!("{agent}.json")))).unwrap();
        found.push((truth, body));
    }
    found.sort_by(|a, b| a.0.agent.cmp(&b.0.agent));
    found
}

#[test]
fn what_is_stated_of_the_work_of_real_agents_is_so() {
    let (mut stated, mut wrong) = (0, Vec::new());
    for (truth, body) in recordings() {
        let wire = WireId::named(&truth.wire).unwrap();
        let mut judged = Judged::default();
        let steps = truth.steps.iter().enumerate();
        for (at, step) in steps.filter(|(_, step)| step.prompt >= truth.from_prompt) {
            let world = World {
                truth: &truth,
                steps: &truth.steps[..=at],
            };
            let seen = seen(wire, serde_json::to_vec(&behind(&body, step.step)).unwrap());
            let before = judged.wrong.len();
            judged.all(&world, &seen);
            let named =
                |what: &mut String| *what = format!("{} behind step {}: {what}", truth.agent, step.step);
            judged.wrong[before..].iter_mut().for_each(named);
        }
        println!(
            "{} {}: {} facts stated, {} false",
            truth.agent,
            truth.version,
            judged.stated,
            judged.wrong.len()
        );
        stated += judged.stated;
        wrong.extend(judged.wrong);
    }
    println!("{stated} facts stated, {} false", wrong.len());
    let mut some: Vec<_> = wrong.clone();
    let mut told = BTreeSet::new();
    some.retain(|what| told.insert(what.split_once(": ").map(|(_, what)| what.to_owned())));
    assert!(
        wrong.len() * 500 < stated,
        "{} of {stated}: {some:#?}",
        wrong.len()
    );
}

/// Requests name the directory that the agent works in. In three recordings that text is cut, so none is
/// named.
#[test]
fn the_directory_of_the_work_is_the_one_that_the_agent_works_in() {
    for (truth, body) in recordings() {
        let wire = baton_core::wire::wire(WireId::named(&truth.wire).unwrap());
        let body = serde_json::to_vec(&body).unwrap();
        let view = wire.read(&body.into(), Operation::Generate).unwrap();
        let transcript = Transcript::from_view(&view);
        let index = DraftIndex::from_transcript(DraftIndexSettings::default(), &transcript);
        let named = index.whereabouts().directory;
        println!("{}: {named:?}", truth.agent);
        let is_cut = ["gemini_cli", "pi", "goose_resumed"].contains(&truth.agent.as_str());
        assert!(
            named.as_deref() == Some(&truth.directory) || is_cut && named.is_none(),
            "{}: {named:?}",
            truth.agent
        );
    }
}

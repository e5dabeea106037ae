//! A scripted model without state, which obeys a directive in the transcript.
//!
//! A line `#task K/N steps=S [mixed] [refuse] [tool=NAME]` in the user's text (a user's prompt or a
//! carry-over prompt) requests `S` tool calls, and then the next of `N` tasks. If `session_handoff` is on
//! offer, the next task follows a handoff; otherwise it stays in the same context. `mixed` calls the handoff
//! next to the last step's tool. `refuse` first makes a handoff with an empty prompt.
//!
//! The number of tool results after the directive in the transcript is the current step. Any agent that runs
//! tools can therefore drive the model, and a transcript that was cut at the wrong position visibly changes
//! its replies. If the last message asks for a document with the headings of a handoff, the model writes one.

use serde_json::{Map, Value, json};

use super::dialect::{HANDOFF, Received};
use super::model::Model;
use super::reply::{Part, Reply};
use super::transcript::{Role, ToolDefinition, Turn};

/// The scripted model. The module's documentation describes the directive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Autopilot;

impl Model for Autopilot {
    fn reply(&self, request: &Received) -> Reply {
        let turns = request.turns();
        let tools = request.tools();
        if asks_for_document(&turns) {
            return document(&turns);
        }
        let Some((at, directive)) = last_directive(&turns) else {
            return echo(request, &turns);
        };
        let Some(tool) = directive.choose(&tools) else {
            return echo(request, &turns);
        };
        let after = DirectiveHistory::read(&turns[at..]);
        let reply = if request.offers_handoff() {
            directive.with_handoff(tool, &after)
        } else {
            directive.in_one_context(tool, &after)
        };
        if request.dialect.thinks(&request.body) {
            with_thinking(reply)
        } else {
            reply
        }
    }
}

/// Puts thinking before a reply.
fn with_thinking(mut reply: Reply) -> Reply {
    let thought = Part::Thinking("What does the task ask for next? — “step by step”.".to_owned());
    reply.parts.insert(0, thought);
    reply
}

fn echo(request: &Received, turns: &[Turn]) -> Reply {
    Reply::text(format!(
        "I saw {} messages in {} bytes.",
        turns.len(),
        request.raw.len()
    ))
}

/// Headings that identify a request for the document of a handoff.
const HEADINGS: [&str; 3] = ["## Goal", "## Decisions", "## Next steps"];

fn asks_for_document(turns: &[Turn]) -> bool {
    let last = turns.iter().rev().find(|turn| turn.role == Role::User);
    let asks = |text: &String| {
        let has = |heading: &&str| text.lines().any(|line| line.trim() == *heading);
        // A carry-over prompt has such headings without asking for anything.
        HEADINGS.iter().all(has) && !text.contains("<handoff-context>")
    };
    last.is_some_and(|turn| turn.texts.iter().any(asks))
}

/// A plausible document about such a session: the work and its progress.
fn document(turns: &[Turn]) -> Reply {
    let calls: Vec<&str> = turns
        .iter()
        .flat_map(|turn| &turn.calls)
        .map(|call| call.name.as_str())
        .collect();
    let done = match calls.last() {
        Some(name) => format!("{} steps, the last one with {name}.", calls.len()),
        None => "Nothing was run.".to_owned(),
    };
    Reply::text(format!(
        "## Goal\nThe steps that the user asked for are done; the next request is open.\n\n\
         ## Constraints and preferences\nStep by step.\n\n\
         ## Progress\nDone: {done}\n\n\
         ## Decisions\nOne command a step, since each is looked at before the next.\n\n\
         ## Failed attempts\nNone.\n\n\
         ## Critical context\nThe repository is the working directory.\n\n\
         ## Next steps\n1. Ask what comes next."
    ))
}

/// Events after the directive.
struct DirectiveHistory {
    /// Results of the agent's own tools.
    steps: usize,
    /// Results of handoff calls.
    handoffs: usize,
}

impl DirectiveHistory {
    fn read(turns: &[Turn]) -> Self {
        let calls = || turns.iter().flat_map(|turn| &turn.calls);
        let mut history = DirectiveHistory {
            steps: 0,
            handoffs: 0,
        };
        for result in turns.iter().flat_map(|turn| &turn.results) {
            if calls().any(|call| call.id == result.id && call.name == HANDOFF) {
                history.handoffs += 1;
            } else {
                history.steps += 1;
            }
        }
        history
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Directive {
    task: usize,
    tasks: usize,
    steps: usize,
    mixed: bool,
    refuse: bool,
    tool: Option<String>,
}

/// Lines without the user's earlier words that a carry-over prompt quotes.
fn unquoted(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.lines().filter(move |line| {
        match line.trim() {
            "<carried-over>" => is_quoted = true,
            "</carried-over>" => is_quoted = false,
            _ => {}
        }
        !is_quoted
    })
}

/// Finds the last directive in the user's messages, with the index of its turn.
fn last_directive(turns: &[Turn]) -> Option<(usize, Directive)> {
    let users = turns
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, turn)| turn.role == Role::User);
    users.into_iter().find_map(|(at, turn)| {
        let lines: Vec<&str> = turn.texts.iter().flat_map(|text| unquoted(text)).collect();
        lines
            .into_iter()
            .rev()
            .find_map(Directive::parse)
            .map(|directive| (at, directive))
    })
}

impl Directive {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.trim().strip_prefix("#task ")?.split_whitespace();
        let (task, tasks) = words.next()?.split_once('/')?;
        let mut directive = Directive {
            task: task.parse().ok()?,
            tasks: tasks.parse().ok()?,
            steps: 1,
            mixed: false,
            refuse: false,
            tool: None,
        };
        for word in words {
            let word = word.trim_matches(['[', ']']);
            match word.split_once('=') {
                Some(("steps", steps)) => directive.steps = steps.parse().ok()?,
                Some(("tool", tool)) => directive.tool = Some(tool.to_owned()),
                None if word == "mixed" => directive.mixed = true,
                None if word == "refuse" => directive.refuse = true,
                _ => {}
            }
        }
        Some(directive)
    }

    fn line(&self) -> String {
        let mut line = format!("#task {}/{} steps={}", self.task, self.tasks, self.steps);
        if self.mixed {
            line.push_str(" mixed");
        }
        if self.refuse {
            line.push_str(" refuse");
        }
        if let Some(tool) = &self.tool {
            line.push_str(" tool=");
            line.push_str(tool);
        }
        line
    }

    /// Chooses the tool to call: the named one, or else the first one with a schema.
    fn choose<'a>(&self, tools: &'a [ToolDefinition]) -> Option<&'a ToolDefinition> {
        let mut tools = tools.iter().filter(|tool| tool.name != HANDOFF);
        match &self.tool {
            Some(name) => tools.find(|tool| tool.name == *name),
            None => tools.find(|tool| tool.schema.is_object()),
        }
    }

    fn with_handoff(&self, tool: &ToolDefinition, after: &DirectiveHistory) -> Reply {
        let step = after.steps + 1;
        let last_step = step == self.steps;
        if after.steps < self.steps && !(self.mixed && last_step && self.task < self.tasks) {
            return self.step(self.task, step, tool);
        }
        if self.task >= self.tasks {
            return Reply::text(format!("All {} tasks done.", self.tasks));
        }
        if after.steps < self.steps {
            let reply = Reply::new().say("The last step, and the handoff beside it.");
            return reply
                .call(HANDOFF, self.carry_over())
                .call(&tool.name, arguments(tool, step));
        }
        if self.mixed && self.steps > 0 {
            // The handoff was called next to the last step. It takes effect when this turn ends without
            // calls.
            return Reply::text(format!("Task {} is done.", self.task));
        }
        let first_is_refused = usize::from(self.refuse);
        if after.handoffs < first_is_refused {
            return Reply::text("Handing over, badly.").call(HANDOFF, json!({"prompt": ""}));
        }
        if after.handoffs > first_is_refused {
            // The handoff was refused although it was valid, so repeating it would never end.
            return Reply::text(format!(
                "Task {} is done, but the handoff was refused.",
                self.task
            ));
        }
        let reply = Reply::text(format!("Task {} is done; handing over.", self.task));
        reply.call(HANDOFF, self.carry_over())
    }

    /// Without the handoff, all tasks run in one context.
    fn in_one_context(&self, tool: &ToolDefinition, after: &DirectiveHistory) -> Reply {
        let left = (self.tasks + 1).saturating_sub(self.task);
        if after.steps >= self.steps * left {
            return Reply::text(format!("All {} tasks done.", self.tasks));
        }
        let task = self.task + after.steps / self.steps;
        self.step(task, after.steps % self.steps + 1, tool)
    }

    fn step(&self, task: usize, step: usize, tool: &ToolDefinition) -> Reply {
        let reply = Reply::text(format!("Task {task}, step {step} of {}.", self.steps));
        reply.call(&tool.name, arguments(tool, step))
    }

    fn carry_over(&self) -> Value {
        let next = Directive {
            task: self.task + 1,
            ..self.clone()
        };
        let prompt = format!(
            "Task {} of {} is done. Findings so far: naïve “quotes”, 漢字, 🦀, C:\\tmp\\x, {{\"json\": [1]}}.\n\
             Go on with the next one:\n{}\nWork step by step.",
            self.task,
            self.tasks,
            next.line(),
        );
        json!({"prompt": prompt, "reason": format!("task {} done", self.task)})
    }
}

/// Plausible arguments for a tool: values for its required parameters, chosen by name and type.
fn arguments(tool: &ToolDefinition, step: usize) -> Value {
    let Value::Object(schema) = &tool.schema else {
        return json!({"command": format!("echo step {step}")});
    };
    object(schema, step)
}

fn object(schema: &Map<String, Value>, step: usize) -> Value {
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let properties = schema.get("properties");
    let mut out = Map::new();
    for name in required.iter().filter_map(Value::as_str) {
        let property = properties
            .and_then(|properties| properties.get(name))
            .unwrap_or(&Value::Null);
        out.insert(name.to_owned(), value(name, property, step));
    }
    Value::Object(out)
}

fn value(name: &str, schema: &Value, step: usize) -> Value {
    if let Some(first) = schema.get("enum").and_then(|choices| choices.get(0)) {
        return first.clone();
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        Some(kind) => kind.as_str(),
        None => None,
    };
    match kind {
        Some("integer" | "number") => json!(step),
        Some("boolean") => json!(false),
        Some("array") if name == "command" => json!(["echo", format!("step {step}")]),
        Some("array") if name == "commands" => json!([format!("echo step {step}")]),
        Some("array") => json!([]),
        Some("object") => schema
            .as_object()
            .map_or_else(|| json!({}), |schema| object(schema, step)),
        _ => json!(string(name, step)),
    }
}

fn string(name: &str, step: usize) -> String {
    match name {
        "path" | "file_path" | "filePath" | "file" | "filename" => "src/lib.rs".to_owned(),
        "command" | "cmd" | "script" => format!("echo step {step}"),
        "pattern" | "query" | "regex" => "fn main".to_owned(),
        "url" => "http://127.0.0.1/".to_owned(),
        "cwd" | "workdir" | "directory" | "dir" => ".".to_owned(),
        _ => format!("{name} {step}"),
    }
}

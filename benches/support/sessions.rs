//! Sessions of coding agents, from a seeded generator, in the words of each wire's agent.
//!
//! Each session has finished requests and an open one. Planted among them are facts that must not be lost and
//! secrets that must not be shown.

use baton_core::record::WireId;
use serde_json::{Value, json};

use super::history::{self, Seeded};

/// A session.
pub(crate) struct Session {
    /// Events in order.
    pub(crate) events: Vec<Event>,
    /// Unique words that must not be lost.
    pub(crate) kept: Vec<String>,
    /// Words of finished requests.
    pub(crate) finished: Vec<String>,
    /// Words of the open request.
    pub(crate) open: String,
    /// Secrets that must never be shown.
    pub(crate) secrets: Vec<String>,
}

/// An event of a session.
pub(crate) enum Event {
    /// A user message.
    User(String),
    /// Text from the model.
    Say(String),
    /// A tool call with its result and exit code. A failed command has another code than 0.
    Call(Tool, String, i32),
    #[allow(dead_code, reason = "not every user of this file plays it")]
    /// A tool call whose result states no exit code, but only whether the tool failed.
    Plain(Tool, String, bool),
}

/// A call.
pub(crate) enum Tool {
    Shell(String),
    Read(String),
    Edit(String),
    #[allow(dead_code, reason = "not every user of this file plays it")]
    Write(String),
    Search(String),
    #[allow(dead_code, reason = "not every user of this file plays it")]
    /// A tool with this name, which no table lists.
    Named(String, Value),
    Todo(Vec<(String, &'static str)>),
}

/// Returns a unique word.
pub(crate) fn word(random: &mut Seeded, prefix: &str) -> String {
    let letters: String = (0..7)
        .map(|_| char::from(b'a' + random.below(26) as u8))
        .collect();
    format!("{prefix}_{letters}{}", random.below(90) + 10)
}

/// Returns a random word, like keys and tokens.
fn secret(random: &mut Seeded, len: usize) -> String {
    const FROM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    // With all kinds of characters near its start, as nearly all random words have.
    let rest: String = (0..len)
        .map(|_| char::from(FROM[random.below(FROM.len())]))
        .collect();
    format!("k7Q{rest}9xZ2")
}

impl Session {
    /// Returns a session of this many turns.
    pub(crate) fn new(seed: u64, turns: usize) -> Self {
        let mut made = Self {
            events: Vec::new(),
            kept: Vec::new(),
            finished: Vec::new(),
            open: String::new(),
            secrets: Vec::new(),
        };
        let mut random = Seeded::new(seed);
        let random = &mut random;
        // This many of each kind, at random positions.
        let planted = 8;
        for turn in 0..turns - 1 {
            made.finished_turn(
                random,
                turn,
                turn * planted / turns != (turn + 1) * planted / turns,
            );
        }
        made.open_turn(random);
        made
    }

    /// Adds a finished request, with something planted in it.
    fn finished_turn(&mut self, random: &mut Seeded, turn: usize, plants: bool) {
        let id = format!("FIN-{turn:05}");
        let about = random.words();
        let mut asked = format!("Please add {about} to the {} for ticket {id}.", random.words());
        if plants {
            let name = word(random, "limit");
            asked.push_str(&format!(
                " The {name} must stay at {} days.",
                random.below(90) + 10
            ));
            self.kept.push(name);
        }
        self.events.push(Event::User(asked));
        self.finished.push(id.clone());
        for _ in 0..1 + random.below(3) {
            self.noise(random);
        }
        if plants {
            self.planted(random, turn);
        }
        if turn % 9 == 4 {
            let command = format!("npm run lint -- {}", random.words());
            self.events.push(Event::Call(
                Tool::Shell(command.clone()),
                "error: unused variable".to_owned(),
                1,
            ));
            self.events
                .push(Event::Call(Tool::Shell(command), "clean".to_owned(), 0));
        }
        self.events.push(Event::Say(format!(
            "Done: {about} is in place ({id}), and the checks pass."
        )));
    }

    /// Adds a little work: text from the model and a tool call.
    pub(crate) fn noise(&mut self, random: &mut Seeded) {
        if random.below(3) == 0 {
            let say = format!("The {} is what I look at now.", random.words());
            self.events.push(Event::Say(say));
        }
        let size = [200, 600, 1_500, 4_000][random.below(4)];
        let output = history::text(random, size)
            .replace("\\n", "\n")
            .replace("\\t", "\t")
            .replace('\\', "");
        let path = format!("src/{}/{}.rs", random.words().replace(' ', "_"), random.below(40));
        let tool = match random.below(5) {
            0 | 1 => Tool::Read(path),
            2 => Tool::Edit(path),
            3 => Tool::Search(random.words()),
            _ => Tool::Shell(format!("git log --oneline -- {path}")),
        };
        self.events.push(Event::Call(tool, output, 0));
    }

    /// Adds a decision, a failure that stays, and a secret.
    fn planted(&mut self, random: &mut Seeded, turn: usize) {
        let name = word(random, "engine");
        let because = random.words();
        self.events.push(Event::Say(format!(
            "I compared both. Decided to use {name} because the {because} is smaller there."
        )));
        self.kept.push(name);
        let (package, symbol) = (word(random, "crate"), word(random, "symbol"));
        let output = format!(
            "   Compiling {package}\nerror[E0425]: cannot find value `{symbol}` in this scope\nerror: could not compile"
        );
        self.events.push(Event::Call(
            Tool::Shell(format!("cargo test -p {package}")),
            output,
            101,
        ));
        self.kept.push(symbol);
        self.leaked(random, turn);
    }

    fn leaked(&mut self, random: &mut Seeded, turn: usize) {
        let value = secret(random, 32);
        let (tool, output) = match self.secrets.len() % 6 {
            0 => (
                Tool::Read("/app/.env".to_owned()),
                format!("PORT=8080\nSESSION_SEED_PHRASE_X={value}\n"),
            ),
            1 => (
                Tool::Shell("curl -sv https://api.internal/v1/me".to_owned()),
                format!("> Authorization: Bearer {value}\n< 200 OK"),
            ),
            2 => (
                Tool::Shell(format!("export API_KEY={value}; make")),
                "ok".to_owned(),
            ),
            3 => (
                Tool::Shell("cat ~/.codex/auth.json".to_owned()),
                format!("{{\"tokens\":{{\"x\":\"{value}\"}}}}"),
            ),
            4 => {
                self.events
                    .push(Event::Say(format!("The value {value} works for turn {turn}.")));
                (Tool::Shell("ls".to_owned()), "src".to_owned())
            }
            _ => (
                Tool::Shell("cat tls/server.pem".to_owned()),
                format!("some header\n{value}\nsome footer"),
            ),
        };
        self.secrets.push(value);
        self.events.push(Event::Call(tool, output, 0));
    }

    /// Adds the open request.
    pub(crate) fn open_turn(&mut self, random: &mut Seeded) {
        self.open = word(random, "export");
        let asked = format!(
            "Now build the {} with a {} in front of it.",
            self.open,
            random.words()
        );
        self.events.push(Event::User(asked));
        self.kept.push(self.open.clone());
        let step = word(random, "step");
        let todos = vec![
            ("Read the old code".to_owned(), "completed"),
            (format!("Write {step}"), "in_progress"),
        ];
        self.events
            .push(Event::Call(Tool::Todo(todos), "ok".to_owned(), 0));
        self.kept.push(step);
        for _ in 0..4 {
            let path = format!("src/{}/mod.rs", word(random, "area"));
            self.events
                .push(Event::Say(format!("The {} goes in here.", random.words())));
            self.events
                .push(Event::Call(Tool::Edit(path.clone()), "edited".to_owned(), 0));
            self.kept.push(path);
            self.noise(random);
        }
    }

    /// Returns as many of the last turns as fit, in full: the result of keeping the newest messages.
    pub(crate) fn last_turns(&self, tokens: usize) -> String {
        let mut out = Vec::new();
        let mut used = 0;
        for event in self.events.iter().rev() {
            let text = match event {
                Event::User(text) | Event::Say(text) => text.clone(),
                Event::Call(tool, result, _) | Event::Plain(tool, result, _) => {
                    format!("{}\n{result}", tool.arguments())
                }
            };
            used += baton_core::handoffs::draft::tokens(&text);
            if used > tokens {
                break;
            }
            out.push(text);
        }
        out.reverse();
        out.join("\n")
    }

    /// Returns a request of this wire with the session.
    pub(crate) fn body(&self, wire: WireId) -> Vec<u8> {
        let mut turns = Vec::new();
        for (n, event) in self.events.iter().enumerate() {
            match event {
                Event::User(text) => turns.push(said(wire, "user", text)),
                Event::Say(text) => turns.push(said(wire, "assistant", text)),
                Event::Call(tool, result, exit) => called(wire, n, tool, result, (*exit, true), &mut turns),
                Event::Plain(tool, result, failed) => {
                    called(wire, n, tool, result, (i32::from(*failed), false), &mut turns)
                }
            }
        }
        let (agent, list) = match wire {
            WireId::Anthropic => ("You are Claude Code, Anthropic's official CLI.", "messages"),
            WireId::OpenaiChat => ("You are an agent operating inside pi.", "messages"),
            WireId::OpenaiResponses => ("You are Codex, a coding agent.", "input"),
            WireId::Gemini => ("This is the Gemini CLI.", "contents"),
            WireId::Ollama => ("You are a general-purpose AI agent called goose.", "messages"),
        };
        let mut body = json!({"model": "m", list: turns});
        match wire {
            WireId::Anthropic => body["system"] = agent.into(),
            WireId::OpenaiResponses => body["instructions"] = agent.into(),
            WireId::Gemini => body["systemInstruction"] = json!({"parts": [{"text": agent}]}),
            WireId::OpenaiChat | WireId::Ollama => {
                if let Some(turns) = body[list].as_array_mut() {
                    turns.insert(0, json!({"role": "system", "content": agent}));
                }
            }
        }
        body.to_string().into_bytes()
    }
}

fn said(wire: WireId, role: &str, text: &str) -> Value {
    match wire {
        WireId::Gemini => {
            let role = if role == "user" { "user" } else { "model" };
            json!({"role": role, "parts": [{"text": text}]})
        }
        WireId::OpenaiResponses => {
            let kind = if role == "user" {
                "input_text"
            } else {
                "output_text"
            };
            json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
        }
        WireId::Anthropic => json!({"role": role, "content": [{"type": "text", "text": text}]}),
        _ => json!({"role": role, "content": text}),
    }
}

impl Tool {
    /// Returns the tool's name in the wire's agent.
    fn name(&self, wire: WireId) -> &str {
        let at = match wire {
            WireId::Anthropic => 0,
            WireId::OpenaiChat => 1,
            WireId::OpenaiResponses => 2,
            WireId::Gemini => 3,
            WireId::Ollama => 4,
        };
        let names = match self {
            Self::Named(name, _) => return name,
            Self::Shell(_) => [
                "Bash",
                "bash",
                "exec_command",
                "run_shell_command",
                "developer__shell",
            ],
            Self::Read(_) => [
                "Read",
                "read",
                "exec_command",
                "read_file",
                "developer__text_editor",
            ],
            Self::Edit(_) => ["Edit", "edit", "apply_patch", "replace", "developer__text_editor"],
            Self::Write(_) => [
                "Write",
                "write",
                "apply_patch",
                "write_file",
                "developer__text_editor",
            ],
            Self::Search(_) => [
                "Grep",
                "grep",
                "exec_command",
                "search_file_content",
                "developer__shell",
            ],
            Self::Todo(_) => [
                "TodoWrite",
                "todowrite",
                "update_plan",
                "write_todos",
                "todo__todo_write",
            ],
        };
        names[at]
    }

    /// Returns the arguments as most agents write them.
    pub(crate) fn arguments(&self) -> Value {
        match self {
            Self::Shell(command) => json!({"command": command}),
            Self::Read(path) => json!({"file_path": path, "command": "view"}),
            Self::Edit(path) => {
                json!({"file_path": path, "old_string": "a", "new_string": "b", "command": "str_replace"})
            }
            Self::Write(path) => json!({"file_path": path, "content": "b", "command": "write"}),
            Self::Search(words) => json!({"pattern": words}),
            Self::Named(_, arguments) => arguments.clone(),
            Self::Todo(items) => {
                let items = items
                    .iter()
                    .map(|(text, state)| json!({"content": text, "status": state}));
                json!({"todos": items.collect::<Vec<_>>()})
            }
        }
    }

    fn spoken(&self, wire: WireId) -> Value {
        match (wire, self) {
            (WireId::OpenaiResponses, Self::Shell(command)) => json!({"cmd": command}),
            (WireId::OpenaiResponses, Self::Read(path)) => json!({"cmd": format!("sed -n 1,200p {path}")}),
            (WireId::OpenaiResponses, Self::Search(words)) => json!({"cmd": format!("rg '{words}'")}),
            (WireId::OpenaiResponses, Self::Todo(items)) => {
                let items = items
                    .iter()
                    .map(|(text, state)| json!({"step": text, "status": state}));
                json!({"plan": items.collect::<Vec<_>>()})
            }
            (WireId::Ollama, Self::Search(words)) => json!({"command": format!("rg '{words}'")}),
            _ => self.arguments(),
        }
    }
}

/// Returns a call and its result as the wire's agent sends them.
fn called(
    wire: WireId,
    n: usize,
    tool: &Tool,
    result: &str,
    (exit, tells): (i32, bool),
    turns: &mut Vec<Value>,
) {
    let (name, arguments, id) = (tool.name(wire), tool.spoken(wire), format!("call_{n}"));
    let runs = matches!(
        name,
        "Bash" | "bash" | "exec_command" | "run_shell_command" | "developer__shell"
    );
    match wire {
        WireId::Anthropic => {
            let text = if exit == 0 || !tells {
                result.to_owned()
            } else {
                format!("Exit code {exit}\n{result}")
            };
            turns.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": arguments}]}));
            turns.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "is_error": exit != 0, "content": text}]}));
        }
        WireId::OpenaiChat => {
            let text = if exit == 0 || !tells {
                result.to_owned()
            } else {
                format!("{result}\n\nCommand exited with code {exit}")
            };
            turns.push(
                json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}}]}),
            );
            turns.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
        }
        WireId::OpenaiResponses if name == "apply_patch" => {
            let change = match tool {
                Tool::Edit(path) => format!("*** Update File: {path}\n@@\n-a\n+b"),
                Tool::Write(path) => format!("*** Add File: {path}\n+b"),
                _ => return,
            };
            let patch = format!("*** Begin Patch\n{change}\n*** End Patch");
            let output = if exit == 0 {
                "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess."
            } else {
                result
            };
            turns.push(json!({"type": "custom_tool_call", "call_id": id, "name": name, "input": patch}));
            turns.push(json!({"type": "custom_tool_call_output", "call_id": id, "output": output}));
        }
        WireId::OpenaiResponses => {
            let text = format!(
                "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code {exit}\nOutput:\n{result}"
            );
            let text = if runs && tells { text } else { result.to_owned() };
            turns.push(json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments.to_string()}));
            turns.push(json!({"type": "function_call_output", "call_id": id, "output": text}));
        }
        WireId::Gemini => {
            let text = if runs && exit != 0 {
                format!("Output: {result}\nExit Code: {exit}")
            } else {
                format!("Output: {result}")
            };
            turns.push(
                json!({"role": "model", "parts": [{"functionCall": {"name": name, "args": arguments}}]}),
            );
            let told = if !tells && exit != 0 {
                json!({"error": result})
            } else if tells {
                json!({"output": text})
            } else {
                json!({"output": result})
            };
            turns.push(
                json!({"role": "user", "parts": [{"functionResponse": {"name": name, "response": told}}]}),
            );
        }
        WireId::Ollama => {
            let text = if exit == 0 || !tells {
                result.to_owned()
            } else {
                format!("{result}\nCommand exited with code {exit}")
            };
            turns.push(json!({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}));
            turns.push(json!({"role": "tool", "tool_name": name, "content": text}));
        }
    }
}

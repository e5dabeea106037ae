//! Sessions five handoffs deep with planted facts, and differently worded questions about them, for measuring
//! recall.
//!
//! A fact is stated once, or stated and revised later. Statements and questions are written separately, in
//! tables. A question shares with its statement only the knowledge of a questioner, usually the name of a
//! part of the program. Many facts are about the same few parts, and remarks about those parts are everywhere.

use baton_core::record::WireId;
use baton_core::wire::{Operation, View};

use super::history::Seeded;
use super::sessions::{Event, Session, Tool};

/// Number of handoffs in a session. The last one is at its end.
const HANDOFFS: usize = 5;

/// Subjects of facts: parts of a program. Every third turn mentions some in passing.
const PARTS: [&str; 10] = [
    "billing",
    "search",
    "inventory",
    "checkout",
    "catalog",
    "shipping",
    "payroll",
    "calendar",
    "gallery",
    "newsletter",
];

/// The speaker or source of a fact.
#[derive(Clone, Copy)]
enum By {
    User,
    Model,
    /// A command by the model that fails with this output.
    Failed(&'static str),
    /// An edit of a file, which the model also mentions.
    Edit,
}

/// A kind of fact. `{p}` is the part of the program, `{x}` the value to find, `{y}` its later replacement.
struct Kind {
    about: &'static str,
    by: By,
    said: &'static str,
    revised: Option<(By, &'static str)>,
    asked: &'static [&'static str],
    /// A held-out question, written when everything else had been measured.
    held: &'static str,
}

const KINDS: &[Kind] = &[
    // Values.
    Kind {
        about: "value",
        by: By::Model,
        said: "I set the connection timeout of the {p} gateway to {x} seconds.",
        revised: Some((
            By::Model,
            "With the new network the {p} gateway connection timeout is {y} seconds.",
        )),
        asked: &[
            "after how many secs does connecting to the {p} gateway expire",
            "{p} gateway connect deadline",
        ],
        held: "{p} gateway: how long until a connection attempt is abandoned",
    },
    Kind {
        about: "value",
        by: By::User,
        said: "Uploads to {p} are limited to {x} megabytes each.",
        revised: None,
        asked: &[
            "maximum upload size for {p}",
            "how big may a file be that goes up to {p}",
        ],
        held: "file size ceiling in {p}",
    },
    Kind {
        about: "value",
        by: By::Model,
        said: "A failed {p} webhook is retried {x} times before it is given up.",
        revised: Some((By::User, "Make it {y} retries for failed {p} webhooks.")),
        asked: &[
            "number of attempts for {p} webhooks",
            "how often do we try a {p} webhook again",
        ],
        held: "{p} webhook retry count",
    },
    Kind {
        about: "value",
        by: By::Model,
        said: "The {p} service listens on port {x} in staging.",
        revised: None,
        asked: &[
            "which port has {p} on staging",
            "staging address of the {p} server",
        ],
        held: "port number of the {p} service",
    },
    Kind {
        about: "value",
        by: By::User,
        said: "Rows of {p} older than {x} days have to be deleted by the nightly job.",
        revised: Some((
            By::User,
            "Legal wants {p} rows deleted after {y} days, adapt the nightly job.",
        )),
        asked: &[
            "when are old {p} records purged",
            "age at which the {p} schedule removes rows",
        ],
        held: "retention period of {p} rows",
    },
    Kind {
        about: "value",
        by: By::Model,
        said: "There are at most {x} workers for {p} at the same time now.",
        revised: None,
        asked: &["worker count of {p}", "how concurrent is {p} processing"],
        held: "limit on parallel workers for {p}",
    },
    // Paths.
    Kind {
        about: "path",
        by: By::Edit,
        said: "Input of {p} is validated in src/{p}/{x}.rs from now on.",
        revised: None,
        asked: &["where is {p} input checked", "file with the validation for {p}"],
        held: "source file that validates {p} input",
    },
    Kind {
        about: "path",
        by: By::Model,
        said: "I moved the database migrations of {p} to db/{x}/up.",
        revised: Some((
            By::Model,
            "The {p} migrations had to move once more, they are in db/{y}/up.",
        )),
        asked: &[
            "folder of the {p} migrations",
            "where do schema migrations for {p} live",
        ],
        held: "path to {p} migration scripts",
    },
    Kind {
        about: "path",
        by: By::Model,
        said: "Test fixtures for {p} are in tests/data/{x}.json.",
        revised: None,
        asked: &["location of the {p} fixtures", "which file do the {p} tests load"],
        held: "sample data file for testing {p}",
    },
    // Decisions.
    Kind {
        about: "decision",
        by: By::Model,
        said: "Decision: {p} events go through {x}, because it is the simplest to run.",
        revised: Some((
            By::Model,
            "We changed our mind on the {p} events: {y} carries them instead, since messages were lost.",
        )),
        asked: &[
            "what was chosen for {p} events",
            "which broker did we settle on for events of {p}",
        ],
        held: "message transport decided for {p} events",
    },
    Kind {
        about: "decision",
        by: By::Model,
        said: "For {p} I picked {x} as the serializer after comparing three of them.",
        revised: Some((By::User, "Replace the {p} serializer by {y}, please.")),
        asked: &[
            "serialization library selected for {p}",
            "which serializer does {p} have",
        ],
        held: "how is {p} data serialized",
    },
    Kind {
        about: "decision",
        by: By::User,
        said: "Users of {p} shall authenticate with {x}.",
        revised: Some((By::User, "After the review, {p} users authenticate with {y}.")),
        asked: &["how do people log in to {p}", "authentication method of {p}"],
        held: "login mechanism {p}",
    },
    Kind {
        about: "decision",
        by: By::User,
        said: "Name the new table of {p} {x}.",
        revised: Some((By::User, "On second thought, the {p} table should be named {y}.")),
        asked: &["name of the {p} table", "what is the table for {p} called"],
        held: "{p} database table name",
    },
    // Errors.
    Kind {
        about: "error",
        by: By::Failed(
            "   Compiling {p}\nerror[E0277]: `{x}` cannot be sent between threads safely\nerror: could not compile `{p}`",
        ),
        said: "cargo test -p {p}",
        revised: None,
        asked: &[
            "compile error when testing {p}",
            "why did cargo test of {p} not build, threads",
        ],
        held: "thread safety error in the {p} crate",
    },
    Kind {
        about: "error",
        by: By::Failed(
            "ERROR in ./src/index.js\nModule not found: Error: Can't resolve '{x}' in '/app/{p}'\nnpm ERR! code 1",
        ),
        said: "npm run build --workspace {p}",
        revised: None,
        asked: &[
            "what could not be resolved when {p} was built",
            "npm build failure of {p}",
        ],
        held: "missing module in the {p} frontend build",
    },
    Kind {
        about: "error",
        by: By::Failed(
            "Traceback (most recent call last):\n  File \"sync.py\", line 3\nOperationalError: could not connect to {x}: refused",
        ),
        said: "python -m {p}.sync --once",
        revised: None,
        asked: &[
            "exception of the {p} sync",
            "{p} sync crashed, connection refused by whom",
        ],
        held: "{p} sync job OperationalError",
    },
    // Wishes.
    Kind {
        about: "wish",
        by: By::User,
        said: "While you work on {p}, never touch the folder vendor/{x}.",
        revised: None,
        asked: &[
            "which directory is off limits in {p} work",
            "what must not be modified for {p}",
        ],
        held: "vendor folder that {p} work must leave alone",
    },
    Kind {
        about: "wish",
        by: By::User,
        said: "I prefer error messages of {p} in the style of {x}.",
        revised: None,
        asked: &[
            "how does the user want {p} errors worded",
            "preferred message style for {p}",
        ],
        held: "wording of error messages the user asked for in {p}",
    },
    Kind {
        about: "wish",
        by: By::User,
        said: "Every commit that changes {p} has to carry the label {x}.",
        revised: None,
        asked: &["required label of {p} commits", "what do commits to {p} need"],
        held: "commit label {p}",
    },
    Kind {
        about: "wish",
        by: By::User,
        said: "Ask me before you run anything of {p} against {x}.",
        revised: None,
        asked: &[
            "what needs permission in {p}",
            "which environment of {p} requires asking the user first",
        ],
        held: "ask the user before running {p} against what",
    },
];

/// Remarks in passing about any part, which make its name a common word.
const PASSING: [&str; 6] = [
    "I look at {p} next.",
    "The {p} tests pass again.",
    "That touched {p} as well, nothing else to do there.",
    "Before I go on with {p}, a look at the log.",
    "The names in {p} are consistent now.",
    "A comment in {p} was out of date.",
];

/// A planted fact.
pub(crate) struct Fact {
    pub(crate) about: &'static str,
    /// Value that is valid at the end, which the answer must contain.
    pub(crate) holds: String,
    /// Earlier value.
    pub(crate) before: Option<String>,
    pub(crate) questions: Vec<String>,
    pub(crate) held: String,
}

/// A session with its facts.
pub(crate) struct Planted {
    pub(crate) session: Session,
    pub(crate) facts: Vec<Fact>,
}

/// Returns a unique word or a unique number.
fn unique(random: &mut Seeded, n: usize, numeric: bool) -> String {
    if numeric {
        return (1_000 + 7 * n + random.below(7)).to_string();
    }
    const FIRST: [&str; 12] = [
        "bra", "kel", "dor", "min", "tas", "vol", "rek", "sun", "pil", "gam", "nor", "lux",
    ];
    const LAST: [&str; 12] = [
        "vane", "mora", "dell", "tide", "wick", "stad", "berg", "line", "form", "gate", "well", "ton",
    ];
    format!(
        "{}{}{}",
        FIRST[n % 12],
        FIRST[(n / 12 + random.below(3)) % 12],
        LAST[(n / 5) % 12]
    )
}

fn filled(text: &str, part: &str, word: &str) -> String {
    text.replace("{p}", part)
        .replace("{x}", word)
        .replace("{y}", word)
}

fn events(by: By, text: &str, part: &str, word: &str) -> Vec<Event> {
    let said = filled(text, part, word);
    match by {
        By::User => vec![Event::User(said), Event::Say("Understood.".to_owned())],
        By::Model => vec![Event::Say(said)],
        By::Failed(output) => vec![Event::Call(Tool::Shell(said), filled(output, part, word), 101)],
        By::Edit => {
            let path = said
                .split_whitespace()
                .find(|word| word.contains('/'))
                .unwrap_or_default();
            let path = path.to_owned();
            vec![
                Event::Say(said),
                Event::Call(Tool::Edit(path), "edited".to_owned(), 0),
            ]
        }
    }
}

impl Planted {
    /// Returns a session of this many turns.
    pub(crate) fn new(seed: u64, turns: usize) -> Self {
        let mut session = Session::new(seed, turns);
        let mut random = Seeded::new(seed ^ 0x5EED);
        let random = &mut random;
        let first = random.below(PARTS.len());
        let mut facts = Vec::new();
        // Indices of events, so that later ones keep their position.
        let mut planted: Vec<(usize, Vec<Event>)> = Vec::new();
        let len = session.events.len();
        for (n, kind) in KINDS.iter().chain(KINDS).enumerate() {
            // The two facts of a kind are about different parts.
            let part = PARTS[(n * 3 + n / KINDS.len() * 5 + first) % PARTS.len()];
            let numeric = kind.about == "value";
            let (x, y) = (unique(random, 2 * n, numeric), unique(random, 2 * n + 1, numeric));
            let at = random.below(len * 8 / 10);
            planted.push((at, events(kind.by, kind.said, part, &x)));
            if let Some((by, text)) = kind.revised {
                let later = at + len / 10 + random.below(len - at - len / 10);
                planted.push((later, events(by, text, part, &y)));
            }
            facts.push(Fact {
                about: kind.about,
                holds: if kind.revised.is_some() { y } else { x.clone() },
                before: kind.revised.map(|_| x),
                questions: kind.asked.iter().map(|asked| filled(asked, part, "")).collect(),
                held: filled(kind.held, part, ""),
            });
        }
        for n in 0..turns / 3 {
            let text = filled(
                PASSING[random.below(PASSING.len())],
                PARTS[random.below(PARTS.len())],
                "",
            );
            planted.push((n * len / (turns / 3), vec![Event::Say(text)]));
        }
        for n in 1..=HANDOFFS {
            planted.push((len * n / HANDOFFS, vec![Event::Say(sentinel(n))]));
        }
        planted.sort_by_key(|(at, _)| *at);
        let mut all = Vec::with_capacity(len + planted.len());
        let mut planted = planted.into_iter().peekable();
        for (at, event) in session.events.drain(..).enumerate() {
            while let Some((_, events)) = planted.next_if(|(place, _)| *place <= at) {
                all.extend(events);
            }
            all.push(event);
        }
        all.extend(planted.flat_map(|(_, events)| events));
        session.events = all;
        Self { session, facts }
    }

    /// Returns a request of this wire with the session, and the position of its last handoff.
    pub(crate) fn request(&self, wire: WireId) -> (View, usize) {
        let body = self.session.body(wire);
        let view = baton_core::wire::wire(wire)
            .read(&body.into(), Operation::Generate)
            .unwrap();
        let marks = baton_core::marker::marks(&view.body);
        let last = marks
            .iter()
            .rev()
            .find(|mark| matches!(mark.kind, baton_core::marker::MarkerKind::Open(_)));
        let end = last.map_or(view.list.end, |mark| mark.span.start);
        (view, end)
    }
}

fn sentinel(n: usize) -> String {
    format!(
        "\n\n[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e1{n}]]\n*Handed over: done. From here on the model knows only what \
         follows.*\n\nGoal: go on with the ticket. Next: the open request, then the tests.\n\
         [[/handoff-resume:VR-iunEUwURMLNGuL8sekw]]\n\n"
    )
}

/// Counts of facts that were found.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Score {
    pub(crate) asked: usize,
    /// Questions whose valid value is among the first three excerpts.
    pub(crate) hits: usize,
    pub(crate) revised: usize,
    /// Revised facts whose valid value comes before the earlier one.
    pub(crate) latest: usize,
    /// Answers with a value that must not be shown.
    pub(crate) secrets: usize,
}

impl Score {
    /// Counts the answer to a question about a fact.
    pub(crate) fn count(&mut self, fact: &Fact, answer: &str, secrets: &[String]) -> bool {
        let excerpts: Vec<&str> = answer.split("\n\n").skip(1).collect();
        let first = |word: &str| excerpts.iter().position(|excerpt| excerpt.contains(word));
        let found = first(&fact.holds);
        let hit = found.is_some_and(|at| at < 3);
        self.asked += 1;
        self.hits += usize::from(hit);
        if let Some(before) = &fact.before {
            self.revised += 1;
            self.latest += usize::from(found.is_some() && first(before).is_none_or(|old| found <= Some(old)));
        }
        self.secrets += secrets
            .iter()
            .filter(|secret| answer.contains(secret.as_str()))
            .count();
        hit
    }

    /// Returns the shares of hits and of revised facts.
    pub(crate) fn shares(&self) -> (f64, f64) {
        let share = |n: usize, of: usize| n as f64 / of.max(1) as f64;
        (share(self.hits, self.asked), share(self.latest, self.revised))
    }
}

//! Times of what reads a whole transcript, and of the status line. `benches/instructions.sh` counts requests and
//! streams.
//!
//! `cargo bench --bench core`
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/history.rs"]
#[allow(dead_code)]
mod history;
#[path = "support/planted.rs"]
#[allow(dead_code)]
mod planted;
#[path = "support/sessions.rs"]
#[allow(dead_code)]
mod sessions;

use baton_core::record::WireId;
use baton_core::wire::{Operation, Wire};
use bytes::Bytes;
use divan::Bencher;
use divan::counter::BytesCount;
use history::Seeded;
use uuid::Uuid;

const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);
const PROMPT: &str = "Go on with the importer.";

fn main() {
    divan::main();
}

/// Returns the wire with this name.
fn wire(name: &str) -> &'static Wire {
    baton_core::wire::wire(WireId::named(name).unwrap())
}

/// Drafts of seeded sessions. Measures their cost, after printing the share of planted facts that they keep.
#[divan::bench_group(sample_count = 10, sample_size = 1)]
mod drafts {
    use super::sessions::Session;
    use super::*;
    use baton_core::handoffs::draft::{DraftSpec, Preset};
    use baton_core::redact::Redactor;
    use baton_core::transcript::Transcript;
    use baton_core::wire::View;
    use baton_core::work::{DraftIndex, DraftIndexSettings};

    const WIRES: [&str; 5] = ["anthropic", "openai_chat", "openai_responses", "gemini", "ollama"];
    const REQUEST: DraftSpec<'static> = DraftSpec {
        focus: "",
        preset: Preset::Implement,
        tokens: 4000,
        repository: "",
        git: true,
        commands: true,
        why: true,
    };

    fn session(name: &str, turns: usize) -> (Session, View) {
        let wire = wire(name);
        let session = Session::new(turns as u64, turns);
        let body = Bytes::from(session.body(wire.id()));
        let view = wire.read(&body, Operation::Generate).unwrap();
        (session, view)
    }

    fn index(view: &View) -> DraftIndex {
        let settings = DraftIndexSettings {
            redactor: Redactor::new(&[]),
            ..DraftIndexSettings::default()
        };
        DraftIndex::from_transcript(settings, &Transcript::from_view(view))
    }

    /// The full cost: a new conversation is indexed and the draft composed.
    #[divan::bench(args = WIRES)]
    fn local_of_2000_turns(bencher: Bencher, name: &str) {
        let (session, view) = session(name, 2000);
        told(&session, &view, name);
        bencher
            .counter(BytesCount::new(view.body.len()))
            .bench_local(|| index(&view).local(&REQUEST).unwrap().len());
    }

    /// The full cost of a bundle.
    #[divan::bench(args = WIRES)]
    fn bundle_of_2000_turns(bencher: Bencher, name: &str) {
        let (_, view) = session(name, 2000);
        bencher
            .counter(BytesCount::new(view.body.len()))
            .bench_local(|| index(&view).bundle(&REQUEST).unwrap().len());
    }

    /// Prints the share of planted facts that drafts keep at 200 to 2,000 turns, compared with keeping the
    /// last turns.
    #[allow(clippy::print_stdout, clippy::cast_precision_loss)]
    fn told(session: &Session, view: &View, name: &str) {
        let index = index(view);
        let share = |text: &str| {
            let there = session
                .kept
                .iter()
                .filter(|word| text.contains(word.as_str()))
                .count();
            there as f64 / session.kept.len() as f64
        };
        let secrets = |text: &str| {
            session
                .secrets
                .iter()
                .filter(|secret| text.contains(secret.as_str()))
                .count()
        };
        let (local, bundle) = (index.local(&REQUEST).unwrap(), index.bundle(&REQUEST).unwrap());
        println!(
            "{name}: kept by local {:.2}, by bundle {:.2}, by the last turns {:.2}; secrets {}",
            share(&local),
            share(&bundle),
            share(&session.last_turns(REQUEST.tokens)),
            secrets(&local) + secrets(&bundle)
        );
    }
}

/// The cost of a handoff's appended items at 4 MB of history. `cargo bench --bench core -- carry`
///
/// Covers the user's messages and rules, the facts seen, the appended block, and repeated lookups.
#[divan::bench_group(sample_count = 20, sample_size = 1)]
mod carry {
    use super::sessions::Session;
    use super::*;
    use baton_core::handoffs::carry::{
        CarryPolicy, CarryScope, EarlierWords, RuleSources, UserMessages, called_again, carry, users_words,
    };
    use baton_core::redact::Redactor;
    use baton_core::transcript::Transcript;
    use baton_core::wire::View;
    use baton_core::work::{DraftIndexSettings, SeenFacts};

    const BYTES: usize = 4_000_000;

    fn history(name: &str) -> View {
        let wire = wire(name);
        let body = |turns: usize| Session::new(1, turns).body(wire.id());
        let turns = 2000 * BYTES / body(2000).len();
        wire.read(&Bytes::from(body(turns)), Operation::Generate).unwrap()
    }

    fn carried(view: &View, redactor: &Redactor) -> usize {
        let transcript = Transcript::from_view(view);
        let words = users_words(&RuleSources {
            earlier: &EarlierWords::default(),
            since: None,
            said: &UserMessages::from_transcript(&transcript, &[], None),
            without: &[],
            markers: &[],
            redactor,
        });
        let settings = DraftIndexSettings {
            redactor: redactor.clone(),
            ..DraftIndexSettings::default()
        };
        let seen = SeenFacts::of_work(settings, &transcript);
        let policy = CarryPolicy {
            scope: CarryScope::All,
            tokens: 2000,
        };
        let again = called_again(&transcript, ID).unwrap_or_default();
        carry(PROMPT, &words, Some(&seen), policy).prompt.len() + again.len()
    }

    #[divan::bench(args = ["anthropic", "openai_chat", "openai_responses", "gemini", "ollama"])]
    fn at_4_mb(bencher: Bencher, name: &str) {
        let (view, redactor) = (history(name), Redactor::new(&[]));
        bencher
            .counter(BytesCount::new(view.body.len()))
            .bench_local(|| carried(&view, &redactor));
    }
}

/// Recall over sessions with planted facts. Measures its cost, after printing its score.
#[divan::bench_group(sample_count = 20, sample_size = 1)]
mod recall {
    use super::planted::{Planted, Score};
    use super::sessions::{Event, Session, Tool};
    use super::*;
    use baton_core::handoffs::recall::{CutPart, Question, RecallIndex, RecallIndexSettings};
    use baton_core::redact::Redactor;
    use baton_core::transcript::Transcript;
    use baton_core::wire::{View, WIRES};

    const NAMES: [&str; 5] = ["anthropic", "openai_chat", "openai_responses", "gemini", "ollama"];

    /// Bytes after the cut.
    const CUT: usize = 4_000_000;

    /// Words of a program and its users: a few occur in every line, most are rare.
    fn prose(random: &mut Seeded, bytes: usize) -> String {
        const SYLLABLES: [&str; 24] = [
            "re", "con", "ter", "ser", "ver", "in", "map", "ex", "por", "tab", "link", "so", "mut", "par",
            "dex", "lo", "ri", "na", "col", "um", "bit", "field", "key", "set",
        ];
        let mut out = String::with_capacity(bytes + 20);
        while out.len() < bytes {
            // There are some 45,000 words. The first ones are far more frequent than the last.
            let many = random.below(200) * random.below(200);
            let word = many + random.below(many / 8 + 1);
            for place in [1, 24, 24 * 24, 24 * 24 * 24] {
                out.push_str(SYLLABLES[word / place % 24]);
                if word < place * 24 {
                    break;
                }
            }
            out.push_str([" ", " ", " ", "_", "\n", "(", " = ", ", "][random.below(8)]);
        }
        out
    }

    fn session(name: &str) -> View {
        let mut random = Seeded::new(11);
        let mut events = Vec::new();
        let mut bytes = 0;
        while bytes < CUT {
            let size = [300, 900, 2_500, 6_000][random.below(4)];
            let (say, output) = (prose(&mut random, 120), prose(&mut random, size));
            let path = format!(
                "src/{}/{}.rs",
                random.words().replace(' ', "_"),
                random.below(400)
            );
            bytes += say.len() + output.len() + path.len() + 200;
            if random.below(8) == 0 {
                events.push(Event::User(prose(&mut random, 200)));
            }
            events.push(Event::Say(say));
            let tool = match random.below(2) {
                0 => Tool::Read(path),
                _ => Tool::Shell(format!("rg -n {} {path}", random.words())),
            };
            events.push(Event::Call(tool, output, 0));
        }
        let session = Session {
            events,
            kept: Vec::new(),
            finished: Vec::new(),
            open: String::new(),
            secrets: Vec::new(),
        };
        let wire = wire(name);
        wire.read(&session.body(wire.id()).into(), Operation::Generate)
            .unwrap()
    }

    fn settings() -> RecallIndexSettings {
        RecallIndexSettings {
            redactor: Redactor::new(&[]),
            ..RecallIndexSettings::default()
        }
    }

    fn whole(view: &View) -> CutPart<'_> {
        CutPart {
            transcript: Transcript::from_view(view),
            end: view.list.end,
        }
    }

    fn question(query: &str) -> Question {
        Question {
            query: query.to_owned(),
            limit: 5,
        }
    }

    const ASKED: &str = "which session timeout did the user want for the importer in src/reader/config.rs";

    /// The cost of a question: everything is read and answered.
    #[divan::bench(args = NAMES)]
    fn question_of_4_mb(bencher: Bencher, name: &str) {
        if name == NAMES[0] {
            told();
        }
        let (view, settings) = (session(name), settings());
        bencher.counter(BytesCount::new(view.body.len())).bench_local(|| {
            let index = RecallIndex::new(&whole(&view), &settings);
            index.answer(&question(ASKED)).excerpts
        });
    }

    /// Prints the score of recall, by wire and size.
    #[allow(clippy::print_stdout)]
    fn told() {
        for turns in [200, 600, 2_000] {
            for wire in WIRES {
                let (score, held) = scores(wire.id(), turns);
                shown(&format!("{} of {turns} turns", wire.id().name()), &score);
                shown("  questions that were held back", &held);
            }
        }
    }

    #[allow(clippy::print_stdout)]
    fn shown(what: &str, score: &Score) {
        let (hits, latest) = score.shares();
        println!(
            "{what}: among the first three {hits:.3}, latest first {latest:.3}, of {}; secrets {}",
            score.asked, score.secrets
        );
    }

    fn scores(wire: WireId, turns: usize) -> (Score, Score) {
        let settings = settings();
        let (mut score, mut held) = (Score::default(), Score::default());
        for seed in 1..=3 {
            let planted = Planted::new(seed, turns);
            let (view, end) = planted.request(wire);
            let cut = CutPart { end, ..whole(&view) };
            let index = RecallIndex::new(&cut, &settings);
            let answer = |query: &str| index.answer(&question(query)).text;
            for fact in &planted.facts {
                for query in &fact.questions {
                    score.count(fact, &answer(query), &planted.session.secrets);
                }
                held.count(fact, &answer(&fact.held), &planted.session.secrets);
            }
            for secret in &planted.session.secrets {
                score.secrets += usize::from(answer(secret).contains(secret.as_str()));
            }
        }
        (score, held)
    }
}

/// The status line over 50 sessions of 50 files, for a process that has read nothing yet. The limit is 10 ms.
#[divan::bench_group]
mod handoff_files {
    use baton_llm::state::files::yaml_files::HandoffDirectory;
    use divan::{Bencher, black_box};

    const EACH: usize = 50;

    fn directory() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for session in 0..EACH {
            let directory = dir.path().join(format!("session-{session}"));
            std::fs::create_dir(&directory).unwrap();
            for file in 0..EACH {
                let at = format!("2026-11-22T{:02}:{:02}:00Z", file % 24, session);
                let name = format!("2026-11-22_{:02}-{session:02}_work-{file}.yaml", file % 24);
                let text = format!(
                    "version: \"1.0\"\nsession: session-{session}\ncreated_at: {at}\ngoal: Work {file}\nnow: \"Go on: {file}\"\n{}",
                    "next:\n  - one more thing that is to be done\n".repeat(10)
                );
                std::fs::write(directory.join(name), text).unwrap();
            }
        }
        dir
    }

    #[divan::bench]
    fn line(bencher: Bencher) {
        let dir = directory();
        let directory = HandoffDirectory::new(dir.path()).unwrap();
        bencher.bench_local(|| black_box(directory.line(None).unwrap().unwrap().line()));
    }
}

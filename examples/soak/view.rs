//! What a request must be upstream, read from the agent's own history. It is a second, slow reading of the rules of
//! sentinels, notes and cuts, by markers that are in every text.

use std::collections::HashSet;

use baton_core::marker::note;
use baton_strict::{Received, Role};
use serde_json::Value;
use uuid::Uuid;

/// Characters of a carry-over prompt by which it is recognised.
const BEGINNING: usize = 160;

const OPEN: &str = "[[handoff-resume:";
const CLOSE: &str = "[[/handoff-resume:";
const NOTE: &str = "[[handoff-note:";

/// Tags of prompts, and the words that the agent is shown in place of them.
const SHOWN: [(&str, &str); 4] = [
    ("<handoff-context>\n", "*Context of the handoff:*\n\n"),
    ("\n</handoff-context>\n", "\n\n*End of the context.*\n"),
    ("<carried-over>\n", "*Carried over:*\n\n"),
    ("\n</carried-over>", "\n\n*End of what is carried over.*"),
];

/// A numbered marker in a text: `~u12~` of a user, `~r12~` of a tool, `~a12~` of the model, `~c12~` of a carry-over prompt.
pub type Marker = (u8, u64);

pub fn marker(kind: char, number: u64) -> String {
    format!("~{kind}{number}~")
}

/// The markers of a text, in order.
pub fn markers(text: &str) -> Vec<Marker> {
    let pieces = text.split('~').filter_map(|piece| {
        let (kind, number) = piece.split_at_checked(1)?;
        let kind = *kind.as_bytes().first()?;
        let is_kind = b"urac".contains(&kind);
        Some((kind, number.parse().ok()?)).filter(|_| is_kind)
    });
    pieces.collect()
}

/// The last marker of a message.
pub fn last_marker(message: &Value) -> Option<Marker> {
    let mut text = String::new();
    strings(message, &mut text);
    markers(&text).pop()
}

/// A handoff that the agent was shown.
#[derive(Clone, Debug)]
struct Shown {
    id: String,
    beginning: String,
    numbers: Vec<u64>,
    /// The number of markers before it.
    at: usize,
    notes: usize,
}

/// What upstream must receive of a request.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The beginning of the prompt that it is cut at.
    pub cut: Option<String>,
    pub id: String,
    /// The beginnings of all other prompts of the history.
    pub others: Vec<String>,
    /// The texts before the cut.
    pub gone: HashSet<Marker>,
    /// The texts after it.
    pub kept: Vec<Marker>,
    /// The numbers of all prompts of the history.
    known: HashSet<u64>,
    /// A prompt with a larger number that is not known was made since: within this request, or one whose answer was lost.
    pub number: u64,
    pub arrived: bool,
}

impl Expected {
    pub fn new(history: &[Value], number: u64) -> Self {
        let (mut all, mut shown) = (Vec::new(), Vec::new());
        for message in history {
            let mut text = String::new();
            strings(message, &mut text);
            let role = message["role"].as_str().unwrap_or_default();
            match role == "assistant" || role == "model" {
                true => read_answer(&text, &mut all, &mut shown),
                false => all.extend(markers(&text)),
            }
        }
        let active = shown.iter().rposition(|one: &Shown| one.notes.is_multiple_of(2));
        let known = shown.iter().flat_map(|one| one.numbers.iter().copied()).collect();
        let at = active.map_or(0, |active| shown[active].at);
        let cut = active.map(|active| shown.remove(active));
        // Answers to commands quote the prompts of handoffs.
        let mut kept = all.split_off(at);
        kept.retain(|(kind, _)| *kind != b'c');
        let gone = all
            .iter()
            .copied()
            .filter(|(kind, _)| matches!(kind, b'a' | b'r'))
            .collect();
        Self {
            id: cut.as_ref().map_or_else(String::new, |cut| cut.id.clone()),
            cut: cut.map(|cut| cut.beginning),
            others: shown.into_iter().map(|one| one.beginning).collect(),
            gone,
            known,
            kept,
            number,
            arrived: false,
        }
    }

    /// Compares a request with it.
    pub fn verdict(&self, seen: &Seen) -> Verdict {
        let has = |beginning: &String| !beginning.is_empty() && seen.user.contains(beginning.as_str());
        if seen.is_cut_since(self) {
            return Verdict::CutSince;
        }
        if let Some(cut) = self.cut.as_ref().filter(|cut| !has(cut)) {
            return Verdict::Lost(format!("not cut at {} ({cut:?}): {}", self.id, seen.summary()));
        }
        if self.cut.is_none()
            && let Some(other) = self.others.iter().find(|other| has(other))
        {
            return Verdict::Lost(format!("cut at {other:?}, which was undone: {}", seen.summary()));
        }
        if let Some((kind, number)) = self.gone.intersection(&seen.spoken).next() {
            let stays = marker(*kind as char, *number);
            return Verdict::Lost(format!(
                "{stays} stands before the cut at {}: {}",
                self.id,
                seen.summary()
            ));
        }
        match self.kept.iter().find(|marker| !seen.all.contains(marker)) {
            Some((kind, number)) => Verdict::Missing(format!(
                "{} (of {}) is missing after the cut at {:?}: {}",
                marker(*kind as char, *number),
                self.kept.len(),
                self.id,
                seen.summary()
            )),
            None => Verdict::Right,
        }
    }
}

#[derive(Debug)]
pub enum Verdict {
    Right,
    /// A handoff within this very request has cut it anew.
    CutSince,
    /// A handoff that was shown does not count, or one that was undone does.
    Lost(String),
    /// Something of the agent's history does not arrive.
    Missing(String),
}

/// What upstream received.
pub struct Seen {
    /// The user's texts.
    pub user: String,
    /// What the model's turns and the results hold.
    pub spoken: HashSet<Marker>,
    pub all: HashSet<Marker>,
    pub turns: usize,
}

impl Seen {
    pub fn from_request(request: &Received) -> Self {
        let mut seen = Self {
            user: String::new(),
            spoken: HashSet::new(),
            all: HashSet::new(),
            turns: 0,
        };
        let turns = request.turns();
        // A search quotes what was cut.
        let searches: HashSet<&str> = turns
            .iter()
            .flat_map(|turn| &turn.calls)
            .filter(|call| call.name == "session_recall")
            .map(|call| call.id.as_str())
            .collect();
        for turn in &turns {
            seen.turns += 1;
            // Gemini may split a text into parts anywhere, even within a marker.
            let markers_of_turn = markers(&turn.texts.concat());
            if turn.role == Role::User {
                for text in &turn.texts {
                    seen.user.push_str(text);
                    seen.user.push('\n');
                }
            } else {
                seen.spoken.extend(&markers_of_turn);
            }
            seen.all.extend(markers_of_turn);
            for result in turn
                .results
                .iter()
                .filter(|result| !searches.contains(result.id.as_str()))
            {
                seen.spoken.extend(markers(&result.text));
            }
        }
        seen.all.extend(seen.spoken.iter().copied());
        seen
    }

    /// Whether it contains a carry-over prompt that the agent had not seen when it sent its request. One that was
    /// composed without a model has no number, but begins with a line of its own.
    fn is_cut_since(&self, expected: &Expected) -> bool {
        let mut of_prompts = self.all.iter().filter(|(kind, _)| *kind == b'c');
        if of_prompts.any(|(_, number)| *number > expected.number && !expected.known.contains(number)) {
            return true;
        }
        let composed = self.user.find("<handoff-context>");
        let known = expected.cut.iter().chain(&expected.others);
        composed.is_some_and(|at| {
            !known
                .into_iter()
                .any(|known| self.user[at..].starts_with(known.as_str()) && !known.is_empty())
        }) && !expected
            .cut
            .as_ref()
            .is_some_and(|cut| self.user.find(cut.as_str()) < composed && self.user.contains(cut.as_str()))
    }

    fn summary(&self) -> String {
        let beginning: String = self.user.chars().take(200).collect();
        format!("{} turns, the user's texts begin {beginning:?}", self.turns)
    }
}

/// All strings of a message, in order.
fn strings(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        Value::Array(all) => all.iter().for_each(|value| strings(value, out)),
        Value::Object(fields) => {
            let texts = fields.iter().filter(|(key, _)| {
                !matches!(
                    key.as_str(),
                    "role" | "id" | "type" | "signature" | "thoughtSignature" | "encrypted_content"
                )
            });
            texts.for_each(|(_, value)| strings(value, out));
        }
        _ => {}
    }
}

/// Reads an answer of the model: its markers, sentinels and notes.
fn read_answer(text: &str, all: &mut Vec<Marker>, shown: &mut Vec<Shown>) {
    let mut rest = text;
    loop {
        let next = [rest.find(OPEN), rest.find(NOTE)].into_iter().flatten().min();
        let Some(at) = next else {
            return all.extend(markers(rest));
        };
        all.extend(markers(&rest[..at]));
        if rest[at..].starts_with(NOTE) {
            let undoes = |one: &&mut Shown| {
                let id = Uuid::parse_str(&one.id).unwrap_or_default();
                !id.is_nil() && rest[at..].starts_with(&note::line(id))
            };
            shown.iter_mut().filter(undoes).for_each(|one| one.notes += 1);
            rest = &rest[at + NOTE.len()..];
            continue;
        }
        rest = &rest[at + OPEN.len()..];
        let id = rest.get(..36).unwrap_or_default().to_owned();
        let end = rest.find(CLOSE).unwrap_or(rest.len());
        // The block's own lines precede an empty one.
        let of_prompt = markers(&rest[..end])
            .into_iter()
            .filter(|(kind, _)| *kind == b'c');
        let numbers = of_prompt.map(|(_, number)| number).collect();
        let prompt = rest[..end]
            .split_once("\n\n")
            .map_or("", |(_, prompt)| prompt.trim());
        let prompt = SHOWN.iter().fold(prompt.to_owned(), |prompt, (tag, words)| {
            prompt.replace(words, tag)
        });
        shown.push(Shown {
            id,
            numbers,
            beginning: prompt
                .chars()
                .take(BEGINNING)
                .collect::<String>()
                .trim_end()
                .to_owned(),
            at: all.len(),
            notes: 0,
        });
        rest = &rest[end..];
    }
}

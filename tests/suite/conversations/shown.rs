//! Compares the response shown to the agent with the expected one.

use serde_json::{Value, json};

use super::items::{Item, lines, of_block, plain};
use super::oracle::Shown;
use super::wires::Traits;
use crate::matrix::fixture::behind_line;

/// Progress of a response.
#[derive(Debug, Default)]
pub struct Progress {
    /// Number of expected items that arrived completely.
    pub whole: usize,
    /// Beginning of the next text.
    pub partial: String,
}

/// An expected item. Consecutive text counts as one.
enum Want<'a> {
    Text(Vec<(usize, &'a Shown)>),
    Item(usize, Item),
}

/// A prompt as the user reads it: words in place of the tags. A prompt that contains such words itself, as a
/// quotation, keeps its tags, because the words must lead back to it.
fn in_words(prompt: &str) -> String {
    let words = [
        ("<handoff-context>\n", "*Context of the handoff:*\n\n"),
        ("\n</handoff-context>\n", "\n\n*End of the context.*\n"),
        ("<carried-over>\n", "*Carried over:*\n\n"),
        ("\n</carried-over>", "\n\n*End of what is carried over.*"),
    ];
    if words.iter().any(|(_, words)| prompt.contains(words)) {
        return prompt.to_owned();
    }
    let swap = |text: String, (tag, words): &(&str, &str)| text.replace(tag, words);
    words.iter().fold(prompt.to_owned(), swap)
}

/// Rest of `text` after a sentinel with this prompt. Only this function of these tests depends on the
/// sentinel's form.
fn behind_sentinel<'a>(text: &'a str, prompt: &str, gap: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(gap)?.strip_prefix("[[handoff-resume:")?;
    let (id, rest) = rest.split_at_checked(36)?;
    let rest = rest.strip_prefix("]]\n*Handed over: ")?;
    let (line, rest) = rest.split_once("*\n\n")?;
    if !line.starts_with("done. ") && !line.starts_with("the context had ") {
        return None;
    }
    let rest = rest
        .strip_prefix(&*in_words(prompt))?
        .strip_prefix("\n[[/handoff-resume:")?;
    let (seal, rest) = rest.split_once("]]")?;
    let holds = uuid::Uuid::try_parse(id).is_ok() && seal.len() == 22 && !line.contains('\n');
    rest.strip_prefix(gap).filter(|_| holds && !prompt.is_empty())
}

fn behind_aside<'a>(text: &'a str, gap: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(gap)?.strip_prefix("[[handoff-aside:")?;
    let (_, rest) = rest.split_at_checked(36)?;
    rest.strip_prefix("]]")?.strip_prefix(gap)
}

/// Rest after the report of a handoff at a threshold, which its sentinel follows.
fn behind_told(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("baton: handed over (by a threshold), ")?;
    let (line, rest) = rest.split_once("To undo it: `::handoff undo`.")?;
    (!line.contains('\n')).then_some(rest)
}

/// Rest after the note about a lost leg.
fn behind_lost(text: &str) -> Option<&str> {
    let (line, rest) = text
        .strip_prefix("baton: ")?
        .split_once("\n\n[[handoff-note:]]")?;
    let is_told = line.contains("the next request to the provider failed (");
    (is_told && line.ends_with(" Send any message to go on.")).then_some(rest)
}

/// Rest after the note about a call without an effect.
fn behind_dropped(text: &str) -> Option<&str> {
    let rest = text
        .trim_start()
        .strip_prefix("baton: the turn ended because the model kept ")?;
    let (line, rest) = rest.split_once("). Send any message to go on.\n\n[[handoff-note:]]")?;
    (!line.contains('\n')).then_some(rest)
}

/// Rest after an expected item, or `None` if the item is missing.
fn behind<'a>(text: &'a str, shown: &Shown, gap: &str) -> Option<&'a str> {
    match shown {
        Shown::Block(block) => text.strip_prefix(block["text"].as_str()?),
        Shown::Sentinel(prompt) => behind_sentinel(text, prompt, gap),
        Shown::Aside => behind_aside(text, gap),
        Shown::Told => behind_told(text),
        Shown::Lost => behind_lost(text),
        Shown::Dropped => behind_dropped(text),
    }
}

fn wants<'a>(shown: &'a [Shown], traits: &Traits, broken: bool) -> Vec<Want<'a>> {
    let is_text = |s: &Shown| !matches!(s, Shown::Block(b) if b["type"] != "text");
    let mut order: Vec<usize> = (0..shown.len()).collect();
    if traits.text_first {
        order.sort_by_key(|&i| !is_text(&shown[i]));
    }
    let mut out: Vec<Want> = Vec::new();
    for i in order {
        let shown = &shown[i];
        match (out.last_mut(), shown) {
            (Some(Want::Text(all)), s) if is_text(s) => all.push((i, s)),
            (_, s) if is_text(s) => out.push(Want::Text(vec![(i, s)])),
            (_, Shown::Block(block)) => {
                let item = of_block("assistant", block, traits);
                let dropped = matches!(item, Item::Thought(_)) && !traits.thoughts
                    || broken && matches!(item, Item::Call { .. });
                if !dropped {
                    out.extend(
                        plain(vec![item], traits, true)
                            .into_iter()
                            .map(|item| Want::Item(i, item)),
                    );
                }
            }
            _ => {}
        }
    }
    out
}

/// Checks that the received items are the expected ones, or their beginning if the response was interrupted.
pub fn matches(shown: &[Shown], came: Vec<Item>, traits: &Traits, broken: bool) -> Result<Progress, String> {
    alone(shown, &came, traits)?;
    // A call in an incomplete response has no effect.
    let is_call = |item: &Item| matches!(item, Item::Call { .. });
    let came = came.into_iter().filter(|item| !(broken && is_call(item)));
    let mut came = plain(came.collect(), traits, true);
    if let (Some(Shown::Told), Some(Item::Model(text))) = (shown.first(), came.first_mut())
        && let Some(behind) = behind_line(text)
    {
        *text = behind.to_owned();
        came.retain(|item| !matches!(item, Item::Model(text) if text.is_empty()));
    }
    let wrong = |why: &str| Err(format!("{why}\nshown\n{}\nwanted {shown:#?}", lines(&came)));
    let mut out = Progress::default();
    let mut came_on = came.iter();
    for want in wants(shown, traits, broken) {
        let Some(item) = came_on.next() else {
            return if broken {
                Ok(out)
            } else {
                wrong("not all was shown")
            };
        };
        match want {
            Want::Item(i, wanted) if *item == wanted => out.whole = i + 1,
            Want::Item(..) => return wrong("something else was shown"),
            Want::Text(pieces) => {
                let Item::Model(text) = item else {
                    return wrong("no text was shown");
                };
                let mut rest = text.as_str();
                for (i, piece) in pieces {
                    match behind(rest, piece, traits.gap) {
                        Some(behind) => (rest, out.whole) = (behind, i + 1),
                        None if broken && begins(piece, rest) && came_on.as_slice().is_empty() => {
                            out.partial = rest.to_owned();
                            return Ok(out);
                        }
                        None => return wrong("another text was shown"),
                    }
                }
                if !rest.is_empty() {
                    return wrong("too much was shown");
                }
            }
        }
    }
    match came_on.next() {
        Some(_) => wrong("more was shown"),
        None => Ok(out),
    }
}

fn begins(piece: &Shown, text: &str) -> bool {
    match piece {
        Shown::Block(block) => block["text"].as_str().is_some_and(|all| all.starts_with(text)),
        _ => text.is_empty(),
    }
}

/// Checks that a sentinel has a block of its own on wires with blocks.
fn alone(shown: &[Shown], came: &[Item], traits: &Traits) -> Result<(), String> {
    if traits.text_first {
        return Ok(());
    }
    for item in came {
        let Item::Model(text) = item else { continue };
        let opens = text.trim_start().starts_with("[[handoff-resume:");
        let whole = |s: &Shown| behind(text, s, traits.gap).is_some_and(str::is_empty);
        if opens && !shown.iter().any(whole) {
            return Err(format!("a sentinel is not alone: {text:?}"));
        }
    }
    Ok(())
}

/// Blocks of an interrupted leg that an agent keeps.
pub fn kept(
    answer: &[Shown],
    original: &[Value],
    came: &Progress,
    from: usize,
    traits: &Traits,
) -> Vec<Value> {
    let mut blocks = Vec::new();
    for (i, block) in original.iter().enumerate() {
        let whole = from + i < came.whole;
        match (block["type"].as_str().unwrap(), whole) {
            ("tool_use", _) if traits.text_first => {}
            ("text", true) => blocks.push(block.clone()),
            ("text", false) => {
                let shown = match &answer[from + i] {
                    Shown::Block(b) => b["text"].as_str().unwrap(),
                    _ => unreachable!(),
                };
                blocks.extend(beginning(block["text"].as_str().unwrap(), shown, &came.partial));
                break;
            }
            ("thinking" | "redacted_thinking", true) => blocks.push(block.clone()),
            ("thinking" | "redacted_thinking", false) if !traits.thoughts => {}
            _ => break,
        }
    }
    while blocks.last().is_some_and(|b| b["type"] != "text") {
        blocks.pop();
    }
    blocks
}

/// Beginning of `original` that was shown as `partial`, which is the beginning of `shown`.
fn beginning(original: &str, shown: &str, partial: &str) -> Option<Value> {
    let mut ends = original.char_indices().map(|(at, c)| at + c.len_utf8());
    // The shown text may contain backslashes that the original lacks.
    let (mut at, mut end) = (0, 0);
    let shown_chars: Vec<char> = shown.chars().collect();
    let count = partial.chars().count();
    let mut chars = original.chars().peekable();
    while at < count {
        let Some(next) = chars.peek() else { break };
        if shown_chars[at] == *next {
            chars.next();
            end = ends.next()?;
        }
        at += 1;
    }
    (end > 0).then(|| json!({"type": "text", "text": original[..end]}))
}

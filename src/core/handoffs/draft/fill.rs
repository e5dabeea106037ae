//! Fills a document of bounded size: required pieces first, then the best of the rest.

use std::collections::HashSet;

use crate::text::tokens::tokens;

/// Error: the required pieces do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the required parts take ≈ {needed} tokens, more than the limit of {given}")]
pub struct BudgetTooSmall {
    /// Tokens that are needed.
    pub needed: usize,
    /// Tokens that were available.
    pub given: usize,
}

/// Priority of pieces; the lowest are dropped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PieceRank {
    /// Never dropped; shortened only if the other required pieces leave no room.
    Whole,
    /// Never dropped, but may be shortened.
    Must,
    /// A single fact in a line of its own: a sentence, a command's run, a file, a failed attempt, a credential.
    Anchor,
    /// The user's words in an earlier turn.
    UserText,
    /// Other text of a turn.
    Turn,
    /// A tool result that is not an error.
    Result,
}

/// A piece of one or more lines.
#[derive(Debug, Clone)]
pub(super) struct DraftPiece {
    /// Position: the group, and the place in it.
    pub(super) at: (usize, usize),
    pub(super) rank: PieceRank,
    /// Relevance within a rank; the pieces with the highest score are chosen first.
    pub(super) score: f32,
    pub(super) full: String,
    /// A shorter form, if possible.
    pub(super) short: Option<String>,
}

/// A piece that was chosen for the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChosenPiece {
    pub(super) at: (usize, usize),
    pub(super) text: String,
}

struct BudgetFill<'h> {
    used: usize,
    given: usize,
    begun: HashSet<usize>,
    header: &'h dyn Fn(usize) -> String,
}

impl BudgetFill<'_> {
    /// Tokens of a piece's text, including the header of its group if it is the group's first.
    fn cost(&self, (group, _): (usize, usize), text: &str) -> usize {
        let header = match self.begun.contains(&group) {
            true => 0,
            false => line(&(self.header)(group)),
        };
        header + line(text)
    }

    /// Takes a piece in its full or short form.
    fn take(&mut self, at: (usize, usize), text: &str, chosen: &mut Vec<ChosenPiece>) {
        self.used += self.cost(at, text);
        self.begun.insert(at.0);
        let text = text.to_owned();
        chosen.push(ChosenPiece { at, text });
    }

    fn left(&self) -> usize {
        self.given.saturating_sub(self.used)
    }
}

/// Tokens of a string with its line end.
fn line(text: &str) -> usize {
    tokens(text) + 1
}

/// Chooses the pieces that fit into `given` tokens along with `fixed` ones, in order of their positions.
///
/// If the budget is too small, results are dropped first, then the least relevant turns. After these, required pieces
/// are shortened, and anchors are dropped last. Required pieces are never dropped.
pub(super) fn fill(
    mut pieces: Vec<DraftPiece>,
    fixed: usize,
    given: usize,
    header: &dyn Fn(usize) -> String,
) -> Result<Vec<ChosenPiece>, BudgetTooSmall> {
    // The position decides between equal scores, so that the same work gives the same document.
    pieces.sort_by(|a, b| {
        a.rank
            .cmp(&b.rank)
            .then(b.score.total_cmp(&a.score))
            .then(a.at.cmp(&b.at))
    });
    let mut filling = BudgetFill {
        used: fixed,
        given,
        begun: HashSet::new(),
        header,
    };
    let end_of = |rank: PieceRank| pieces.partition_point(|piece| piece.rank <= rank);
    let [whole, must, anchors] = [PieceRank::Whole, PieceRank::Must, PieceRank::Anchor].map(end_of);
    let mut chosen = Vec::new();
    // Required pieces come first in their short form. If not even those fit, there is no document.
    for piece in &pieces[..must] {
        filling.take(piece.at, piece.short.as_ref().unwrap_or(&piece.full), &mut chosen);
    }
    let needed = filling.used;
    if needed > given {
        return Err(BudgetTooSmall { needed, given });
    }
    // Room is spent by rank: pieces kept whole, anchors, longer forms of required pieces, then the rest.
    lengthen(&pieces[..whole], &mut filling, &mut chosen);
    add(&pieces[must..anchors], &mut filling, &mut chosen);
    // `chosen` begins with the required pieces in the same order.
    lengthen(&pieces[whole..must], &mut filling, &mut chosen[whole..]);
    add(&pieces[anchors..], &mut filling, &mut chosen);
    chosen.sort_by_key(|chosen| chosen.at);
    Ok(chosen)
}

/// Takes required pieces in full if that fits.
fn lengthen(pieces: &[DraftPiece], filling: &mut BudgetFill<'_>, chosen: &mut [ChosenPiece]) {
    for (piece, chosen) in pieces.iter().zip(chosen) {
        if let Some(short) = &piece.short {
            let more = line(&piece.full).saturating_sub(line(short));
            if more <= filling.left() {
                filling.used += more;
                chosen.text.clone_from(&piece.full);
            }
        }
    }
}

/// Adds the pieces that fit, in full or in their short form.
fn add(pieces: &[DraftPiece], filling: &mut BudgetFill<'_>, chosen: &mut Vec<ChosenPiece>) {
    for piece in pieces {
        let mut texts = std::iter::once(&piece.full).chain(&piece.short);
        if let Some(text) = texts.find(|text| filling.cost(piece.at, text) <= filling.left()) {
            filling.take(piece.at, text, chosen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(rank: PieceRank, at: usize, score: f32, full: &str, short: Option<&str>) -> DraftPiece {
        DraftPiece {
            at: (0, at),
            rank,
            score,
            full: full.to_owned(),
            short: short.map(str::to_owned),
        }
    }

    fn texts(given: usize) -> Result<Vec<String>, BudgetTooSmall> {
        let long = "must ".repeat(20);
        let pieces = vec![
            piece(PieceRank::Result, 3, 1.0, "a result of some words", None),
            piece(PieceRank::Turn, 2, 1.0, "a turn of some words", None),
            piece(PieceRank::Anchor, 1, 1.0, "an anchor of some words", None),
            piece(PieceRank::Must, 0, 1.0, &long, Some("must")),
        ];
        let chosen = fill(pieces, 0, given, &|_| String::new())?;
        Ok(chosen
            .into_iter()
            .map(|chosen| chosen.text.split(' ').take(2).collect::<Vec<_>>().join(" "))
            .collect())
    }

    #[test]
    fn results_go_first_then_turns_then_length_then_anchors_and_what_must_be_kept_never() {
        assert_eq!(
            texts(100).unwrap(),
            ["must must", "an anchor", "a turn", "a result"]
        );
        assert_eq!(texts(36).unwrap(), ["must must", "an anchor", "a turn"]);
        assert_eq!(texts(30).unwrap(), ["must must", "an anchor"]);
        assert_eq!(texts(11).unwrap(), ["must", "an anchor"]);
        assert_eq!(texts(3).unwrap(), ["must"]);
        assert_eq!(texts(2).unwrap_err(), BudgetTooSmall { needed: 3, given: 2 });
    }
}

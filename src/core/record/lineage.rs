//! Lineage of handoffs: chains, and forks with two or more continuations.

use std::collections::{HashMap, HashSet};

use super::handoff::Handoff;
use super::ids::HandoffId;

/// A handoff in the map of its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineageEntry {
    pub id: HandoffId,
    /// Number of forks above the handoff. Handoffs of one chain have the same depth.
    pub depth: usize,
    /// Number of handoffs that continue the same parent, including this one; 2 or more is a fork.
    pub siblings: usize,
    /// Number of handoffs that continue this one.
    pub children: usize,
}

/// Maps handoffs, given newest first, into chains.
///
/// Each chain is listed oldest first, and the chain with the newest beginning comes first. The branches of a
/// fork follow the handoff that they continue. A handoff whose parent is not in the list begins a chain.
pub fn map(handoffs: &[Handoff]) -> Vec<LineageEntry> {
    let known: HashSet<HandoffId> = handoffs.iter().map(|handoff| handoff.id).collect();
    let mut children: HashMap<HandoffId, Vec<HandoffId>> = HashMap::new();
    let mut roots = Vec::new();
    for handoff in handoffs {
        match handoff.parent.filter(|parent| known.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(handoff.id),
            None => roots.push(handoff.id),
        }
    }
    let mut placed = Vec::with_capacity(handoffs.len());
    // A stack: the next handoff is the last element.
    let mut open: Vec<(HandoffId, usize, usize)> = roots.iter().rev().map(|id| (*id, 0, 1)).collect();
    while let Some((id, depth, siblings)) = open.pop() {
        // Removed, so that a cycle of records lists no handoff twice.
        let next = children.remove(&id).unwrap_or_default();
        placed.push(LineageEntry {
            id,
            depth,
            siblings,
            children: next.len(),
        });
        // A chain keeps its depth; only the branches of a fork are indented.
        let deeper = usize::from(next.len() > 1);
        // `handoffs` is newest first and the stack reverses it, so the oldest branch comes first.
        open.extend(next.iter().map(|child| (*child, depth + deeper, next.len())));
    }
    placed
}

/// Returns the tree that contains a handoff: all handoffs with the same beginning, in the order of [`map`].
pub fn tree(handoffs: &[Handoff], id: HandoffId) -> Vec<LineageEntry> {
    let all = map(handoffs);
    // A beginning has a depth of zero, no siblings and no parent.
    let known = handoffs.iter().map(|handoff| (handoff.id, handoff.parent));
    let known: HashMap<HandoffId, Option<HandoffId>> = known.collect();
    let begins = |placed: &LineageEntry| {
        let parent = known.get(&placed.id).copied().flatten();
        parent.is_none_or(|parent| !known.contains_key(&parent))
    };
    let trees = all.chunk_by(|_, next| !begins(next));
    let mut wanted = trees.filter(|tree| tree.iter().any(|placed| placed.id == id));
    wanted.next().unwrap_or_default().to_vec()
}

/// Returns the chain that ends with a handoff, oldest first and including it, and the handoffs that continue
/// it, oldest first. `all` must be ordered newest first.
pub fn chain(handoff: &Handoff, all: &[Handoff]) -> (Vec<HandoffId>, Vec<HandoffId>) {
    let parents: HashMap<_, _> = all.iter().map(|one| (one.id, one.parent)).collect();
    let (mut chain, mut seen) = (vec![handoff.id], HashSet::from([handoff.id]));
    let mut parent = handoff.parent;
    // A cycle of records lists no handoff twice.
    while let Some(id) = parent.filter(|id| seen.insert(*id)) {
        chain.push(id);
        parent = parents.get(&id).copied().flatten();
    }
    chain.reverse();
    let children = all.iter().rev().filter(|one| one.parent == Some(handoff.id));
    (chain, children.map(|one| one.id).collect())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id(n: u128) -> HandoffId {
        Uuid::from_u128(n)
    }

    fn handoff((n, parent): (u128, u128)) -> Handoff {
        Handoff {
            id: id(n),
            principal: "local".into(),
            conversation: "c".into(),
            prompt: String::new(),
            parent: (parent > 0).then(|| id(parent)),
            ..Handoff::default()
        }
    }

    fn chain_of(placed: &[LineageEntry]) -> Vec<(u128, usize, usize, usize)> {
        let entries = placed.iter();
        entries
            .map(|it| (it.id.as_u128(), it.depth, it.siblings, it.children))
            .collect()
    }

    #[test]
    fn chains_stay_flat_and_forks_go_deeper() {
        // 1 → 2 → {3 → 5, 4}, and a second tree 6 → 7. The parent of 8 is missing.
        let all = [(8, 99), (7, 6), (6, 0), (5, 3), (4, 2), (3, 2), (2, 1), (1, 0)].map(handoff);
        let first = [
            (1, 0, 1, 1),
            (2, 0, 1, 2),
            (3, 1, 2, 1),
            (5, 1, 1, 0),
            (4, 1, 2, 0),
        ];
        let mut expected = vec![(8, 0, 1, 0), (6, 0, 1, 1), (7, 0, 1, 0)];
        expected.extend(first);
        assert_eq!(chain_of(&map(&all)), expected);
        assert_eq!(chain_of(&tree(&all, id(4))), first);
        assert_eq!(chain_of(&tree(&all, id(8))), [(8, 0, 1, 0)]);
        assert_eq!(tree(&all, id(77)), []);
    }

    #[test]
    fn a_circle_ends() {
        let all = [(3, 2), (2, 3), (1, 0)].map(handoff);
        assert_eq!(chain_of(&map(&all)), [(1, 0, 1, 0)]);
    }

    #[test]
    fn ten_thousand_in_a_row_are_one_flat_chain() {
        let all: Vec<Handoff> = (1..=10_000).rev().map(|n| handoff((n, n - 1))).collect();
        let map = map(&all);
        assert_eq!(
            (map.len(), map.iter().map(|it| it.depth).max()),
            (10_000, Some(0))
        );
    }
}

//! Items as turns: their content, the model's items, and injected items.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;
use uuid::Uuid;

use super::item::{ASIDE_ITEM, FILLER_ITEM, LOCAL_ANSWER_ITEM, ResponsesItem, SENTINEL_ITEM};
use super::own_message::InjectedMessage;
use crate::text::splice::Edit;
use crate::wire::EMPTY_TURN;
use crate::wire::parts::ElementMembers;
use crate::wire::view::{
    self, InjectedItem, InjectedKind, Role, Turn, TurnContent, TurnPart, TurnPartKind, View,
};

pub(super) fn content(_view: &View, turn: Turn, text: &[u8]) -> TurnContent {
    let whole = turn.span;
    if text.get(whole.start) == Some(&b'"') {
        return TurnContent::from_part(TurnPart::literal(whole));
    }
    let found = ElementMembers::read(text, whole, true);
    let item = ResponsesItem::of_members(&found);
    match item.part {
        TurnPartKind::Text => found.blocks.edited(|part| {
            *part = match part.text {
                Some(inside) => TurnPart::of_text(part.span, inside),
                None => TurnPart::new(part.span, TurnPartKind::Other),
            };
        }),
        // An item other than a message is one part, which a rewrite keeps or removes as a whole.
        kind => TurnContent::from_part(TurnPart::new(whole, kind).with_id(item.call_id)),
    }
}

/// Encrypted reasoning binds its prefix. The byte search comes first, because it is cheap.
pub(super) fn bound(view: &View) -> bool {
    let model_turns = view.turns.iter().filter(|t| t.role == Role::Assistant);
    let mut items = model_turns.map(|t| ResponsesItem::read(&view.body, t.span));
    view.transcript_has(&["\"encrypted_content\""])
        && items.any(|i| i.part == TurnPartKind::Thinking && i.encrypted)
}

/// The contiguous range of model items around `turn`.
pub(super) fn message(view: &View, turn: usize) -> Range<usize> {
    let models = |t: &&Turn| t.role.may_be_models();
    let before = view.turns[..turn].iter().rev().take_while(models);
    let after = view.turns[turn + 1..].iter().take_while(models);
    turn - before.count()..turn + 1 + after.count()
}

/// An item after omitted reasoning loses its id, because the API requires both together.
pub(super) fn unbind(view: &View, turn: usize, part: &TurnPart) -> Vec<Edit> {
    let whole = view.turns[turn].span;
    let text = view.text_of(turn);
    let own = part.kind != TurnPartKind::Thinking && text.get(whole.start) == Some(&b'{');
    let edit = own.then(|| view::without_member(text, whole, "id")).flatten();
    edit.into_iter().collect()
}

pub(super) fn unbound_call(call: &str) -> Option<String> {
    match view::without(call, "id") {
        Cow::Owned(bare) => Some(bare),
        Cow::Borrowed(_) => None,
    }
}

/// Whether a turn is only a reference, which may stand for an item of the model.
pub(super) fn refers(view: &View, turn: usize) -> bool {
    view.turns[turn].role == Role::Other && ResponsesItem::from_turn(view, turn).reference
}

pub(super) fn filler(view: &View, item: &InjectedItem) -> Option<String> {
    let id = ResponsesItem::from_turn(view, item.turn).id?;
    Some(InjectedMessage::named(view.str(id).into_owned(), EMPTY_TURN).done())
}

/// Finds injected items by their ids, whatever their text.
pub(super) fn own_items(view: &View) -> Vec<InjectedItem> {
    let list = view.text(view.list);
    // Each item has only one id, so it is parsed once even if the search matches in it repeatedly.
    let mut read: Option<(usize, ResponsesItem)> = None;
    // All prefixes begin alike, so a single search suffices.
    memmem::find_iter(list, b"\"msg_")
        .filter_map(|hit| {
            let at = view.list.start + hit + 1;
            let (prefix, kind) = OWN_ITEMS
                .iter()
                .find(|(prefix, _)| view.body[at..].starts_with(prefix.as_bytes()))?;
            let turn = view.turn_at(at)?;
            if read.as_ref().is_none_or(|(of, _)| *of != turn) {
                read = Some((turn, ResponsesItem::from_turn(view, turn)));
            }
            let (_, item) = read.as_ref()?;
            own_item(view, (turn, item), at, prefix.len(), *kind)
        })
        .collect()
}

/// Id prefixes of injected items.
const OWN_ITEMS: [(&str, InjectedKind); 4] = [
    (SENTINEL_ITEM, InjectedKind::Sentinel),
    (ASIDE_ITEM, InjectedKind::Aside),
    (FILLER_ITEM, InjectedKind::Filler),
    (LOCAL_ANSWER_ITEM, InjectedKind::SyntheticResponse),
];

fn own_item(
    view: &View,
    (turn, item): (usize, &ResponsesItem),
    at: usize,
    prefix: usize,
    kind: InjectedKind,
) -> Option<InjectedItem> {
    let id = item.id.filter(|i| i.start == at)?;
    let whole = view.turns[turn].role == Role::Assistant && item.part == TurnPartKind::Text;
    let id = match kind {
        InjectedKind::Sentinel | InjectedKind::Aside => {
            let rest = id.of(&view.body).get(prefix..)?;
            let id = Uuid::try_parse_ascii(rest).ok();
            id.filter(|_| item.reference || whole)?
        }
        // As a whole item it is an ordinary message.
        InjectedKind::Filler | InjectedKind::SyntheticResponse => {
            Some(Uuid::nil()).filter(|_| item.reference)?
        }
    };
    Some(InjectedItem {
        turn,
        id,
        kind,
        reference: item.reference,
    })
}

//! Items, one by one: what each is, its text, and by which ids it is known.

use memchr::memmem;
use uuid::Uuid;

use crate::text::{Span, json};
use crate::wire::view::{Anatomy, OwnItem, Part, PartKind, Role, View};

/// Item id of a sentinel, up to the handoff's id without dashes.
pub(super) const SENTINEL_ITEM: &str = "msg_handoff_";
/// Item id of an aside, up to the aside's id without dashes.
pub(super) const ASIDE_ITEM: &str = "msg_aside_";

pub(super) fn anatomy(view: &View, turn: usize) -> Anatomy {
    let text: &[u8] = &view.body;
    let Some(whole) = view.turns.get(turn).map(|t| t.span) else {
        return Anatomy::default();
    };
    if text.get(whole.start) == Some(&b'"') {
        return alone(part_of(whole, PartKind::Text, Some(whole.inner()), None));
    }
    let item = Item::read(text, whole);
    match item.part {
        PartKind::Text => content(text, item.content),
        kind => alone(part_of(whole, kind, None, item.call_id)),
    }
}

fn alone(part: Part) -> Anatomy {
    Anatomy {
        parts: vec![part],
        list: None,
    }
}

fn part_of(span: Span, kind: PartKind, text: Option<Span>, id: Option<Span>) -> Part {
    Part { span, kind, text, id }
}

/// The parts of a message.
fn content(text: &[u8], content: Option<Span>) -> Anatomy {
    let Some(content) = content else {
        return Anatomy::default();
    };
    match text.get(content.start) {
        Some(b'"') => alone(part_of(content, PartKind::Text, Some(content.inner()), None)),
        Some(b'[') => Anatomy {
            parts: json::elements(text, content)
                .into_iter()
                .map(|span| {
                    let said = json::get(text, span, "text").filter(|t| text[t.start] == b'"');
                    let kind = said.map_or(PartKind::Other, |_| PartKind::Text);
                    part_of(span, kind, said.map(Span::inner), None)
                })
                .collect(),
            list: Some(content),
        },
        _ => Anatomy::default(),
    }
}

/// The members of an item that matter, each the inside of its literal.
pub(super) struct Item {
    /// What it is, messages being texts.
    pub(super) part: PartKind,
    /// Its own id.
    pub(super) id: Option<Span>,
    /// The id of the call that it is or answers.
    pub(super) call_id: Option<Span>,
    /// Whether it is nothing but a reference.
    pub(super) reference: bool,
    /// Whether it carries encrypted reasoning.
    pub(super) encrypted: bool,
    content: Option<Span>,
}

impl Item {
    pub(super) fn read(text: &[u8], whole: Span) -> Self {
        let mut kind = &b"message"[..];
        let mut item = Self {
            part: PartKind::Other,
            id: None,
            call_id: None,
            reference: false,
            encrypted: false,
            content: None,
        };
        let mut approval = None;
        let _ = json::object(text, whole.start, |key, at| {
            let end = json::value_end(text, at)?;
            let value = Span::new(at, end);
            let literal = Some(value.inner()).filter(|_| text[at] == b'"');
            match key.of(text) {
                b"type" => kind = value.inner().of(text),
                b"id" => item.id = literal,
                b"call_id" => item.call_id = literal,
                b"approval_request_id" => approval = literal,
                b"encrypted_content" => item.encrypted = literal.is_some(),
                b"content" => item.content = Some(value),
                _ => {}
            }
            Ok(end)
        });
        item.part = match kind {
            b"message" => PartKind::Text,
            b"reasoning" => PartKind::Thinking,
            b"additional_tools" | b"configuration_update" => PartKind::ToolChange,
            b"mcp_approval_response" => PartKind::Result,
            b"mcp_approval_request" => PartKind::Call,
            kind if kind.ends_with(b"_call") && item.call_id.is_some() => PartKind::Call,
            kind if kind.ends_with(b"_output") => PartKind::Result,
            _ => PartKind::Other,
        };
        match kind {
            b"mcp_approval_request" => item.call_id = item.id,
            b"mcp_approval_response" => item.call_id = approval,
            _ => {
                // The type of a reference may be left out.
                let bare = kind == b"message" && item.content.is_none() && item.id.is_some();
                item.reference = bare || kind == b"item_reference";
            }
        }
        if item.reference {
            item.part = PartKind::Other;
        }
        item
    }
}

/// Encrypted reasoning binds its prefix. The search for the word comes first: it is cheap.
pub(super) fn bound(view: &View) -> bool {
    memmem::find(view.text(view.list), b"\"encrypted_content\"").is_some()
        && view
            .turns
            .iter()
            .filter(|t| t.role == Role::Assistant)
            .map(|t| Item::read(&view.body, t.span))
            .any(|i| i.part == PartKind::Thinking && i.encrypted)
}

/// Sentinels and asides by their items' ids, whatever their text.
pub(super) fn own_items(view: &View) -> Vec<OwnItem> {
    let list = view.text(view.list);
    let of = |prefix: &str, aside: bool| -> Vec<OwnItem> {
        let quoted = format!("\"{prefix}");
        // An item has one id: it is read once, however often the words stand in it.
        let mut read: Option<(usize, Item)> = None;
        memmem::find_iter(list, quoted.as_bytes())
            .filter_map(|hit| {
                let at = view.list.start + hit + 1;
                let turn = view.turn_at(at)?;
                if read.as_ref().is_none_or(|(of, _)| *of != turn) {
                    read = Some((turn, Item::read(&view.body, view.turns[turn].span)));
                }
                let (_, item) = read.as_ref()?;
                own_item(view, (turn, item), at, prefix.len(), aside)
            })
            .collect()
    };
    let mut all = of(SENTINEL_ITEM, false);
    all.extend(of(ASIDE_ITEM, true));
    all
}

fn own_item(
    view: &View,
    (turn, item): (usize, &Item),
    at: usize,
    prefix: usize,
    aside: bool,
) -> Option<OwnItem> {
    let id = item.id.filter(|i| i.start == at)?;
    let ours = item.reference || view.turns[turn].role == Role::Assistant && item.part == PartKind::Text;
    let uuid = Uuid::try_parse_ascii(id.of(&view.body).get(prefix..)?).ok()?;
    ours.then_some(OwnItem {
        turn,
        id: uuid,
        aside,
        reference: item.reference,
    })
}

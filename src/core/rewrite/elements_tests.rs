//! Output for omitted, replaced and added turns. Every other byte is the agent's.

use bytes::Bytes;

use super::elements::Elements;
use super::{ChangeReason, RequestReading};
use crate::text::splice::Edit;
use crate::wire::anthropic;
use crate::wire::openai_responses;
use crate::wire::view::{Role, TurnChange};
use crate::wire::{Operation, SyntheticTurn, Wire};

const A: &str = r#"{"role":"user","content":"\ud800 1.50"}"#;
const B: &str = r#"{ "content" : [ ] ,"role":"assistant"}"#;
const C: &str = r#"{"role":"user","content":"c"}"#;
const WHY: ChangeReason = ChangeReason::Pair;

fn reading(wire: &Wire, body: &str) -> RequestReading {
    RequestReading::new(wire, &Bytes::from(body.to_owned()), Operation::Generate).unwrap()
}

/// Applies changes to a body of three messages with white space, and returns only the list.
fn list(change: impl Fn(&mut Elements<'_>)) -> String {
    let reading = reading(
        &anthropic::WIRE,
        &format!("{{\"messages\":[ {A} ,\n {B},{C}\n] ,\"x\":1e2}}"),
    );
    let mut elements = Elements::new(&reading);
    change(&mut elements);
    let text = String::from_utf8(elements.written().0.concat()).unwrap();
    let text = text.strip_prefix("{\"messages\":").unwrap();
    text.strip_suffix(" ,\"x\":1e2}").unwrap().to_owned()
}

fn made(text: &str) -> SyntheticTurn {
    SyntheticTurn::new(Role::User, text.to_owned())
}

#[test]
fn what_no_pass_changes_is_one_slice() {
    let reading = reading(&anthropic::WIRE, &format!("{{\"messages\":[ {A} ,\n {B}]}}"));
    let (rope, sizes) = Elements::new(&reading).written();
    assert_eq!(rope.len(), 1);
    assert_eq!(rope[0].as_ptr(), reading.view.body.as_ptr());
    assert!(sizes.is_empty());
}

#[test]
fn separators_stay_with_the_turn_behind_them() {
    let left_out = |turn: usize| list(|e| e.change(WHY, vec![TurnChange::LeftOut(turn)]));
    assert_eq!(left_out(0), format!("[ {B},{C}\n]"));
    assert_eq!(left_out(1), format!("[ {A},{C}\n]"));
    assert_eq!(left_out(2), format!("[ {A} ,\n {B}\n]"));
    let settled = list(|e| e.settle(WHY, vec![TurnChange::LeftOut(0), TurnChange::LeftOut(2)]));
    assert_eq!(settled, format!("[ {B}\n]"));
}

#[test]
fn elements_are_added_on_both_sides_and_at_the_end() {
    let changes = |turn: usize| {
        let element = |n: u8| format!("{{{n}}}");
        let before = [element(1), element(2)].map(|element| TurnChange::Before(turn, element));
        before
            .into_iter()
            .chain([TurnChange::After(turn, element(3))])
            .collect()
    };
    assert_eq!(
        list(|e| e.change(WHY, changes(0))),
        format!("[ {{1}},{{2}},{A},{{3}} ,\n {B},{C}\n]")
    );
    assert_eq!(
        list(|e| e.change(WHY, changes(1))),
        format!("[ {A} ,\n {{1}},{{2}},{B},{{3}},{C}\n]")
    );
    let appended = list(|e| e.append(WHY, &["{4}".to_owned()]));
    assert_eq!(appended, format!("[ {A} ,\n {B},{C}\n,{{4}}]"));
}

#[test]
fn a_later_pass_sees_what_an_earlier_one_made() {
    let text = list(|e| {
        e.replace(WHY, 0..1, vec![made("{1}"), made("{2}")]);
        let pieces = e.split(WHY, vec![(2, vec![made("{3}"), made("{4}")])]);
        assert_eq!(pieces, [3]);
        assert_eq!(e.places(), [None, Some(2), Some(4)]);
        e.settle(WHY, vec![TurnChange::Within(3, Edit::insert(2, "!"))]);
        assert_eq!(e.view.raw(3), b"{4!}");
    });
    assert_eq!(text, format!("[ {{1}},{{2}} ,\n {{3}},{{4!}},{C}\n]"));
}

/// A summary request whose string is cut inside. A notice follows it.
#[test]
fn a_string_is_cut_inside_before_it_is_listed() {
    let reading = reading(&openai_responses::WIRE, r#"{"input":"abcdef","model":"m"}"#);
    let mut elements = Elements::new(&reading);
    let start = reading.view.list.start;
    elements.edit(
        WHY,
        vec![Edit::replace(crate::text::Span::new(start + 1, start + 4), "X")],
    );
    elements.list(openai_responses::WIRE.items.unwrap().around_string);
    elements.append(WHY, &["{1}".to_owned()]);
    let text = elements.written().0.concat();
    let expected = br#"{"input":[{"type":"message","role":"user","content":"Xdef"},{1}],"model":"m"}"#;
    assert_eq!(String::from_utf8_lossy(&text), String::from_utf8_lossy(expected));
}

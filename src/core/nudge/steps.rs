//! Detects finished steps in to-do lists, and plans that the user has just accepted.

use memchr::memmem;

use crate::agents::todo::TodoState;
use crate::agents::tools;
use crate::transcript::Transcript;
use crate::wire::{Turn, View};
use crate::work::{finishes_item, todo_list};

/// Whether the model's newest message marks a step of its to-do list as done. Turns before `from` are cut.
pub fn step_done(view: &View, from: usize) -> bool {
    let mut turns = view.turns.iter().enumerate().rev();
    let newest = turns.by_ref().find(|(_, turn)| turn.role.may_be_models());
    let Some((last, _)) = newest else { return false };
    let message = turns.take_while(|(_, turn)| turn.role.may_be_models()).last();
    let newest = message.map_or(last, |(first, _)| first);
    finishes_item(&Transcript::from_view(view).tool_uses(), from, newest)
}

/// Whether the user has just accepted a plan: the call that asks for it was answered after the model's last
/// turn.
pub fn plan_accepted(view: &View) -> bool {
    // Bytes are searched first, because most transcripts contain none of these names.
    let transcript = view.text(view.list);
    let mut names = tools::PLANS.iter();
    if !names.any(|name| memmem::find(transcript, name.as_bytes()).is_some()) {
        return false;
    }
    let newest = view.turns.iter().rposition(|turn| turn.role.may_be_models());
    let mut uses = Transcript::from_view(view).tool_uses().into_iter();
    uses.any(|one| {
        let is_new = one.answer.is_some_and(|(turn, _)| Some(turn) > newest);
        is_new && one.accepts_plan()
    })
}

/// Progress of the newest to-do list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepsLeft {
    /// Number of finished items.
    pub done: u32,
    /// Number of unfinished items.
    pub open: u32,
    /// Number of the model's responses since the first examined turn.
    pub calls: u32,
}

impl StepsLeft {
    /// Estimates the calls that the open items need, at the pace of the finished ones.
    pub fn calls_left(&self) -> u32 {
        let each = self.calls.div_ceil(self.done.max(1));
        self.open.saturating_mul(each)
    }
}

/// Reads the newest to-do list, from the turn `from` on; `None` if there is none.
pub fn steps_left(view: &View, from: usize) -> Option<StepsLeft> {
    let items = todo_list(&Transcript::from_view(view).tool_uses(), from);
    let is_models = |turn: &Turn| turn.role.may_be_models();
    let turns = view.turns.get(from..)?;
    let runs = turns.chunk_by(|a, b| is_models(a) == is_models(b));
    let calls = runs.filter(|run| is_models(&run[0])).count();
    let of = |is: fn(TodoState) -> bool| items.iter().filter(|todo| is(todo.item.state)).count();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    (!items.is_empty()).then(|| StepsLeft {
        done: count(of(|state| state == TodoState::Done)),
        open: count(of(TodoState::is_open)),
        calls: count(calls),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::record::WireId;
    use crate::wire::{Operation, wire};

    fn seen(id: WireId, body: Value, from: usize) -> bool {
        let view = wire(id)
            .read(&Bytes::from(body.to_string()), Operation::Generate)
            .unwrap();
        step_done(&view, from)
    }

    fn todos(done: usize) -> Value {
        let state = |at: usize| if at < done { "completed" } else { "pending" };
        let items: Vec<_> = (0..3)
            .map(|at| json!({"content": format!("step {at}"), "status": state(at)}))
            .collect();
        json!({"todos": items})
    }

    /// Writes the lists of one conversation, one call each, with other calls between them.
    fn claude(lists: &[usize]) -> Value {
        let mut messages = vec![json!({"role": "user", "content": "Go."})];
        for (n, done) in lists.iter().enumerate() {
            let (list, read) = (format!("t{n}"), format!("r{n}"));
            for (id, name, input) in [
                (&read, "Read", json!({"file_path": "x"})),
                (&list, "TodoWrite", todos(*done)),
            ] {
                messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]}));
                messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]}));
            }
        }
        json!({"model": "m", "max_tokens": 9, "messages": messages})
    }

    #[test]
    fn a_step_is_done_where_the_newest_list_has_more_finished_items() {
        for (lists, done) in [
            (&[][..], false),
            (&[0], false),
            (&[1], true),
            (&[0, 1], true),
            (&[1, 1], false),
            (&[2, 1], false),
            (&[0, 1, 1], false),
            (&[0, 0, 2], true),
        ] {
            assert_eq!(seen(WireId::Anthropic, claude(lists), 0), done, "{lists:?}");
        }
        let mut later = claude(&[0, 1]);
        let more = [
            json!({"role": "assistant", "content": "Next."}),
            json!({"role": "user", "content": "Yes."}),
        ];
        later["messages"].as_array_mut().unwrap().extend(more);
        assert!(!seen(WireId::Anthropic, later, 0), "the model has spoken since");
        let whole = claude(&[1, 1]);
        let turns = whole["messages"].as_array().unwrap().len();
        assert!(
            seen(WireId::Anthropic, whole, turns - 2),
            "what was cut is not compared"
        );
    }

    #[test]
    fn a_plan_counts_once_and_only_where_it_is_accepted() {
        let asked = |failed: bool, more: &[Value]| {
            let messages = [
                json!({"role": "user", "content": "Plan it."}),
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": "p", "name": "ExitPlanMode", "input": {"plan": "x"}}]}),
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "p", "is_error": failed, "content": "y"}]}),
            ];
            let messages = [&messages, more].concat();
            let body = json!({"model": "m", "max_tokens": 9, "messages": messages});
            let bytes = Bytes::from(body.to_string());
            let view = wire(WireId::Anthropic).read(&bytes, Operation::Generate);
            plan_accepted(&view.unwrap())
        };
        assert!(asked(false, &[]) && !asked(true, &[]));
        let later = [
            json!({"role": "assistant", "content": "Begun."}),
            json!({"role": "user", "content": "Go on."}),
        ];
        assert!(!asked(false, &later), "the model has worked since");
    }

    #[test]
    fn the_rest_of_the_list_is_counted_at_the_pace_of_what_is_done() {
        let left = |lists: &[usize]| {
            let body = claude(lists).to_string();
            let view = wire(WireId::Anthropic)
                .read(&body.into(), Operation::Generate)
                .unwrap();
            steps_left(&view, 0)
        };
        assert_eq!(left(&[]), None);
        let two = left(&[0, 1, 2]).unwrap();
        assert_eq!((two.done, two.open, two.calls), (2, 1, 6));
        assert_eq!(two.calls_left(), 3);
        assert_eq!(
            left(&[0]).unwrap().calls_left(),
            6,
            "nothing is done: each takes what was taken so far"
        );
        assert_eq!(left(&[3]).unwrap().calls_left(), 0);
        // A list that is written item by item.
        let mut messages = vec![json!({"role": "user", "content": "Go."})];
        for (id, name, input, result) in [
            (
                "a",
                "TaskCreate",
                json!({"subject": "Read"}),
                "Task #1 created successfully: Read",
            ),
            (
                "b",
                "TaskCreate",
                json!({"subject": "Write"}),
                "Task #2 created successfully: Write",
            ),
            (
                "c",
                "TaskUpdate",
                json!({"taskId": "1", "status": "completed"}),
                "Updated task #1 status",
            ),
        ] {
            messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]}));
            messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result}]}));
        }
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string();
        let view = wire(WireId::Anthropic).read(&body.into(), Operation::Generate);
        let items = steps_left(&view.unwrap(), 0).unwrap();
        assert_eq!((items.done, items.open, items.calls), (1, 1, 3));
    }

    #[test]
    fn every_wires_calls_are_read() {
        let plan = |done: usize| {
            let state = |at: usize| if at < done { "completed" } else { "in_progress" };
            json!({"plan": [{"step": "a", "status": state(0)}, {"step": "b", "status": state(1)}]})
                .to_string()
        };
        let chat = json!({"model": "m", "messages": [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function",
                "function": {"name": "todowrite", "arguments": todos(1).to_string()}}]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ]});
        assert!(seen(WireId::OpenaiChat, chat, 0));
        let responses = |before, now| {
            json!({"model": "m", "input": [
                {"type": "message", "role": "user", "content": "Go."},
                {"type": "function_call", "call_id": "a", "name": "update_plan", "arguments": plan(before)},
                {"type": "function_call_output", "call_id": "a", "output": "ok"},
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "function_call", "call_id": "b", "name": "update_plan", "arguments": plan(now)},
                {"type": "function_call_output", "call_id": "b", "output": "ok"},
            ]})
        };
        assert!(seen(WireId::OpenaiResponses, responses(0, 1), 0));
        assert!(!seen(WireId::OpenaiResponses, responses(1, 1), 0));
        let gemini = json!({"contents": [
            {"role": "user", "parts": [{"text": "Go."}]},
            {"role": "model", "parts": [{"functionCall": {"name": "write_todos",
                "args": {"todos": [{"description": "a", "status": "completed"}]}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "write_todos", "response": {"output": "ok"}}}]},
        ]});
        assert!(seen(WireId::Gemini, gemini, 0));
        let ollama = json!({"model": "m", "messages": [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "todo__write",
                "arguments": {"content": "- [x] a\n- [ ] b"}}}]},
            {"role": "tool", "content": "ok"},
        ]});
        assert!(seen(WireId::Ollama, ollama, 0));
    }

    #[test]
    fn tools_that_change_one_item_tell_that_item() {
        let update = |state: &str| {
            json!({"model": "m", "max_tokens": 9, "messages": [
                {"role": "user", "content": "Go."},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "TaskUpdate",
                    "input": {"taskId": "1", "status": state}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]},
            ]})
        };
        assert!(seen(WireId::Anthropic, update("completed"), 0));
        assert!(!seen(WireId::Anthropic, update("in_progress"), 0));
    }
}

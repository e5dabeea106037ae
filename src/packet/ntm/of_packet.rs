//! The file of a handoff that baton saw, from its packet of seven fields. The same packet makes the same file.

use super::model::{HandoffFile, Task};
use super::names;
use super::text::{one_line, shortened};
use super::time::Time;
use crate::packet::fields::{NO_NEXT_ACTION, Packet, Severity};

/// Items of a list, and bytes of one: the packet itself has all.
const ITEMS: usize = 8;
const ITEM_BYTES: usize = 160;

/// Bytes of the goal.
const GOAL_BYTES: usize = 240;

impl HandoffFile {
    /// The file of a packet.
    pub fn of_packet(packet: &Packet) -> Self {
        let folder = packet
            .repository
            .rsplit(['/', '\\'])
            .find(|name| !name.is_empty());
        let session = folder.map_or_else(|| packet.topic.clone(), str::to_owned);
        let mut file = Self {
            session: names::session_of(&session),
            created_at: packet.created_at.clone(),
            goal: shortened(&sentence(&packet.summary), GOAL_BYTES),
            now: shortened(
                &one_line(packet.next_action.as_deref().unwrap_or(NO_NEXT_ACTION)),
                GOAL_BYTES,
            ),
            test: test(packet),
            ..Self::default()
        };
        let state = |state: &'static str| packet.todo.iter().filter(move |todo| todo.state == state);
        file.done_this_session = items(state("done").map(|todo| &todo.text))
            .into_iter()
            .map(Task::new)
            .collect();
        let blocks = packet
            .open_risks
            .iter()
            .filter(|risk| risk.severity == Severity::Block);
        file.blockers = items(blocks.map(|risk| &risk.detail));
        file.questions = items(packet.questions_for_human.iter().map(|question| &question.text));
        file.next = items(
            state("in progress")
                .chain(state("pending"))
                .map(|todo| &todo.text),
        );
        for (at, decision) in packet.decisions.iter().take(ITEMS).enumerate() {
            let name = format!("{:02}", at + 1);
            file.decisions
                .insert(name, shortened(&one_line(&decision.text), ITEM_BYTES));
        }
        let passed = packet
            .verification
            .iter()
            .filter(|run| run.exit == Some(0) && run.stale != Some(true));
        file.worked = items(passed.map(|run| format!("`{}` passed", run.command)));
        let failed = packet.failed_attempts.iter();
        file.failed = items(failed.map(|attempt| match attempt.why.as_str() {
            "" => attempt.tried.clone(),
            why => format!("{}: {why}", attempt.tried),
        }));
        for changed in &packet.changed_files {
            let list = match changed.change.as_str() {
                "created" => &mut file.files.created,
                "deleted" => &mut file.files.deleted,
                _ => &mut file.files.modified,
            };
            if list.len() < ITEMS {
                list.push(changed.path.clone());
            }
        }
        for (name, told) in [
            ("handoff", packet.id.to_string()),
            ("git_branch", packet.branch.clone()),
            ("last_known_good_commit", packet.last_known_good_commit.clone()),
        ] {
            if !told.is_empty() {
                file.findings.insert(name.to_owned(), told);
            }
        }
        file.infer_status();
        if let Some(at) = Time::parse(&packet.created_at) {
            file.prepare(at);
        }
        file
    }
}

/// The command that verifies the work: the last one that passed, else the last one.
fn test(packet: &Packet) -> String {
    let runs = || packet.verification.iter().rev();
    let last = runs().find(|run| run.exit == Some(0)).or_else(|| runs().next());
    last.map_or(String::new(), |run| {
        shortened(&one_line(&run.command), ITEM_BYTES)
    })
}

fn items<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> Vec<String> {
    let texts = texts.map(|text| shortened(&one_line(text.as_ref()), ITEM_BYTES));
    texts.filter(|text| !text.is_empty()).take(ITEMS).collect()
}

/// The first sentence of a paragraph.
fn sentence(text: &str) -> String {
    let text = one_line(text);
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    text[..end].to_owned()
}

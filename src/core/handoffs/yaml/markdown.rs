//! Renders a file as Markdown for users.

use std::collections::BTreeMap;

use super::model::{CompletedTask, FileChanges, HandoffFile};
use super::text::one_line;

impl HandoffFile {
    /// Renders the file as Markdown, most important first, without empty members.
    pub fn to_markdown(&self) -> String {
        let title = match one_line(&self.goal).as_str() {
            "" => "Handoff".to_owned(),
            goal => goal.to_owned(),
        };
        let mut text = format!("# {title}\n\n");
        let about = [
            ("session", self.session_name()),
            ("written", &self.updated_at),
            ("status", &self.status),
            ("outcome", &self.outcome),
            ("agent", &self.agent_id),
        ];
        let about = about.iter().filter(|(_, value)| !value.is_empty());
        let about: Vec<_> = about
            .map(|(name, value)| format!("{name}: {}", one_line(value)))
            .collect();
        text.push_str(&format!("{}\n", about.join(" · ")));
        let given = |text: String| if text.is_empty() { Vec::new() } else { vec![text] };
        let code = |text: &String| {
            if text.is_empty() {
                String::new()
            } else {
                format!("`{text}`")
            }
        };
        let pairs = |all: &BTreeMap<String, String>| {
            let pair = |(name, reason): (&String, &String)| format!("**{name}**: {reason}");
            all.iter().map(pair).collect()
        };
        let sections: [(&str, Vec<String>); 14] = [
            ("Now", given(self.now.clone())),
            ("Test", given(code(&self.test))),
            ("Next", self.next.clone()),
            ("Blockers", self.blockers.clone()),
            ("Questions", self.questions.clone()),
            (
                "Done",
                self.done_this_session.iter().map(CompletedTask::line).collect(),
            ),
            ("Decisions", pairs(&self.decisions)),
            ("Findings", pairs(&self.findings)),
            ("Worked", self.worked.clone()),
            ("Failed", self.failed.clone()),
            ("Files", self.files.lines()),
            ("Tasks in progress", self.active_beads.clone()),
            ("Threads", self.agent_mail_threads.clone()),
            ("Memories", self.cm_memories.clone()),
        ];
        for (name, items) in sections.iter().filter(|(_, items)| !items.is_empty()) {
            text.push_str(&format!("\n## {name}\n\n"));
            items
                .iter()
                .for_each(|item| text.push_str(&format!("- {}\n", one_line(item))));
        }
        text
    }
}

impl CompletedTask {
    fn line(&self) -> String {
        match self.files.is_empty() {
            true => self.task.clone(),
            false => format!("{} ({})", self.task, self.files.join(", ")),
        }
    }
}

impl FileChanges {
    fn lines(&self) -> Vec<String> {
        let of = |kind, files: &[String]| -> Vec<String> {
            files.iter().map(|file| format!("{file} ({kind})")).collect()
        };
        let all = [
            of("created", &self.created),
            of("modified", &self.modified),
            of("deleted", &self.deleted),
        ];
        all.concat()
    }
}

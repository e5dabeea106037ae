//! A file for people.

use super::model::HandoffFile;
use super::text::one_line;

impl HandoffFile {
    /// The file as Markdown: what comes first is first, and what is empty is left out.
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
        let about: Vec<_> = about
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}: {}", one_line(value)))
            .collect();
        text.push_str(&format!("{}\n", about.join(" · ")));
        section(
            &mut text,
            "Now",
            std::iter::once(self.now.clone()).filter(|now| !now.is_empty()),
        );
        let test = (!self.test.is_empty()).then(|| format!("`{}`", self.test));
        section(&mut text, "Test", test.into_iter());
        section(&mut text, "Next", self.next.iter().cloned());
        section(&mut text, "Blockers", self.blockers.iter().cloned());
        section(&mut text, "Questions", self.questions.iter().cloned());
        let tasks = self
            .done_this_session
            .iter()
            .map(|task| match task.files.is_empty() {
                true => task.task.clone(),
                false => format!("{} ({})", task.task, task.files.join(", ")),
            });
        section(&mut text, "Done", tasks);
        let pair = |(name, reason): (&String, &String)| format!("**{name}**: {reason}");
        section(&mut text, "Decisions", self.decisions.iter().map(pair));
        section(&mut text, "Findings", self.findings.iter().map(pair));
        section(&mut text, "Worked", self.worked.iter().cloned());
        section(&mut text, "Failed", self.failed.iter().cloned());
        let kinds = [
            ("created", &self.files.created),
            ("modified", &self.files.modified),
            ("deleted", &self.files.deleted),
        ];
        let files = kinds
            .iter()
            .flat_map(|(kind, files)| files.iter().map(move |file| format!("{file} ({kind})")));
        section(&mut text, "Files", files);
        section(&mut text, "Tasks in progress", self.active_beads.iter().cloned());
        section(&mut text, "Threads", self.agent_mail_threads.iter().cloned());
        section(&mut text, "Memories", self.cm_memories.iter().cloned());
        text
    }
}

fn section(out: &mut String, name: &str, items: impl Iterator<Item = String>) {
    let items: Vec<_> = items.map(|item| one_line(&item)).collect();
    if items.is_empty() {
        return;
    }
    out.push_str(&format!("\n## {name}\n\n"));
    for item in items {
        out.push_str(&format!("- {item}\n"));
    }
}

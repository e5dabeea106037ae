//! Subagents that begin with a copy of the parent's transcript (Claude Code since 2.1.299).

use serde_json::{Value, json};

use super::{PROMPT, Stage, TestRequest, claude, handed_over, model, sent, user};
use baton_core::marker::sentinel;

const BEFORE: &str = "Mend the importer.";

fn request<'s>(stage: &'s Stage, messages: &[Value], fork: bool) -> TestRequest<'s> {
    let request = stage
        .request(claude(messages))
        .header("x-claude-code-session-id", "s-1");
    match fork {
        true => request.header("x-claude-code-agent-id", "fork-1"),
        false => request,
    }
}

async fn view(stage: &Stage, messages: &[Value], fork: bool) -> String {
    let offered = request(stage, messages, fork).offered().await;
    json!(sent(stage, &offered)).to_string()
}

#[tokio::test]
async fn a_fork_is_cut_at_the_parents_handoff_and_its_own_leaves_the_parent_alone() {
    let stage = Stage::new();
    let parent = request(&stage, &[user(BEFORE)], false).exchange().await;
    let handoff = handed_over(&parent, PROMPT).await;
    drop(parent);
    let shown = [
        user(BEFORE),
        model(&sentinel::short(handoff.id, None)),
        user("Go on."),
    ];
    let fork = [&shown[..], &[model("I fork."), user("Your task: the docs.")]].concat();

    let cut = view(&stage, &fork, true).await;
    assert!(
        cut.contains(PROMPT) && cut.contains("the docs") && !cut.contains(BEFORE),
        "{cut}"
    );

    let forked = request(&stage, &fork, true).exchange().await;
    let own = handed_over(&forked, "Write docs/import.md.").await;
    drop(forked);
    let before = view(&stage, &shown, false).await;
    let later = [
        &fork[..],
        &[model(&sentinel::short(own.id, None)), user("And the index.")],
    ]
    .concat();
    let again = view(&stage, &later, true).await;
    assert!(
        again.contains("docs/import.md") && !again.contains(PROMPT),
        "{again}"
    );
    // The parent's transcript has only its own sentinel.
    let parents = [&shown[..], &[model("Yes."), user("And the tests.")]].concat();
    let offered = request(&stage, &parents, false).offered().await;
    assert_eq!(offered.active_id(), Some(handoff.id));
    assert_eq!(view(&stage, &shown, false).await, before);
    let parents = json!(sent(&stage, &offered)).to_string();
    assert!(
        parents.contains(PROMPT) && !parents.contains("docs/import.md"),
        "{parents}"
    );
}

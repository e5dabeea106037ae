use super::*;
use baton_core::handoffs::draft::{DraftEnd, DraftMethod, DraftRequest};

fn document(method: Option<DraftMethod>) -> AcceptedDraft {
    AcceptedDraft {
        document: "# Goal".to_owned(),
        method,
        made_at: None,
    }
}

fn wanted() -> DraftOrder {
    DraftRequest::default().into()
}

fn drafting() -> Arc<DraftQueue> {
    Arc::new(DraftQueue::expiring_after(std::time::Duration::from_secs(60)))
}

#[test]
fn a_conversation_has_one_open_draft_and_others_learn_which() {
    let drafting = drafting();
    assert!(drafting.all_open().is_empty());
    let first = drafting.request("a", "local", wanted(), None).unwrap();
    let busy = drafting.request("a", "local", wanted(), None).unwrap_err();
    assert_eq!((busy.id, busy.state), (first.id, DraftState::Requested));
    assert_eq!(drafting.begin("a", "local", wanted()).unwrap_err().id, first.id);
    assert!(drafting.request("b", "local", wanted(), None).is_ok());
    let job = drafting.take("a").unwrap();
    assert_eq!(job.id, first.id);
    let waits = |key| drafting.open_in(key).is_some_and(|draft| draft.state.waits());
    assert!(drafting.take("a").is_none() && !waits("a") && waits("b"));
    assert_eq!(
        drafting.begin("a", "local", wanted()).unwrap_err().state,
        DraftState::Writing
    );
    let handoff = Uuid::now_v7();
    job.done(Some(DraftMethod::Oneshot), "# Goal".to_owned(), handoff);
    let done = drafting.get(first.id).unwrap();
    assert_eq!(
        (done.state, done.result.handoff),
        (DraftState::Done, Some(handoff))
    );
    assert!(drafting.begin("a", "local", wanted()).is_ok());
    assert_eq!(drafting.all_open().len(), 1, "that one was dropped with its job");
}

#[test]
fn the_same_key_asks_once() {
    let drafting = drafting();
    let ask = |conversation: &str| drafting.request(conversation, "local", wanted(), Some("k".to_owned()));
    let first = ask("a").unwrap();
    assert_eq!(ask("a").unwrap().id, first.id);
    drafting.take("a").unwrap().ended(&DraftEnd::Empty);
    assert_eq!(ask("a").unwrap().state, DraftState::Empty);
    assert_ne!(ask("b").unwrap().id, first.id);
}

#[test]
fn however_a_draft_ends_the_conversation_is_free() {
    let drafting = drafting();
    let state = |id| {
        let draft = drafting.get(id).unwrap();
        (draft.state, draft.result.failure)
    };
    for (end, expected) in [
        (Some(DraftEnd::Empty), (DraftState::Empty, None)),
        (Some(DraftEnd::Cancelled), (DraftState::Cancelled, None)),
        (Some(DraftEnd::Refused), (DraftState::Failed, Some("refusal"))),
        (None, (DraftState::Cancelled, None)),
    ] {
        let job = drafting.begin("a", "local", wanted()).unwrap();
        let id = job.id;
        match end {
            Some(end) => job.ended(&end),
            None => drop(job),
        }
        assert_eq!(state(id), expected);
        assert!(drafting.all_open().is_empty());
    }
    let job = drafting.begin("a", "local", wanted()).unwrap();
    let id = job.id;
    let moved = std::panic::AssertUnwindSafe(job);
    let panicked = std::panic::catch_unwind(move || {
        let _job = moved;
        panic!("a fault of the test's");
    });
    assert!(panicked.is_err() && drafting.all_open().is_empty());
    assert_eq!(state(id), (DraftState::Failed, Some("internal")));
}

#[tokio::test]
async fn a_cancelled_draft_stops_its_writer_and_one_that_waits_ends_at_once() {
    let drafting = drafting();
    let waits = drafting.request("a", "local", wanted(), None).unwrap();
    drafting.cancel(waits.id).unwrap();
    assert_eq!(drafting.get(waits.id).unwrap().state, DraftState::Cancelled);
    assert_eq!(drafting.cancel(waits.id), Err(CancelRefusal::Ended));
    assert_eq!(drafting.cancel(Uuid::nil()), Err(CancelRefusal::Unknown));
    let job = drafting.begin("a", "local", wanted()).unwrap();
    drafting.cancel(job.id).unwrap();
    job.cancelled().await;
    assert_eq!(
        drafting.get(job.id).unwrap().state,
        DraftState::Writing,
        "until its writer says so"
    );
}

#[test]
fn a_handoff_drops_what_waits_and_not_what_is_being_written() {
    let drafting = drafting();
    let waits = drafting.request("a", "local", wanted(), None).unwrap();
    let job = drafting.begin("b", "local", wanted()).unwrap();
    drafting.handed_over("a");
    drafting.handed_over("b");
    assert_eq!(drafting.get(waits.id).unwrap().state, DraftState::Dropped);
    assert_eq!(drafting.get(job.id).unwrap().state, DraftState::Writing);
}

#[test]
fn ended_drafts_are_remembered_up_to_a_bound() {
    let drafting = drafting();
    let ids: Vec<Uuid> = (0..MAX_ENDED_DRAFTS + 9)
        .map(|n| {
            let job = drafting.begin(&n.to_string(), "local", wanted()).unwrap();
            let id = job.id;
            job.ended(&DraftEnd::Empty);
            id
        })
        .collect();
    let known = |id: &Uuid| drafting.get(*id).is_some();
    assert!(!known(&ids[0]) && known(&ids[ids.len() - 1]));
    assert!(ids.iter().filter(|id| known(id)).count() <= MAX_ENDED_DRAFTS + 1);
}

#[test]
fn a_draft_waits_for_a_user_and_takes_effect_as_it_was_accepted() {
    let drafting = drafting();
    let job = drafting.begin("a", "local", wanted()).unwrap();
    let id = job.id;
    job.review(document(Some(DraftMethod::Bundle)));
    assert_eq!(drafting.get(id).unwrap().state, DraftState::Review);
    assert_eq!(
        drafting.begin("a", "local", wanted()).unwrap_err().state,
        DraftState::Review
    );
    assert!(drafting.take("a").is_none());
    assert_eq!(
        (drafting.pending_once("a"), drafting.pending_once("a")),
        (Some(id), None)
    );
    assert_eq!(
        drafting.accept(Uuid::nil(), None).unwrap_err(),
        CancelRefusal::Unknown
    );
    drafting.accept(id, None).unwrap();
    drafting.accept(id, Some("# Another".to_owned())).unwrap();
    let job = drafting.take("a").unwrap();
    let accepted = job.accepted.as_ref().unwrap();
    assert_eq!(
        (accepted.document.as_str(), accepted.method),
        ("# Another", Some(DraftMethod::Bundle))
    );
    assert_eq!(drafting.accept(id, None).unwrap_err(), CancelRefusal::Ended);
    job.done(Some(DraftMethod::Bundle), "# Another".to_owned(), Uuid::now_v7());
    assert!(drafting.all_open().is_empty());
}

#[test]
fn a_user_says_no_or_nothing_for_too_long() {
    let review = |drafting: &Arc<DraftQueue>| {
        let job = drafting.begin("a", "local", wanted()).unwrap();
        let id = job.id;
        job.review(document(None));
        id
    };
    let patient = drafting();
    let id = review(&patient);
    patient.reject(id).unwrap();
    assert_eq!(patient.get(id).unwrap().state, DraftState::Rejected);
    assert!(patient.all_open().is_empty());
    let hasty = Arc::new(DraftQueue::expiring_after(Duration::ZERO));
    let id = review(&hasty);
    assert!(hasty.all_open().is_empty());
    assert_eq!(hasty.get(id).unwrap().state, DraftState::Expired);
}

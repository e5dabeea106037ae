//! Finished requests: what they say of how to work holds, and they are listed as done.

use super::goals::local;
use super::*;

#[test]
fn statements_of_finished_requests_hold_and_the_requests_are_done() {
    let mut messages = vec![user("Look at the exporter."), model("I did.")];
    messages.extend([
        user("Could you rename the columns, and make sure that each page has a title? The staging host sits behind a proxy."),
        model("Done."),
        user("I thought we wanted the small format? Windows comes later...is a lock file enough?"),
        model("It is."),
    ]);
    messages.push(user(
        "The footer is printed twice\n\nOne of the two comes from the old template.",
    ));
    messages.extend(called("Edit", json!({"file_path": "footer.html"}), "ok"));
    messages.extend([
        model("Fixed."),
        user("Let's work through the open tickets."),
        model("The first is done."),
    ]);
    messages.extend([
        user("Is there a way to avoid one upload for each file?"),
        model("Yes, done."),
    ]);
    messages.push(user("Now write the changelog."));
    let local = local(&messages);
    let (live, done) = local.split_once("Earlier requests. They are done").unwrap();
    for held in [
        "Constraints:\n- make sure that each page has a title (turn 2)",
        "- Is there a way to avoid one upload for each file? (turn 6)\n- Let's work through the open tickets. (turn 5)",
        "- I thought we wanted the small format? Windows comes later... (turn 3)",
        "- The staging host sits behind a proxy. (turn 2)",
    ] {
        assert!(live.contains(held), "{held}: {local}");
    }
    for over in [
        "Could you rename the columns",
        "is a lock file enough?",
        "The footer is printed twice",
    ] {
        assert!(done.contains(over) && !live.contains(over), "{over}: {local}");
    }
}

#[test]
fn a_request_that_the_user_reports_as_not_done_is_open() {
    let messages = [
        user("Print the index on the second printer."),
        model("Done."),
        user("Open the page in a new tab."),
        model("Done."),
        user("It still opens in the same one."),
    ];
    let local = local(&messages);
    let (live, done) = local.split_once("Earlier requests. They are done").expect(&local);
    assert!(
        live.contains("Open the page") && !done.contains("Open the page"),
        "{local}"
    );
    assert!(done.contains("Print the index"), "{local}");
}

#[test]
fn an_answered_request_is_done_once_another_subject_follows() {
    let before_done = |request: &str, answer: &str, next: &str| {
        let messages = [
            user("Look at the importer."),
            model("I did."),
            user(request),
            model(answer),
            user(next),
        ];
        let local = local(&messages);
        local
            .split_once("Earlier requests. They are done")
            .expect(&local)
            .0
            .to_owned()
    };
    let request = "Move the second printer to the hall.";
    // No word of this reports success, and a further request shows that the user is content.
    let answer = "It now stands next to the door, on the left.";
    assert_lacks(&before_done(request, answer, "Write the changelog."), request);
    let on_it = "Why is the second printer in the hall so loud?";
    assert_contains(&before_done(request, answer, on_it), request);
    let left = "It stands next to the door; the cable is still missing.";
    assert_contains(&before_done(request, left, "Write the changelog."), request);
    // A report in another language.
    let erledigt = "Der Drucker steht in der Halle: erledigt.";
    assert_lacks(&before_done(request, erledigt, on_it), request);
    let noch_nicht = "Die Tür ist fertig, der Drucker noch nicht.";
    assert_contains(&before_done(request, noch_nicht, on_it), request);
}

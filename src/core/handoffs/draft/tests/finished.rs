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

#[test]
fn a_request_is_done_in_whatever_form_it_was_made() {
    for request in [
        "but can you find out why the gate squeaks?",
        "Ok. haz una copia de la puerta",
        "mostrami la porta del cortile",
        "Vytvoř novou bránu do dvora.",
        "请补充大门的测试数据。",
        "改动一下大门",
        "compact this paragraph about gates",
        "please set up the gate",
        "Should the gate be painted too?",
    ] {
        let messages = [
            user("Look at the importer."),
            model("I did."),
            user(request),
            model("Done: it is as you said."),
            user("Write the changelog."),
            model("Done."),
            user("Print the list of all lamps."),
        ];
        let text = local(&messages);
        assert_lacks(&live(&messages), request);
        assert_contains(&text, request);
    }
}

/// The draft's line about the goal.
fn goal(messages: &[Value]) -> String {
    let text = indexed(messages).local(&request(4000)).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("Goal") || line.starts_with("Last goal"));
    line.unwrap_or_default().to_owned()
}

#[test]
fn an_answer_that_names_what_is_left_finishes_nothing() {
    for closing in [
        "I've completed the first hall. Two halls remain.",
        "Done with the doors; the windows are not started.",
        "I fixed two of the three doors.",
        "The hall is partially completed.",
        "I finished the first half of the hall.",
        "Completed:\n- doors\n\nRemaining:\n- windows",
        "The doors are done. TODO: the windows.",
        "The doors are done. Next I will paint the windows.",
        "Die Türen sind fertig. Es fehlen noch zwei Fenster.",
        "Les portes sont terminées. Il reste à peindre les fenêtres.",
        "门已完成，还剩两扇窗。",
    ] {
        let messages = [user("Paint all doors and windows."), model(closing)];
        assert_begins(&goal(&messages), "Goal (the last open request)");
    }
    for closing in [
        "I've painted the doors and windows. All done.",
        "Done: all windows are painted, and nothing remains.",
        "Done. Let me know if you have remaining questions.",
        "I've fixed three of three doors.",
        "Done. The handle remains unchanged.",
    ] {
        let messages = [user("Paint all doors and windows."), model(closing)];
        assert_begins(&goal(&messages), "Last goal (done)");
    }
}

#[test]
fn a_request_is_open_until_the_messages_that_continue_it_are_done() {
    for said in [
        "Continue with the remaining tasks",
        "ok continue, but skip the docs",
        "Could you try that again?",
        "please continue where you left off",
        "mach weiter bis alles fertig ist",
    ] {
        let mut messages = vec![
            user("Work through the list of doors."),
            model("I've completed the first door."),
            user(said),
            model("The second door is not yet painted."),
        ];
        let told = goal(&messages);
        assert_eq!(
            told, "Goal (the last open request): Work through the list of doors.",
            "{said}"
        );
        messages.extend([user("What is the colour of the hall?"), model("Green.")]);
        let text = indexed(&messages).local(&request(4000)).unwrap();
        let done = text.split_once(super::super::DONE).map_or("", |(_, done)| done);
        assert_lacks(done, "Work through the list");
        assert_lacks(&text, "Nothing is open");
    }
}

#[test]
fn thanks_leave_a_finished_request_finished() {
    for said in [
        "thanks",
        "Perfect!",
        "Great work!",
        "Awesome, thanks!",
        "Wow!!",
        "🎉",
    ] {
        let mut messages = vec![
            user("Oil the door."),
            model("I've oiled the door. Done."),
            user(said),
        ];
        assert_eq!(goal(&messages), "Last goal (done): Oil the door.", "{said}");
        messages.push(model("You're welcome!"));
        assert_eq!(goal(&messages), "Last goal (done): Oil the door.", "{said}");
    }
    let asked = [
        user("Oil the door."),
        model("Done."),
        user("Which oil was it?"),
        model("Linseed."),
    ];
    assert_begins(&goal(&asked), "Last goal (done)");
}

#[test]
fn the_answer_to_a_question_does_not_finish_its_task() {
    let messages = [
        user("Work through the list of doors."),
        model("The first door is done. Two doors remain. Shall I go on?"),
        user("Which is next?"),
        model("The blue one."),
    ];
    assert_begins(&goal(&messages), "Goal (the last open request)");
}

/// The draft's text before the list of finished requests.
fn live(messages: &[Value]) -> String {
    let text = indexed(messages).local(&request(4000)).unwrap();
    let live = text
        .split_once(super::super::DONE)
        .map(|(live, _)| live.to_owned());
    live.unwrap_or(text)
}

#[test]
fn a_request_that_was_put_off_or_stopped_is_not_done() {
    let request = "Move the lamps of the hall.";
    let stopped = json!({"role": "user", "content": [
        {"type": "text", "text": "[Request interrupted by user]"}, {"type": "text", "text": "What does a lamp cost?"},
    ]});
    let begun = |next: Value| {
        let more = [
            model("A lamp costs ten. Done."),
            user("Write the list of doors."),
            model("Done."),
            user("Open the gate."),
        ];
        let before = [user("List the halls."), model("Done.")];
        [&before[..], &[user(request), model("I begin."), next], &more].concat()
    };
    assert_contains(
        &live(&begun(user("wait, before all that look at the price"))),
        request,
    );
    assert_contains(&live(&begun(stopped)), request);
    assert_lacks(&live(&begun(user("Look at the price."))), request);
    // The correction of a stopped request continues it.
    let corrected = json!({"role": "user", "content": [
        {"type": "text", "text": "[Request interrupted by user]"}, {"type": "text", "text": "in green"},
    ]});
    assert_lacks(&live(&begun(corrected)), request);
}

#[test]
fn a_request_whose_answer_only_announces_is_continued() {
    for (next, is_open) in [
        ("@agent Continue: \"Continue to iterate?\"", true),
        ("i meant the lamps on the left", true),
        ("https://shop.example.com/hall/7", true),
        ("Open the gate of the garden.", false),
    ] {
        let messages = [
            user("List the halls."),
            model("Done."),
            user("Move the lamps."),
            model("They are moved."),
            user(next),
            model("I look at them."),
        ];
        assert_eq!(live(&messages).contains("- Move the lamps."), is_open, "{next}");
    }
    let messages = [
        user("Move the lamps."),
        model("Let me look at them:"),
        user("Open the gate."),
    ];
    assert_contains(&live(&messages), "- Move the lamps. (turn 1)");
}

#[test]
fn the_goal_is_what_the_user_accepted_after_a_question() {
    let accepted = "yeah please go ahead, and open the gate to see whether it holds";
    let messages = [
        user("so how did the look at the lamps go?"),
        model("There are two causes. Shall I mend both of them?"),
        user(accepted),
    ];
    assert_eq!(
        goal(&messages),
        format!("Goal (the last open request): {accepted}")
    );
    let task = "Your task is to list the lamps of the hall in a file.";
    let long = format!(
        "{task} {}\nWhich lamps (oil?) and doors?",
        "The hall is very old. ".repeat(14)
    );
    assert_begins(
        &goal(&[user(&long)]),
        &format!("Goal (the last open request): {task}"),
    );
}

#[test]
fn what_the_model_said_last_has_its_beginning_and_its_end() {
    let rows: Vec<String> = (0..60)
        .map(|n| format!("{n}. The lamp {n} hangs above its door."))
        .collect();
    let last = format!(
        "The list is written.\n\n{}\n\nThe gate is left for later.",
        rows.join("\n")
    );
    let draft = live(&[user("List the lamps."), model(&last), user("And the doors?")]);
    assert_contains(&draft, "The list is written.");
    assert_contains(&draft, "The gate is left for later.");
    assert_lacks(&draft, "The lamp 30 ");
}

#[test]
fn a_statement_and_a_step_stand_once() {
    let todos: Vec<Value> = (0..4)
        .map(|n| json!({"content": format!("Hang lamp {n}"), "status": "pending"}))
        .collect();
    let first = "The hall has 12 lamps. The gate is perfect right now. Write the page of the hall.";
    let mut messages = vec![
        user(first),
        model("It is written. Done."),
        user("Hang the lamps."),
    ];
    messages.extend(called("TodoWrite", json!({"todos": todos}), "ok"));
    let draft = live(&messages);
    for once in ["The hall has 12 lamps", "The gate is perfect", "Hang lamp 3"] {
        assert_eq!(draft.matches(once).count(), 1, "{once}: {draft}");
    }
}

#[test]
fn a_report_of_a_change_finishes_the_request_if_a_file_was_changed() {
    let goal_after = |closing: &str| {
        let mut messages = vec![user("Write a page about the hall.")];
        messages.extend(called(
            "Write",
            json!({"file_path": "/w/hall.md", "content": "x"}),
            "ok",
        ));
        messages.push(model(closing));
        goal(&messages)
    };
    for closing in [
        "Did it.",
        "I've written hall.md.",
        "hall.md now contains the page.",
        "Ich habe hall.md geschrieben.",
        "C'est fait.",
        "Ya está escrito.",
        "Ho scritto la pagina.",
        "Я написал страницу.",
        "Ik heb de pagina geschreven.",
        "已写入 hall.md。",
        "hall.md を作成しました。",
    ] {
        assert_begins(&goal_after(closing), "Last goal (done)");
    }
    for closing in [
        "I've written the first half of hall.md.",
        "I've written hall.md, but the doors are missing.",
        "I've written two of the three pages.",
        "hall.md now contains a stub.",
        "I've created hall.md. Next I will write the page.",
        "Ich habe einen Entwurf geschrieben.",
        "J'ai écrit une partie de la page.",
        "The page is about the hall.",
    ] {
        assert_begins(&goal_after(closing), "Goal (the last open request)");
    }
    // Nothing was changed.
    let messages = [
        user("Write a page about the hall."),
        model("I've written hall.md."),
    ];
    assert_begins(&goal(&messages), "Goal (the last open request)");
}

#[test]
fn a_request_that_only_names_the_next_thing_is_done_with_it() {
    let after = |said: &str| {
        let mut messages = vec![user("Paint the hall."), model("Done."), user(said)];
        messages.extend([model("Done, it is painted."), user("Write the changelog.")]);
        let local = local(&messages);
        let (live, done) = local
            .split_once("Earlier requests. They are done")
            .unwrap_or((&local, ""));
        (live.contains(said), done.contains(said))
    };
    for said in [
        "Now the north door.",
        "Ok, next the lamps.",
        "Jetzt die Lampen der Halle.",
        "Maintenant l'escalier.",
        "Ahora las puertas.",
    ] {
        assert_eq!(after(said), (false, true), "{said}");
    }
    assert!(after("Now the hall is darker than it was.").0);
}

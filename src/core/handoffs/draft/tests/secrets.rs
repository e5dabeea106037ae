//! Files with credentials are described, but none of their content is quoted.

use super::*;

#[test]
fn a_secret_file_is_described_by_kind_place_use_and_end() {
    let value = "hunter2-of-production";
    let env = format!("DATABASE_PASSWORD={value}\n");
    let mut all = vec![user("Get it running.")];
    all.extend(called("Read", json!({"file_path": "app/.env"}), &env));
    all.extend(failing(called(
        "Read",
        json!({"file_path": ".npmrc"}),
        "File does not exist.",
    )));
    all.extend(called(
        "Write",
        json!({"file_path": "app/.env.local", "content": env}),
        "File created successfully at: app/.env.local",
    ));
    all.extend(ran("openssl genrsa -out tls/server.key 2048", value));
    all.extend(ran(
        "ssh -i keys/id_deploy host",
        &format!("Exit code 255\n{value}: denied"),
    ));
    all.push(user(&format!(
        "<bash-input>cat app/.env</bash-input>\n<bash-stdout>{env}</bash-stdout><bash-stderr></bash-stderr>"
    )));
    all.push(user("Go on with the importer."));
    let index = indexed(&all);
    let document = document(&index);
    let made = [
        index.local(&request(4000)).unwrap(),
        index.bundle(&request(8000)).unwrap(),
        document.markdown(),
        document.json(),
    ];
    for text in made {
        for described in [
            "app/.env (environment file): read in turn 1; it worked",
            ".npmrc (login for npm): read in turn 1; it failed",
            "app/.env.local (environment file): written in turn 1; it worked",
            "tls/server.key (key or certificate): written in turn 1; it worked",
            "keys/id_deploy (SSH key): used in turn 1; it failed",
        ] {
            assert!(text.contains(described), "{described}\n{text}");
        }
        assert_lacks(&text, value);
        assert_lacks(&text, "DATABASE_PASSWORD");
    }
}

#[test]
fn a_password_that_the_model_asked_for_is_not_quoted() {
    let index = |asked: &str, text: &str| indexed(&[user("Mount the disk."), model(asked), user(text)]);
    let local = |asked: &str, text: &str| index(asked, text).local(&request(4000)).unwrap();
    for (asked, text) in [
        ("I need root for this.\n\n**sudo password?**", "swordfish"),
        ("What is the password of ada on the host 10.0.0.7?", "ada / 4711"),
        ("Please enter the verification code.", "884213"),
        ("Please share your API key for the weather service", "wanderlust"),
        ("请输入密码", "swordfish"),
    ] {
        let told = local(asked, text);
        assert_lacks(&told, text);
        assert_contains(&told, "[redacted:password]");
    }
    for (asked, text) in [
        ("Which file has the code?", "importer"),
        ("What is the token limit?", "4096"),
        ("Shall I add a password field?", "yes"),
        (
            "The password in the settings is wrong. Which disk is it?",
            "backup",
        ),
        ("sudo password?", "Use the disk of Ada instead, it has none"),
    ] {
        assert_contains(&local(asked, text), text);
    }
}

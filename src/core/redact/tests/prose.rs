//! Secrets that users state in sentences, in several languages.

use super::*;

/// Values are joined here, so that this file contains no secret in such a sentence.
const PASSWORD: [&str; 2] = ["Harbour", "2031+"];
const UUID: &str = "5d0c1b7e-3f49-4c8e-9a55-0b6f2d7e8c11";

#[test]
fn secrets_in_sentences_are_redacted_in_the_languages_of_users() {
    let redactor = Redactor::new(&[]);
    let password = PASSWORD.concat();
    for text in [
        "the temporary password is {}, change it later",
        "The password for the test account is {}.",
        "log in as ada@example.com and password {} please",
        "password: {}",
        "Passwort lautet {}",
        "Das Kennwort ist {}",
        "le mot de passe est {}",
        "mot de passe : {}",
        "la contraseña es {}",
        "a senha é {}",
        "密码是{}",
        "数据库密码{}",
        "密码：{}",
        "パスワードは{}です",
        "пароль: {}",
        "비밀번호는 {}",
        "het wachtwoord is \"{}\"",
    ] {
        let clean = redactor.text(&text.replace("{}", &password)).into_owned();
        assert_eq!(clean, text.replace("{}", "[redacted:password]"), "{text}");
    }
    for text in [
        "Add the weather API KEY {} to the file",
        "our api key is {}",
        "access token: {}",
        "密钥是{}",
    ] {
        let clean = redactor.text(&text.replace("{}", UUID)).into_owned();
        assert!(!clean.contains(UUID), "{clean}");
    }
    let hook = format!("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={UUID}");
    assert!(!redactor.text(&hook).contains(UUID));
    let pin = ["47", "11"].concat();
    assert_eq!(
        redactor.text(&format!("the password is {pin}.")),
        "the password is [redacted:password]."
    );
    let word = ["sword", "fish"].concat();
    assert_eq!(
        redactor.text(&format!("The password is \"{word}\".")),
        "The password is \"[redacted:password]\"."
    );
}

#[test]
fn secrets_of_something_are_redacted_in_the_languages_of_users() {
    let redactor = Redactor::new(&[]);
    let password = ["kqxzwl", "mnoprt7"].concat();
    for text in [
        "The password of the database is {}.",
        "the password to our staging server is {}",
        "Change the password for production to {}",
        "Das Passwort der Datenbank ist {}",
        "Das Kennwort für den Testserver lautet {}",
        "Le mot de passe de la base de données est {}",
        "Le mot de passe de la base de données de production est {}",
        "le mot de passe d'administration est {}",
        "La contraseña de la base de datos es {}",
        "A senha do banco de dados é {}",
        "La password del database è {}",
        "Het wachtwoord van de database is {}",
        "Hasło do bazy danych to {}",
        "Lösenordet till databasen är {}",
        "Пароль от базы данных — {}",
        "Пароль для базы данных: {}",
        "数据库的密码是{}",
        "データベースのパスワードは{}です",
        "데이터베이스 비밀번호는 {}",
        "the passphrase is {}!",
        "The passphrase is \"{}\".",
        "the passphrase of the key is {}",
    ] {
        let clean = redactor.text(&text.replace("{}", &password)).into_owned();
        let expected = text.replace("{}", "[redacted:password]");
        assert_eq!(clean.replace("]!", "]"), expected.replace("]!", "]"), "{text}");
        let json = redactor
            .json(escaped(&text.replace("{}", &password)).as_bytes())
            .into_owned();
        assert_lacks(&String::from_utf8(json).unwrap(), &password);
    }
    let words = ["correct", "horse", "battery"].join(" ");
    assert_eq!(
        redactor.text(&format!("The passphrase is \"{words}\".")),
        "The passphrase is \"[redacted:password]\"."
    );
    let joined = ["word", "fish"].join("-");
    assert_eq!(
        redactor.text(&format!("The passphrase is \"{joined}\".")),
        "The passphrase is \"[redacted:password]\"."
    );
}

/// A JSON string with `\uXXXX` in place of every character that is not ASCII.
fn escaped(text: &str) -> String {
    let units = json::quote(text);
    let units = units.encode_utf16().map(|unit| match u8::try_from(unit) {
        Ok(b) if b.is_ascii() => char::from(b).to_string(),
        _ => format!("\\u{unit:04x}"),
    });
    units.collect()
}

#[test]
fn json_with_escaped_letters_hides_no_sentence() {
    let redactor = Redactor::new(&[]);
    let password = ["kqxzwl", "mnoprt7"].concat();
    for text in [
        "密码是 {}",
        "пароль: {}",
        "パスワードは {}",
        "la contraseña es {}",
        "şifre: {}",
    ] {
        let text = text.replace("{}", &password);
        let body = escaped(&text);
        let arguments = json::quote(&format!("{{\"command\":{body}}}"));
        let event = format!("data: {{\"text\":{body}}}\n\n");
        for clean in [
            redactor.json(body.as_bytes()),
            redactor.json(arguments.as_bytes()),
            redactor.stream(event.as_bytes()),
        ] {
            let clean = String::from_utf8(clean.into_owned()).unwrap();
            assert!(clean.contains("[redacted:password]"), "{clean}");
            assert_lacks(&clean, &password);
        }
    }
}

#[test]
fn sentences_about_secrets_stay() {
    let redactor = Redactor::new(&[]);
    for text in [
        "The password is required and must have 12 characters.",
        "the key is simplicity",
        "Password hashing: bcryptjs (at least 12 rounds).",
        "the password field is called input_pwd_2",
        "pass 2 of the parser, and the tests pass: 34 of 34",
        "the token is expired, see step_12",
        "password reset goes to ada@example.com",
        "the password is stored in /srv/app/config2.yaml",
        "The API key is in the .env file.",
        "the primary key is user_id2",
        "la clave es la paciencia",
        "la clave de la mejora es step_12",
        "the password of the account is required",
        "change the password to something with 12 characters",
        "le mot de passe de la base est dans config2.yaml",
        "das Passwort für die Datenbank ist in .env2",
        "le mot de passe est obligatoire",
        "密码是必填的，至少 8 位",
        "密码重置 2 次",
        "a password is $PASSWORD2, or <your-password1>",
        "password sha256 hashes, argon2id, utf8mb4",
        "press the key F12 or the token is-a-word-2",
        "request id 5d0c1b7e-3f49-4c8e-9a55-0b6f2d7e8c11",
    ] {
        assert_eq!(redactor.text(text), text);
    }
}

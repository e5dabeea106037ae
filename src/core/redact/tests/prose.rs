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

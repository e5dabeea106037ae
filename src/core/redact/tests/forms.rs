//! Secrets in the output of programs, in tables and in pairs of lines.

use super::*;

/// Joined here, so that no line of this file has a secret in one of these forms.
const PASSWORD: [&str; 2] = ["kqxzwl", "mnoprt77"];

fn clean(text: &str) -> String {
    let password = PASSWORD.concat();
    let text = text.replace("{}", &password);
    let redactor = Redactor::new(&[]);
    let json = redactor.json(json::quote(&text).as_bytes()).into_owned();
    assert_lacks(&String::from_utf8(json).unwrap(), &password);
    redactor.text(&text).into_owned()
}

#[test]
fn colours_hide_no_secret() {
    for text in [
        "\u{1b}[01;31m\u{1b}[Kpassword\u{1b}[m\u{1b}[K: {}",
        "\u{1b}[35mconf\u{1b}[m\u{1b}[36m:\u{1b}[mpassword\u{1b}[36m=\u{1b}[m{}",
        "DB_\u{1b}[1mPASSWORD\u{1b}[0m=\u{1b}[32m{}\u{1b}[0m",
    ] {
        let expected = text.replace("{}", "[redacted:password]");
        assert_eq!(clean(text), expected);
    }
    let nested = r#"{"output":"\u001b[31mpassword\u001b[0m: {}"}"#;
    assert_eq!(clean(nested), nested.replace("{}", "[redacted:password]"));
}

#[test]
fn values_of_named_pairs_are_redacted() {
    for text in [
        "        - name: DB_PASSWORD\n          value: \"{}\"\n",
        "- name: DB_PASSWORD\n  value: {}\n",
        "variable \"db_password\" { default = \"{}\" }",
        "variable \"db_password\" {\n  type = string\n  default = \"{}\"\n}",
        "<add key=\"DbPassword\" value=\"{}\"/>",
        "<property name=\"db.password\" value=\"{}\"/>",
        "**Password:** {}",
        "**Password**: {}",
        "- *Password:* {}",
        "pw: {}",
        "PW={}",
    ] {
        assert_eq!(clean(text), text.replace("{}", "[redacted:password]"), "{text}");
    }
    for text in ["login: admin / {}", "**Login:** ada@example.com / {}"] {
        assert_eq!(
            clean(text),
            text.replace("{}", "[redacted:account-password]"),
            "{text}"
        );
    }
    let signed = format!("https://s3.example/k?X-Amz-Signature={}", "kq7".repeat(20));
    assert_lacks(&clean(&signed), "kq7kq7");
}

#[test]
fn columns_of_secrets_are_redacted() {
    for text in [
        "| password | {} |",
        "| user | admin |\n| `password` | {} |\n",
        "user,password\nadmin,{}\neve,{}\n",
        "id,user,password,role\n1,admin,{},x\n2,\"eve\",\"{}\",y\n\nnext,line",
        "     1\tuser,password\n     2\tadmin,{}\n",
        "id\tuser\tpassword\n1\tadmin\t{}\n",
        " user  |    password     \n-------+-----------------\n admin | {}\n(1 row)\n",
        "| user | password | role |\n|------|:---------|---|\n| admin | {} | x |\n| eve | `{}` | y |\n",
        "     1\t| user | password |\n     2\t|------|------|\n     3\t| admin | {} |\n",
        "+----+----------------+\n| id | password       |\n+----+----------------+\n|  1 | {} |\n+----+-----+\n",
        "-[ RECORD 1 ]------\nuser     | admin\npassword | {}\n",
    ] {
        assert_eq!(clean(text), text.replace("{}", "[redacted:password]"), "{text}");
    }
}

#[test]
fn tables_and_pairs_without_secrets_stay() {
    for text in [
        "| name | type |\n|---|---|\n| password | string |\n| token | varchar(255) |\n",
        "| user | password |\n|---|---|\n| admin | required |\n| eve | see config2 |\n",
        "user, password\nThe first, step_12\n",
        "type Field = 'user' | 'password' | 'otp2fa1x';",
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      key: password\n",
        "variable \"db_password\" {\n  type = string\n}\ndefault = 12345678a\n",
        "- name: DB_PASSWORD\n  value: ${DB_PASSWORD}\n",
        "login: page / dashboard",
        "the pw field, upwards, pwd",
        "**Password:** required",
        "if (password) {\n  default: return 1a2b3c4d;\n}",
    ] {
        let redactor = Redactor::new(&[]);
        assert_eq!(redactor.text(text), text);
    }
}

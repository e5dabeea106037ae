//! Secrets that users state in sentences: "the password is …", "mot de passe : …", "密码是…", "our API key …".

use super::matches::Matches;
use super::names::SecretName;
use super::values;

/// Maximum number of bytes from a word for a secret to the word that states it, and of a value.
const BETWEEN: usize = 64;
const VALUE: usize = 256;

/// Maximum number of words between the two: "the password for the test account is".
const MAX_WORDS: usize = 6;

/// Words for passwords, in addition to those with `pass` and `pwd`.
pub(super) const PASSWORDS: [&str; 22] = [
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
    "암호",
    "пароль",
    "Пароль",
    "mot de passe",
    "mdp",
    "contraseña",
    "contrasena",
    "clave",
    "senha",
    "kennwort",
    "wachtwoord",
    "hasło",
    "heslo",
    "lösenord",
    "adgangskode",
    "şifre",
    "jelszó",
];

/// Words for keys, in addition to those with `key`, `token` and `secret`.
pub(super) const KEYS: [&str; 8] = [
    "密钥",
    "密鑰",
    "令牌",
    "clé api",
    "clave de api",
    "chave de api",
    "ключ api",
    "apiキー",
];

/// Words and signs that state a value.
const STATES: [&str; 27] = [
    "is", "was", "are", "=", ":", "：", "=>", "->", "→", "ist", "lautet", "est", "es", "era", "é", "è",
    "jest", "är", "er", "is:", "是", "为", "為", "は", "는", "은", "这是",
];

/// How a value follows the word for its secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Statement {
    /// Directly: `password abc123xyz`.
    Adjacent,
    /// After a word or sign that states it and that follows the word for the secret.
    Stated,
    /// After other words and one that states it.
    Far,
}

/// Matches the value that follows the word from `start` to `end`.
pub(super) fn at(start: usize, end: usize, name: SecretName, found: &mut Matches<'_>) {
    let text = found.text();
    if begins_inside(text, start) {
        return;
    }
    let Some((from, statement)) = value_start(text, end) else {
        return;
    };
    let rest = &text[from..floor(text, from + VALUE)];
    let opened = rest.chars().next().filter(|c| "\"'`“”‘’«「".contains(*c));
    let skipped = opened.map_or(0, char::len_utf8);
    let ends = |c: char| c.is_whitespace() || !c.is_ascii() || "\"'`<>()[]{},;|\\".contains(c);
    let rest = &rest[skipped..];
    let value = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let value = value.trim_end_matches(['.', ':', '?', ',']);
    super::worked(BETWEEN + value.len());
    let is_code = rest[value.len()..].starts_with(['(', '[', '{', '<']);
    if !is_code && is_stated(value.as_bytes(), name, statement, opened.is_some()) {
        let from = from + skipped;
        found.push(
            from..from + value.len(),
            if name == SecretName::Password {
                "password"
            } else {
                "key"
            },
        );
    }
}

/// Whether the word for the secret is a part of a longer one.
fn begins_inside(text: &str, start: usize) -> bool {
    let before = text[..start].chars().next_back();
    before.is_some_and(|c| c.is_ascii_alphanumeric() || "_-./$\\".contains(c))
}

fn floor(text: &str, at: usize) -> usize {
    crate::text::cut::floor(text, at)
}

/// The start of a value, and how it follows the word that ends at `end`.
fn value_start(text: &str, end: usize) -> Option<(usize, Statement)> {
    let near = &text[end..floor(text, end + BETWEEN)];
    let first = near.chars().next()?;
    // Languages without blanks join the word and the value.
    let is_joined = text[..end].chars().next_back().is_some_and(|c| !c.is_ascii());
    if !(first.is_whitespace() || is_joined || first == '：' || first == ':' || first == '=') {
        return None;
    }
    let near = &near[..near
        .find(['\n', '.', '!', '?', ';', '。', '，'])
        .unwrap_or(near.len())];
    let mut statement = Statement::Adjacent;
    let mut at = 0;
    for words in 0..=MAX_WORDS {
        at += near[at..].len() - near[at..].trim_start().len();
        let rest = &near[at..];
        if let Some(len) = states(rest) {
            let after = at + len;
            let blanks = near[after..].len() - near[after..].trim_start().len();
            let again = states(&near[after + blanks..]).unwrap_or(0);
            let after = after + blanks + again;
            let blanks = near[after..].len() - near[after..].trim_start().len();
            statement = if words == 0 {
                Statement::Stated
            } else {
                Statement::Far
            };
            return Some((end + after + blanks, statement));
        }
        // The next word may be the value, or stand between.
        let word = rest.split_whitespace().next()?;
        if let Some(named) = word.strip_suffix([':', '：'])
            && words > 0
            && named.chars().all(char::is_alphabetic)
        {
            return Some((end + at + word.len(), Statement::Far));
        }
        let is_word = word.chars().all(|c| c.is_alphabetic() || c == '\'' || c == '-');
        if !is_word {
            return (words == 0).then_some((end + at, statement));
        }
        at += word.len();
    }
    None
}

/// Length of the word or sign at the start that states a value.
fn states(text: &str) -> Option<usize> {
    let found = STATES.iter().filter(|word| {
        let Some(rest) = text.strip_prefix(**word) else {
            return false;
        };
        let is_word = word
            .chars()
            .all(|c| c.is_alphabetic() && (c.is_ascii() || "éèä".contains(c)));
        !is_word || rest.starts_with(|c: char| c.is_whitespace() || c == ':')
    });
    found.map(|word| word.len()).max()
}

/// Whether a value is a secret, by its form and by how it is stated.
fn is_stated(value: &[u8], name: SecretName, statement: Statement, is_quoted: bool) -> bool {
    let count = |kind: fn(&u8) -> bool| value.iter().filter(|b| kind(b)).count();
    let (digits, letters) = (count(u8::is_ascii_digit), count(u8::is_ascii_alphabetic));
    let signs = count(|b| b"!@#$%^&*+~?=".contains(b));
    let mixed = count(u8::is_ascii_lowercase) > 0 && count(u8::is_ascii_uppercase) > 0;
    if values::is_unlikely(value) || is_mail(value) {
        return false;
    }
    if name != SecretName::Password {
        let is_long = value.len() >= 16 || statement == Statement::Stated;
        return values::is_uuid(value) || is_long && values::is_token(value);
    }
    let is_close = statement != Statement::Far;
    match (letters, digits, signs) {
        // A number: `the PIN is 4711`.
        (0, 4.., 0) => statement == Statement::Stated && value.len() <= 12,
        (1.., 1.., _) | (1.., _, 1..) if value.len() >= 6 && statement == Statement::Stated => {
            signs > 0 || !values::is_identifier(value)
        }
        (3.., 2.., 0) => {
            value.len() >= 8 && !value.iter().any(|b| b"./:".contains(b)) && !values::is_identifier(value)
        }
        (3.., 1.., 1..) => value.len() >= 8 && (is_close || mixed),
        // A word in quotes is one only if it is stated: the password is "swordfish".
        (6.., 0, 0) => is_quoted && statement == Statement::Stated && letters == value.len(),
        _ => false,
    }
}

/// Whether a value is the address of a mailbox.
fn is_mail(value: &[u8]) -> bool {
    let Some(at) = memchr::memchr(b'@', value).filter(|at| *at > 0) else {
        return false;
    };
    let host = &value[at + 1..];
    host.contains(&b'.')
        && host
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(b))
}

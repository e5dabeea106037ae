//! Classifies values: a possible secret, or a word, a name, a type, a template or code.

use super::names::SecretName;
use super::words::WORDS;

/// Shannon entropy in bits per byte.
pub(super) fn entropy(value: &[u8]) -> f32 {
    let mut counts = [0_u32; 256];
    for b in value {
        counts[usize::from(*b)] += 1;
    }
    #[allow(clippy::cast_precision_loss)]
    let total = value.len() as f32;
    let bits = counts.iter().filter(|n| **n > 0).map(|n| {
        #[allow(clippy::cast_precision_loss)]
        let part = *n as f32 / total;
        -part * part.log2()
    });
    bits.sum()
}

/// Whether a value is a template to be filled in, or already redacted.
pub(super) fn is_template(value: &[u8]) -> bool {
    let first = value.first().copied().unwrap_or(b'$');
    // A run of one character, such as `xxxx` or `****`.
    let same = value.iter().all(|b| *b == first);
    // `$NAME`, `${NAME}` and `$(command)`.
    let variable = first == b'$'
        && value
            .get(1)
            .is_some_and(|b| b.is_ascii_alphabetic() || b"{_(".contains(b))
        && value[1..]
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"_{}().:-$".contains(b));
    same || variable
        || is_bracketed(value)
        || value.starts_with(b"%(")
        || value.starts_with(b"%s")
        || value.starts_with(b"%{")
        || first == b'%' && value.last() == Some(&b'%')
        || memchr::memmem::find(value, b"${").is_some()
        || memchr::memmem::find(value, b"{{").is_some()
}

/// Whether a value begins with a bracket that is closed.
fn is_bracketed(value: &[u8]) -> bool {
    let close = match value.first() {
        Some(b'<') => b'>',
        Some(b'{') => b'}',
        Some(b'[') => b']',
        _ => return false,
    };
    memchr::memchr(close, value).is_some()
}

fn lower(value: &[u8]) -> String {
    String::from_utf8_lossy(value).to_ascii_lowercase()
}

/// Whether a value contains a word that stands in place of a secret, or a name in angle brackets.
fn is_standin(value: &[u8]) -> bool {
    let lower = lower(value);
    // `<key>`, `sk-<key>`; a single bracket may belong to a password.
    let angle = lower.find('<').is_some_and(|at| lower[at..].contains('>'));
    angle || WORDS.standins.iter().any(|part| lower.contains(part))
}

fn has(value: &[u8], kind: fn(&u8) -> bool) -> bool {
    value.iter().any(kind)
}

/// Whether a value is a template, a place, a stand-in for a secret, or a word that describes one.
pub(super) fn is_unlikely(value: &[u8]) -> bool {
    let lower = lower(value);
    value.len() < 4
        || is_template(value)
        || is_place(value)
        || is_standin(value)
        || WORDS.placeholders.contains(&lower.as_str())
        || says_what(&lower)
}

/// Whether a value is an identifier: `access-token`, `config.auth.token`, `tokenV2`, `step_12`.
pub(super) fn is_identifier(value: &[u8]) -> bool {
    let parts = value.split(|b| matches!(b, b'_' | b'-' | b'.' | b':' | b'/' | b'@'));
    let mut all = 0;
    let word = |part: &[u8]| {
        let letters = part.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let digits = part.len() - letters;
        part[letters..].iter().all(u8::is_ascii_digit)
            && (digits <= 2 || letters == 0 && digits <= 4)
            && (letters < 2 || is_word(&part[..letters]))
    };
    for part in parts {
        if !word(part) {
            return false;
        }
        all += 1;
    }
    all > 0
}

/// Whether letters look like words: with vowels, and capitals only at the start of words.
fn is_word(letters: &[u8]) -> bool {
    let vowels = letters.iter().filter(|b| b"aeiouyAEIOUY".contains(b)).count();
    let is_turn = |two: &&[u8]| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase();
    let turns = letters.windows(2).filter(is_turn).count();
    letters.len() <= 4 || vowels * 6 >= letters.len() && turns * 4 <= letters.len()
}

pub(super) fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// Whether a value is a path or a URL.
fn is_place(value: &[u8]) -> bool {
    value.starts_with(b"/")
        || value.starts_with(b"./")
        || value.starts_with(b"../")
        || value.starts_with(b"~/")
        || value.starts_with(b"http:")
        || value.starts_with(b"https:")
        || value.starts_with(b"file:")
        || memchr::memmem::find(value, b"://").is_some()
}

/// Whether a value looks like a token on its own.
pub(super) fn is_token(value: &[u8]) -> bool {
    let is_printable = |b: &u8| (b'!'..=b'~').contains(b) && !b"\"'`()<>{}[];,".contains(b);
    let printable = value.iter().all(is_printable);
    if !printable
        || value.len() < 8
        || is_template(value)
        || is_place(value)
        || is_standin(value)
        || is_identifier(value)
    {
        return false;
    }
    let digits = has(value, u8::is_ascii_digit);
    let letters = has(value, u8::is_ascii_alphabetic);
    let mixed = has(value, u8::is_ascii_lowercase) && has(value, u8::is_ascii_uppercase);
    let bits = entropy(value);
    // A short random value cannot have much entropy, so the threshold grows with the length.
    match value.len() {
        _ if !letters => false,
        8..=11 => digits && bits >= 2.5,
        12..=19 => digits && bits >= 2.8,
        _ => digits && bits >= 3.0 || mixed && bits >= 3.8 && !is_identifier(value),
    }
}

/// Spelling of a value. An unquoted one may be an expression, and `next` is the byte after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueForm {
    pub(super) quoted: bool,
    /// `NAME=value` of an environment, or `name: value` on its own line: not code.
    pub(super) plain: bool,
    pub(super) next: Option<u8>,
}

/// Whether the value of a secret name is a secret.
pub(super) fn is_secret(value: &[u8], name: SecretName, spelled: ValueForm) -> bool {
    if value.is_empty() || is_template(value) {
        return false;
    }
    // A call, an index, a block, a generic type, a macro, or an optional.
    let code = !spelled.quoted && matches!(spelled.next, Some(b'(' | b'[' | b'{' | b'<' | b'!' | b'?'));
    if code
        || value.starts_with(b"&")
        || memchr::memmem::find(value, b"::").is_some()
        || memchr::memmem::find(value, b"->").is_some()
    {
        return false;
    }
    match name {
        SecretName::Phrase if has(value, u8::is_ascii_whitespace) => is_phrase(value),
        SecretName::Password | SecretName::Secret | SecretName::Phrase => is_password(value, spelled),
        SecretName::Token | SecretName::Authorization | SecretName::Cookie => is_token(value),
        SecretName::Key => is_key(value),
    }
}

fn is_password(value: &[u8], spelled: ValueForm) -> bool {
    let blank = has(value, u8::is_ascii_whitespace);
    if value.len() < 4 || blank || is_place(value) || is_standin(value) {
        return false;
    }
    let lower = lower(value);
    let is_letter = |b: &u8| b.is_ascii_alphabetic() || b"_-.:/".contains(b);
    let letters = value.iter().all(is_letter);
    if WORDS.placeholders.contains(&lower.as_str())
        || letters && says_what(&lower)
        || value.iter().all(u8::is_ascii_digit) && value.len() < 6
    {
        return false;
    }
    // A name of something or of a type: in code without quotes, or in quotes if it has separators.
    let joined = value.iter().any(|b| b"_-.:/".contains(b));
    match (letters, spelled.quoted) {
        (true, true) => !joined && value.len() >= 6,
        (true, false) => spelled.plain && !joined && value.len() >= 6,
        (false, true) => true,
        (false, false) => spelled.plain || !is_identifier(value) && has(value, u8::is_ascii_digit),
    }
}

/// Whether words are a passphrase and not a sentence.
pub(super) fn is_phrase(value: &[u8]) -> bool {
    /// Minimum number of words.
    const LEAST: usize = 3;
    let parts = || value.split(u8::is_ascii_whitespace);
    let words = || parts().filter(|word| !word.is_empty());
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_!".contains(b);
    let word = |word: &[u8]| word.iter().all(plain);
    words().count() >= LEAST && words().all(word) && !says_what(&lower(value)) && !is_standin(value)
}

/// Whether a value only describes a secret.
fn says_what(lower: &str) -> bool {
    let names = [
        "pass",
        "secret",
        "pwd",
        "token",
        "credential",
        "phrase",
        "mnemonic",
    ];
    names.iter().any(|word| lower.contains(word))
}

/// Whether the value of an unspecific key is a secret.
fn is_key(value: &[u8]) -> bool {
    value.len() >= 20
        && !is_uuid(value)
        && is_token(value)
        && has(value, u8::is_ascii_digit)
        && entropy(value) >= 3.4
        && !value.contains(&b':')
}

/// Whether the string of a JSON member is a secret. Such a string is a value, never code.
pub(super) fn is_secret_member(value: &[u8], name: SecretName) -> bool {
    if value.is_empty() || is_template(value) {
        return false;
    }
    let spelled = ValueForm {
        quoted: true,
        plain: true,
        next: None,
    };
    match name {
        SecretName::Authorization => {
            value.len() >= 6 && !is_standin(value) && !is_identifier(value) || schemed(value).is_some()
        }
        SecretName::Cookie => value.contains(&b'=') || is_token(value),
        SecretName::Password | SecretName::Secret | SecretName::Phrase
            if has(value, u8::is_ascii_whitespace) =>
        {
            value.len() >= 8 && !is_place(value) && !is_standin(value)
        }
        SecretName::Password | SecretName::Secret | SecretName::Phrase => is_password(value, spelled),
        _ => is_secret(value, name, spelled),
    }
}

/// Offset of the credential after a scheme of HTTP authentication.
pub(super) fn schemed(value: &[u8]) -> Option<usize> {
    let begins = |scheme: &&&str| {
        value.len() > scheme.len() && value[..scheme.len()].eq_ignore_ascii_case(scheme.as_bytes())
    };
    WORDS.schemes.iter().find(begins).map(|scheme| scheme.len())
}

/// Whether a path segment is a credential: long, and not a word, a version, a model, or a provider's id.
pub(super) fn is_credential_segment(value: &str) -> bool {
    let bytes = value.as_bytes();
    let cased = has(bytes, u8::is_ascii_lowercase) && has(bytes, u8::is_ascii_uppercase);
    let hex = bytes.len() >= 32 && bytes.iter().all(u8::is_ascii_hexdigit);
    bytes.len() >= 20
        && !is_uuid(bytes)
        && !WORDS.id_beginnings.iter().any(|id| value.starts_with(id))
        && is_token(bytes)
        && has(bytes, u8::is_ascii_digit)
        && (cased || hex || entropy(bytes) >= 3.7)
}

#[cfg(test)]
mod tests {
    use super::is_identifier;

    #[test]
    fn identifiers_are_words_with_short_numbers() {
        for name in ["access-token", "config.auth.token", "tokenV2", "step_12", "2026"] {
            assert!(is_identifier(name.as_bytes()), "{name}");
        }
        for value in ["qwrtzpsdf", "token123", "12345", "to2ken"] {
            assert!(!is_identifier(value.as_bytes()), "{value}");
        }
    }
}

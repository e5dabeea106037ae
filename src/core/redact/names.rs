//! Classifies names by whether their values are secrets. `max_tokens`, `key_id` and `token_url` are not.

use super::words::WORDS;

/// Kind of secret that a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretName {
    /// A password, which may be simple.
    Password,
    /// A secret, which may be simple.
    Secret,
    /// A secret of several words.
    Phrase,
    /// A token, or a key for a specific purpose.
    Token,
    /// An authentication scheme with a credential.
    Authorization,
    /// Cookies: names and values.
    Cookie,
    /// An unspecific key, mostly not a secret.
    Key,
}

impl SecretName {
    /// Kind of a match with such a name.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Password | Self::Phrase => "password",
            Self::Secret => "secret",
            Self::Token => "token",
            Self::Authorization => "credential",
            Self::Cookie => "cookie",
            Self::Key => "key",
        }
    }
}

/// Whether a header's value is a credential.
pub fn is_credential_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    WORDS.credential_headers.contains(&name)
        || (WORDS.header_parts.iter().any(|part| name.contains(part))
            || WORDS.header_beginnings.iter().any(|part| name.starts_with(part))
            || WORDS.header_ends.iter().any(|part| name.ends_with(part)))
            && !WORDS.harmless_headers.iter().any(|part| name.contains(part))
}

/// Whether a member of an object named `headers` is safe to show.
pub(super) fn is_plain_header(name: &str) -> bool {
    WORDS.plain_headers.contains(&name.to_ascii_lowercase().as_str())
}

/// Classifies the name of a JSON member.
pub(super) fn member(name: &str) -> Option<SecretName> {
    // A name in the style of a header, such as `x-NAME-key`, mostly carries a credential.
    let header_key = name.len() > 4 && name.to_ascii_lowercase().ends_with("-key");
    match secret_name(name) {
        Some(SecretName::Token) if name.to_ascii_lowercase().starts_with("authorization") => {
            Some(SecretName::Authorization)
        }
        Some(SecretName::Key) if header_key && !harmless_key(&words(name)) => Some(SecretName::Token),
        other => other,
    }
}

/// Classifies a name in code, environments, files and documents.
pub(super) fn secret_name(name: &str) -> Option<SecretName> {
    let mut words = words(name);
    // Qualifiers and numbers at the end do not change the kind of a name.
    while words.len() > 1
        && words.last().is_some_and(|word| {
            WORDS.qualifiers.contains(&word.as_str()) || word.bytes().all(|b| b.is_ascii_digit())
        })
    {
        words.pop();
    }
    let last = words.last()?;
    let last = last.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let ends = |all: &[&str]| all.iter().any(|end| last.ends_with(end));
    let is = |all: &[&str]| all.contains(&last.as_str());
    let before = words.len().checked_sub(2).map_or("", |i| words[i].as_str());
    if ends(&["password", "passwd", "passwort", "passcode", "pwd", "userpass"])
        || is(&["pass", "pw", "psw", "pgpass"])
    {
        return Some(SecretName::Password);
    }
    if ends(&["passphrase"])
        || is(&["mnemonic"])
        || matches!(before, "seed" | "pass" | "recovery") && last == "phrase"
    {
        return Some(SecretName::Phrase);
    }
    if ends(&["secret"]) || is(&["creds", "credential", "credentials"]) {
        return Some(SecretName::Secret);
    }
    if ends(&["authorization"]) {
        return Some(SecretName::Authorization);
    }
    if is(&["cookie", "cookies"]) {
        return Some(SecretName::Cookie);
    }
    if ends(&WORDS.token_ends) || is(&["auth", "jwt", "bearer"]) || before == "auth" && last == "string" {
        return Some(SecretName::Token);
    }
    if last == "key" || last.ends_with("_key") {
        if harmless_key(&words) {
            return None;
        }
        return Some(if WORDS.secret_keys.contains(&before) {
            SecretName::Token
        } else {
            SecretName::Key
        });
    }
    None
}

fn harmless_key(words: &[String]) -> bool {
    let is_harmless = |word: &String| WORDS.harmless_keys.contains(&word.as_str());
    words.iter().any(is_harmless)
}

/// Splits a name into lower-case words: `dbPassword`, `DB_PASSWORD`, `db-password`, `APIKey`.
fn words(name: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut word = String::new();
    let letters: Vec<char> = name.chars().collect();
    for (i, c) in letters.iter().enumerate() {
        if !c.is_ascii_alphanumeric() {
            out.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            continue;
        }
        let before = i.checked_sub(1).map(|i| letters[i]);
        let after = letters.get(i + 1);
        // A capital begins a word after a lower-case letter or a digit, or before a lower-case letter.
        let starts = c.is_ascii_uppercase()
            && (before.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
                || before.is_some_and(|b| b.is_ascii_uppercase())
                    && after.is_some_and(char::is_ascii_lowercase));
        if starts {
            out.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        word.push(c.to_ascii_lowercase());
    }
    out.extend((!word.is_empty()).then_some(word));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_distinguished_from_names_about_them() {
        for (name, wanted) in [
            ("password", SecretName::Password),
            ("PGPASSWORD", SecretName::Password),
            ("dbPassword", SecretName::Password),
            ("DB_PASS", SecretName::Password),
            ("client_secret", SecretName::Secret),
            ("passphrase", SecretName::Phrase),
            ("SSH_KEY_PASSPHRASE", SecretName::Phrase),
            ("walletMnemonic", SecretName::Phrase),
            ("seed_phrase", SecretName::Phrase),
            ("AWS_SECRET_ACCESS_KEY", SecretName::Token),
            ("apiKey", SecretName::Token),
            ("APIKey", SecretName::Token),
            ("AccountKey", SecretName::Token),
            ("authorization_token", SecretName::Token),
            ("_authToken", SecretName::Token),
            ("Authorization", SecretName::Authorization),
            ("Set-Cookie", SecretName::Cookie),
            ("some_key", SecretName::Key),
            ("API_KEY_PROD", SecretName::Token),
        ] {
            assert_eq!(secret_name(name), Some(wanted), "{name}");
        }
        for name in [
            "max_tokens",
            "input_tokens",
            "total_tokens",
            "token_count",
            "tokenizer",
            "token_type",
            "token_url",
            "prompt_cache_key",
            "key_id",
            "keyboard",
            "monkey_patch",
            "author",
            "authority",
            "secret_name",
            "password_field",
            "public_key",
            "passed",
            "compass",
            "bypass",
            "x-auth-url",
        ] {
            assert_eq!(secret_name(name), None, "{name}");
        }
        assert_eq!(member("ocp-apim-subscription-key"), Some(SecretName::Token));
        assert_eq!(member("x-anything-key"), Some(SecretName::Token));
    }
}

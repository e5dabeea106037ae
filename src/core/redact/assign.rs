//! Assignments of all kinds: environments, YAML, code, nested JSON, queries, connection strings, headers,
//! options.

use super::columns::ColumnScan;
use super::matches::Matches;
use super::names::{SecretName, secret_name};
use super::values::{self, ValueForm, is_secret};
use super::{prose, run};

/// Maximum number of bytes to examine of a name and of a value. A match extends to the value's end.
const NAME: usize = 64;
const VALUE: usize = 512;

/// Maximum distance between a name and its value, in bytes.
const BETWEEN: usize = 24;

/// Maximum number of strings to examine in a list.
const LISTED: usize = 16;

/// State of the scan over names.
#[derive(Default)]
pub(super) struct NameScan {
    /// End of the last name. Further keywords inside it are skipped.
    name: usize,
    /// End of the last secret.
    secret_end: usize,
    columns: ColumnScan,
}

/// A value and its spelling.
struct AssignedValue {
    start: usize,
    end: usize,
    spelled: ValueForm,
    /// Whether the value is an element of a list.
    listed: bool,
}

impl NameScan {
    /// Processes a keyword that is part of a name.
    pub(super) fn at(&mut self, at: usize, found: &mut Matches<'_>) {
        if at < self.name || at < self.secret_end {
            return;
        }
        let text = found.text();
        let bytes = text.as_bytes();
        let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let before = bytes[..at].iter().rev().take(NAME);
        let before = before.take_while(|b| is_name(**b)).count();
        let after = run(&bytes[at..bytes.len().min(at + NAME)], is_name);
        super::worked(before + after);
        let (start, end) = (at - before, at + after);
        let end = end + second_word(&bytes[start..], end - start);
        self.name = end;
        // Words of prose and names without a value are rejected here, since they are most.
        let is_assigned = may_be_assigned(bytes, start, end);
        let is_word = is_assigned || matches!(bytes.get(end), Some(b' ' | 0x80..));
        let may_be_value = matches!(bytes.get(end), Some(b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'\\'));
        if !is_word && !may_be_value {
            return;
        }
        let Some(secret_name) = secret_name(&text[start..end]) else {
            return;
        };
        self.columns.at(&(start..end), found);
        let operator = operator(bytes, start, end, secret_name).filter(|_| is_assigned);
        let pair = || paired(bytes, end);
        let Some((name, from)) = operator.map(|from| (start, from)).or_else(pair) else {
            if let Some((name, start)) = spoken(text, start, end, secret_name).filter(|_| is_word) {
                prose::at(start, end, name, found);
            }
            return;
        };
        // These values have blanks and several parts, so an ordinary value would end too early.
        if matches!(secret_name, SecretName::Authorization | SecretName::Cookie)
            && self.header(from, secret_name, found)
        {
            return;
        }
        let mut next = value(bytes, name, from);
        for _ in 0..LISTED {
            let Some(value) = next else { return };
            super::worked(value.end - value.start);
            self.value(from, secret_name, &value, found);
            let after = value.listed.then(|| after_comma(bytes, value.end));
            next = after.flatten().and_then(|at| self::value(bytes, start, at));
            next = next.map(|next| AssignedValue { listed: true, ..next });
        }
    }

    /// Processes a value after an operator that ends at `from`.
    fn value(
        &mut self,
        from: usize,
        secret_name: SecretName,
        value: &AssignedValue,
        found: &mut Matches<'_>,
    ) {
        let bytes = found.text().as_bytes();
        let inside = &bytes[value.start..value.end];
        let simple = matches!(
            secret_name,
            SecretName::Password | SecretName::Secret | SecretName::Phrase
        );
        let yaml = simple && !value.spelled.quoted && value.spelled.plain && bytes[from - 1] == b':';
        let words = if yaml {
            words_end(bytes, value.start)
        } else {
            value.end
        };
        let judged = match values::schemed(inside) {
            Some(at) => values::is_token(&inside[at..]).then_some(at),
            None => {
                let phrase =
                    secret_name == SecretName::Phrase && values::is_phrase(&bytes[value.start..words]);
                (phrase || is_secret(inside, secret_name, value.spelled)).then_some(0)
            }
        };
        if let Some(at) = judged {
            let to = whole(bytes, value).max(words);
            found.push(value.start + at..to, secret_name.kind());
            self.secret_end = to;
        }
    }

    /// Processes a header, whose value is the rest of the line or of the string literal.
    fn header(&mut self, from: usize, secret_name: SecretName, found: &mut Matches<'_>) -> bool {
        let bytes = found.text().as_bytes();
        let quoted = |b: &&u8| matches!(b, b' ' | b'\t' | b'"' | b'\'' | b'\\');
        let from = from + bytes[from..].iter().take(4).take_while(quoted).count();
        let ends = |b: &u8| matches!(b, b'\n' | b'\r' | b'"' | b'\'' | b'`');
        let rest = &bytes[from..bytes.len().min(from + VALUE)];
        let len = rest.iter().position(ends).unwrap_or(rest.len());
        super::worked(len);
        let mut line = &rest[..len];
        // The value ends before separators, and before the backslash of an escaped quote.
        while let [inside @ .., b'\\' | b' ' | b',' | b';'] = line {
            line = inside;
        }
        let secret = match secret_name {
            SecretName::Cookie => pairs(line),
            _ => values::schemed(line).filter(|at| {
                let value = &line[*at..];
                value.len() >= 6
                    && !values::is_template(value)
                    && !line.contains(&b'(')
                    && (super::context::is_basic(value)
                        || value.iter().any(u8::is_ascii_digit)
                        || value.len() >= 20)
                    && value.iter().take_while(|b| !b.is_ascii_whitespace()).count() >= 6
            }),
        };
        let Some(at) = secret else { return false };
        let to = from + line.len();
        found.push(from + at..to, secret_name.kind());
        self.secret_end = to;
        true
    }
}

/// A name as a word of a sentence: `password`, or the last word of `api key`.
fn spoken(text: &str, start: usize, end: usize, secret_name: SecretName) -> Option<(SecretName, usize)> {
    let name = &text[start..end];
    match secret_name {
        // The end of a sentence, and a verb: "the tests pass".
        _ if name.ends_with('.') => None,
        SecretName::Password if name.eq_ignore_ascii_case("pass") => None,
        SecretName::Password | SecretName::Phrase => Some((secret_name, start)),
        SecretName::Token => Some((SecretName::Key, start)),
        SecretName::Key | SecretName::Secret => {
            let before = text[..start].strip_suffix(' ')?;
            let letters = before
                .bytes()
                .rev()
                .take(NAME)
                .take_while(u8::is_ascii_alphabetic)
                .count();
            let start = before.len() - letters;
            let joined = text[start..end].replace(' ', "_");
            let is_token = super::names::secret_name(&joined) == Some(SecretName::Token);
            (is_token || secret_name == SecretName::Secret).then_some((SecretName::Key, start))
        }
        _ => None,
    }
}

/// Offset 0, because the whole line is redacted, if one of a line's cookies has a value that may be a secret.
fn pairs(line: &[u8]) -> Option<usize> {
    let pair = |part: &[u8]| {
        let at = memchr::memchr(b'=', part)?;
        let value = &part[at + 1..];
        let name = part[..at].trim_ascii();
        let plain = !name.is_empty()
            && name
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(b));
        (plain
            && value.len() >= 6
            && value.iter().any(u8::is_ascii_digit)
            && !values::is_template(value)
            && !value.contains(&b'('))
        .then_some(())
    };
    line.split(|b| *b == b';').find_map(pair).map(|()| 0)
}

/// Whether an assignment operator may follow a name. Most names are words of prose, and are rejected here.
fn may_be_assigned(bytes: &[u8], start: usize, end: usize) -> bool {
    let rest = &bytes[end..bytes.len().min(end + BETWEEN)];
    let next = rest.iter().position(|b| !b"\\\"'`]) \t*".contains(b));
    match next.map(|at| (at, rest[at])) {
        None => false,
        Some((_, b'=' | b':' | b'|' | b'>' | b',')) => true,
        // Options, and `password value`.
        Some((at, _)) => {
            at > 0 && (bytes[start] == b'-' || bytes[start..end].to_ascii_lowercase().starts_with(b"pass"))
        }
    }
}

/// Finds the start of the value assigned to a name.
fn operator(bytes: &[u8], start: usize, end: usize, secret_name: SecretName) -> Option<usize> {
    let rest = &bytes[end..bytes.len().min(end + BETWEEN)];
    let mut at = 0;
    // The name's own quotes and brackets, escaped or not: "name": , ['name'] = , \"name\":
    while let Some(b'\\' | b'"' | b'\'' | b'`' | b']' | b')' | b'*') = rest.get(at) {
        at += 1;
    }
    let quoted = rest[..at].iter().any(|b| *b != b'*');
    let blank = |mut at: usize| {
        while let Some(b' ' | b'\t') = rest.get(at) {
            at += 1;
        }
        at
    };
    let sign = blank(at);
    let two = rest.get(sign..sign + 2).unwrap_or_default();
    let to = match rest.get(sign)? {
        // A comparison assigns nothing.
        b'=' if two == b"==" => return None,
        // PHP: 'password' => 'value'
        b'=' if two == b"=>" => sign + 2,
        b':' if two == b":=" => sign + 2,
        b':' if two == b"::" => return None,
        b'=' | b':' => sign + 1,
        b'|' if two == b"||" => sign + 2,
        b'|' if begins_row(bytes, start) => sign + 1,
        // XML: <password>value</password>
        b'>' if at == sign => sign + 1,
        // setenv("NAME", "value"), {"name": "NAME", "value": "value"}
        b',' if quoted => {
            let rest = &rest[sign + 1..];
            let value = memchr::memmem::find(rest, b"value");
            let colon = value.and_then(|at| Some(at + memchr::memchr(b':', &rest[at..])?));
            sign + 1 + colon.map_or(0, |at| at + 1)
        }
        // `--password value`, `password 'value'`, `login name password value`
        _ if sign > at => {
            let option =
                start >= 1 && bytes[start] == b'-' || start >= 2 && &bytes[start - 2..start] == b"--";
            let netrc = secret_name == SecretName::Password && {
                let before = &bytes[start.saturating_sub(BETWEEN * 4)..start];
                super::worked(before.len());
                memchr::memmem::find(before, b"login ").is_some()
                    || memchr::memmem::find(before, b"machine ").is_some()
            };
            let sql = secret_name == SecretName::Password && rest.get(sign) == Some(&b'\'');
            (option || netrc || sql).then_some(sign)?
        }
        _ => return None,
    };
    Some(end + to)
}

/// Whether a name is the first cell of a row: `| password | value |`, or `password | value` of `psql`.
fn begins_row(bytes: &[u8], name: usize) -> bool {
    let before = bytes[..name].iter().rev().take(BETWEEN);
    let mut before = before.skip_while(|b| b" \t*`".contains(b));
    match before.next() {
        Some(b'|') => {
            let mut line = before.skip_while(|b| b" \t".contains(b));
            line.next().is_none_or(|b| matches!(b, b'\n' | b'\r'))
        }
        first => first.is_none_or(|b| matches!(b, b'\n' | b'\r')),
    }
}

/// Finds the value of a name that is a value itself: `name: NAME` before `value: VALUE`, `key="NAME" value="VALUE"`, and
/// `variable "NAME" { default = "VALUE" }`.
///
/// Returns the start of the value's own name and the end of its operator.
fn paired(bytes: &[u8], end: usize) -> Option<(usize, usize)> {
    /// Maximum distance of the operator, in bytes.
    const MAX_PAIR_BYTES: usize = 200;
    let rest = &bytes[end..bytes.len().min(end + MAX_PAIR_BYTES)];
    let is_between = |at: usize| match rest[at] {
        b'n' | b'r' | b't' => at > 0 && rest[at - 1] == b'\\',
        b => b.is_ascii_whitespace() || b"\\\"'`,".contains(&b),
    };
    let gap = (0..rest.len()).find(|at| !is_between(*at))?;
    super::worked(gap);
    let (word, at) = match rest[gap] {
        b'{' => {
            let block = &rest[gap..];
            let block = &block[..memchr::memchr(b'}', block).unwrap_or(block.len())];
            super::worked(block.len());
            ("default", gap + memchr::memmem::find(block, b"default")?)
        }
        _ => ("value", gap),
    };
    let after = rest[at..].strip_prefix(word.as_bytes())?;
    let signs = run(after, |b| b"\\\"' \t".contains(&b));
    let is_stated = gap > 0 && matches!(after.get(signs), Some(b':' | b'='));
    is_stated.then_some((end + at, end + at + word.len() + signs + 1))
}

/// Examines the value after an operator.
fn value(bytes: &[u8], name: usize, from: usize) -> Option<AssignedValue> {
    let rest = &bytes[from..bytes.len().min(from + BETWEEN)];
    // The end of emphasis in Markdown: `**Password:** value`.
    let emphasis = run(rest, |b| matches!(b, b'*' | b'_'));
    let emphasis = if rest.get(emphasis) == Some(&b' ') {
        emphasis
    } else {
        0
    };
    let blanks = emphasis + run(&rest[emphasis..], |b| matches!(b, b' ' | b'\t'));
    // A type before the value, as in `token: &str = "…"`.
    let typed = run(&rest[blanks..], |b| {
        b.is_ascii_alphanumeric() || b"&'<>_ ?|".contains(&b)
    });
    let mut at = blanks;
    if bytes[from - 1] == b':' && typed > 0 && rest.get(blanks + typed) == Some(&b'=') {
        at = blanks + typed + 1;
        at += run(&rest[at..], |b| b == b' ');
    }
    // A YAML block.
    if let Some(b'|' | b'>') = rest.get(at) {
        at += 1;
        at += run(&rest[at..], |b| matches!(b, b'-' | b'+' | b' ' | b'\n' | b'\r'));
    }
    // Prefixes of literals: f"", b"", r#"", @"".
    if let [b'f' | b'b' | b'r' | b'u' | b'@', b'"' | b'\'', ..] = rest.get(at..).unwrap_or_default() {
        at += 1;
    }
    let listed = in_list(rest, at);
    let start = from + listed.unwrap_or(at);
    let first = bytes.get(start..)?.iter().take(4);
    let escapes = first.take_while(|b| **b == b'\\').count();
    let quote = bytes.get(start + escapes).copied();
    let quoted = matches!(quote, Some(b'"' | b'\'' | b'`'));
    let start = if quoted { start + escapes + 1 } else { start };
    let window = &bytes[start..bytes.len().min(start + VALUE)];
    let stops = |b: &u8| match quoted {
        true => Some(*b) == quote || matches!(b, b'\n' | b'\r'),
        false => b.is_ascii_whitespace() || b"\"'`,;&()<>|\\[]{}".contains(b),
    };
    let len = window.iter().position(stops).unwrap_or(window.len());
    let mut end = start + len;
    while quoted && end > start && bytes[end - 1] == b'\\' {
        end -= 1;
    }
    let markup = bytes[from - 1] == b'>';
    let spelled = ValueForm {
        quoted,
        plain: markup || is_plain(bytes, name, from, start + len),
        next: bytes.get(start + len).copied().filter(|_| !markup),
    };
    Some(AssignedValue {
        start,
        end,
        spelled,
        listed: listed.is_some(),
    })
}

/// Offset of the first string, if a list of strings begins at `at`.
fn in_list(rest: &[u8], at: usize) -> Option<usize> {
    let inside = rest.get(at..)?.strip_prefix(b"[")?;
    let blanks = run(inside, |b| b.is_ascii_whitespace());
    let quote = inside[blanks..].iter().find(|b| **b != b'\\');
    matches!(quote, Some(b'"' | b'\'' | b'`')).then_some(at + 1 + blanks)
}

/// Offset of the next string of a list, after the one that ends at `end`.
fn after_comma(bytes: &[u8], end: usize) -> Option<usize> {
    let rest = &bytes[end..bytes.len().min(end + BETWEEN)];
    let quotes = rest.iter().take_while(|b| b"\\\"'`".contains(b)).count();
    let comma = rest.get(quotes..)?.strip_prefix(b",")?;
    let blanks = run(comma, |b| b.is_ascii_whitespace());
    let quote = comma[blanks..].iter().find(|b| **b != b'\\');
    matches!(quote, Some(b'"' | b'\'' | b'`')).then_some(end + quotes + 1 + blanks)
}

/// Length of ` phrase` after `seed`, which forms a name of two words.
fn second_word(bytes: &[u8], name: usize) -> usize {
    const WORD: &[u8] = b" phrase";
    let seed = bytes[..name].eq_ignore_ascii_case(b"seed");
    let second = bytes.get(name..name + WORD.len());
    match second {
        Some(word) if seed && word.eq_ignore_ascii_case(WORD) => WORD.len(),
        _ => 0,
    }
}

/// End of the words from `start` on: the end of the line, a comment, or the next name.
fn words_end(bytes: &[u8], start: usize) -> usize {
    let window = &bytes[start..bytes.len().min(start + VALUE)];
    let stops = |b: &u8| b"\"'`,;&()<>|\\[]{}\r\n".contains(b);
    let len = window.iter().position(stops).unwrap_or(window.len());
    super::worked(len);
    let mut end = start;
    for word in window[..len].split_inclusive(u8::is_ascii_whitespace) {
        let bare = word.trim_ascii();
        if bare.starts_with(b"#") || end > start && bare.iter().any(|b| matches!(b, b':' | b'=')) {
            break;
        }
        end += word.len();
    }
    let blanks = bytes[start..end].iter().rev();
    end - blanks.take_while(|b| b.is_ascii_whitespace()).count()
}

/// Whether this is `NAME=value`, or `name: value` on a line of its own.
fn is_plain(bytes: &[u8], name: usize, from: usize, end: usize) -> bool {
    let environment = bytes[from - 1] == b'=' && bytes.get(from).is_some_and(|b| !b.is_ascii_whitespace());
    let before = bytes[..name].iter().rev().take(BETWEEN);
    let mut before = before.skip_while(|b| matches!(b, b' ' | b'\t' | b'-'));
    // Line ends may be escaped, and the text may be a literal.
    let begins = match before.next() {
        Some(b'n') => before.next() == Some(&b'\\'),
        first => matches!(first, None | Some(b'\n' | b'\r' | b'"')),
    };
    let ends = matches!(bytes.get(end), None | Some(b'\n' | b'\r' | b' ' | b'\\' | b'"'));
    let option = name >= 2 && bytes.get(name..name + 2) == Some(b"--");
    environment || option || begins && ends && bytes[from - 1] == b':'
}

/// End of a value that was truncated for examination.
fn whole(bytes: &[u8], value: &AssignedValue) -> usize {
    if value.end < value.start + VALUE {
        return value.end;
    }
    let more = run(&bytes[value.end..], |b| {
        b.is_ascii_alphanumeric() || b"-_.+/=%:~".contains(&b) || !b.is_ascii()
    });
    super::worked(more);
    value.end + more
}

#[cfg(test)]
mod tests {
    use super::{SecretName, operator};

    #[test]
    fn a_value_begins_behind_the_whole_operator() {
        for (line, at) in [
            ("secret = x", Some(8)),
            ("secret => x", Some(9)),
            ("secret := x", Some(9)),
            ("secret == x", None),
            ("secret::x", None),
        ] {
            assert_eq!(operator(line.as_bytes(), 0, 6, SecretName::Secret), at, "{line}");
        }
    }
}

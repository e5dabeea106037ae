//! Estimates the number of tokens in a string.
//!
//! The estimate is within a few per cent of OpenAI's `o200k_base` for English, code, logs and JSON.
//! `docs/dev/decisions.md` has the figures. Users see such a number marked as an estimate.

use crate::text::cut::floor;

/// One token. Costs are hundredths of a token, so that sums of integers stay exact.
const ONE: usize = 100;

/// Estimates the tokens of a string, rounded up.
pub fn tokens(text: &str) -> usize {
    let mut sum = 0;
    let mut run = CharRun::default();
    let mut word = CharWord::default();
    for c in text.chars() {
        let kind = CharKind::from_char(c);
        if kind != run.kind || kind == CharKind::Letter && c.is_ascii_uppercase() && run.lower {
            word.add(&run);
            if !(run.kind.is_of_word() && kind.is_of_word()) {
                sum += word.end();
            }
            run = CharRun::new(kind);
        }
        run.len += 1;
        run.lower = c.is_lowercase();
        run.breaks |= c == '\n';
    }
    word.add(&run);
    (sum + word.end()).div_ceil(ONE)
}

/// The beginning of a string with at most `most` tokens, cut between lines or words if such a place is near.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    /// Assumed maximum number of bytes per token. Anything beyond is cut unexamined, to bound the work.
    const MAX_BYTES: usize = 8;
    let mut end = floor(text, most.saturating_mul(MAX_BYTES).min(text.len()));
    while tokens(&text[..end]) > most {
        end = floor(text, end * 9 / 10);
    }
    if end == text.len() {
        return text;
    }
    trimmed_end(text, end)
}

/// The string up to the last line break in the second half before `end`, or else up to the last blank in the last
/// fifth, or else up to `end`.
fn trimmed_end(text: &str, end: usize) -> &str {
    let near = text[..end].rfind('\n').filter(|at| at * 2 > end);
    let near = near.or_else(|| text[..end].rfind(' ').filter(|at| at * 10 > end * 8));
    text[..near.unwrap_or(end)].trim_end()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum CharKind {
    #[default]
    Blank,
    Letter,
    Digit,
    Sign,
    Wide,
}

impl CharKind {
    fn from_char(c: char) -> Self {
        match c {
            ' ' | '\n' | '\t' | '\r' => Self::Blank,
            // Letters of European languages, with and without accents.
            'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' => Self::Letter,
            '0'..='9' => Self::Digit,
            '\0'..='\u{7f}' => Self::Sign,
            _ => Self::Wide,
        }
    }

    fn is_of_word(self) -> bool {
        matches!(self, Self::Letter | Self::Digit)
    }
}

/// Adjacent runs of letters and digits, or a single run of another kind.
#[derive(Default)]
struct CharWord {
    len: usize,
    runs: usize,
    cost: usize,
}

impl CharWord {
    fn add(&mut self, run: &CharRun) {
        self.len += run.len;
        self.runs += 1;
        self.cost += run.cost();
    }

    /// Ends the word, and returns its cost.
    ///
    /// A long word that often changes between digits, lower and upper case is a key, a hash or base64. Vocabularies
    /// have only pairs of such characters.
    fn end(&mut self) -> usize {
        let Self { len, runs, cost } = std::mem::take(self);
        match len >= 16 && runs * 4 >= len {
            true => cost.max(len * ONE * 3 / 5),
            false => cost,
        }
    }
}

/// A run of characters of one kind.
#[derive(Default)]
struct CharRun {
    kind: CharKind,
    len: usize,
    /// Whether the last character is a lower-case letter. An upper-case one then begins the next run.
    lower: bool,
    /// Whether the run contains a line break.
    breaks: bool,
}

impl CharRun {
    fn new(kind: CharKind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    fn cost(&self) -> usize {
        let len = self.len;
        match self.kind {
            _ if len == 0 => 0,
            // Tokens of words include the single blank before them.
            CharKind::Blank if !self.breaks && len == 1 => 0,
            CharKind::Blank => ONE * 4 / 5,
            CharKind::Letter if len <= 7 => ONE,
            CharKind::Letter if len <= 24 => ONE + (len - 7) * ONE / 6,
            // Words of a language are shorter, so this is data with more tokens per letter.
            CharKind::Letter => ONE * 4 + (len - 24) * ONE / 3,
            CharKind::Digit => len.div_ceil(3) * ONE,
            CharKind::Sign => ONE / 2 + len.div_ceil(2) * ONE * 9 / 20,
            CharKind::Wide => len * ONE * 4 / 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_at_most_the_given_tokens_and_no_half_character() {
        let text = "Grüße an alle, die dies lesen: ".repeat(50);
        for most in [0, 1, 5, 40, 10_000] {
            let cut = beginning(&text, most);
            assert!(tokens(cut) <= most && text.starts_with(cut), "{most}");
        }
        assert_eq!(beginning("short", 5), "short");
        assert_eq!(tokens(""), 0);
    }

    /// Counted with `o200k_base`.
    #[test]
    fn estimates_are_near_what_a_tokenizer_counts() {
        let near = |samples: &[(&str, usize)], most| {
            for (text, counted) in samples {
                let all = tokens(text);
                let off = all.abs_diff(*counted) * 100 / counted;
                assert!(off <= most, "{all} for {counted}: {text}");
            }
        };
        near(&SAMPLES, 20);
        near(&HARD, 30);
    }

    /// Here an estimate by bytes is far off.
    const HARD: [(&str, usize); 6] = [
        (
            "这个导入器只读取每个文件一次，并保存偏移量的索引，所以第二次运行只查看第一次完成之后改变的内容。",
            31,
        ),
        (
            "TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24sIGJ1dCBieSB0aGlzIHNpbmd1bGFyIHBhc3Npb24gZnJvbSBvdGhlciBhbmltYWxz\n",
            78,
        ),
        (
            "AbstractTransactionAwareConnectionFactoryConfigurationProvider::resolveEffectiveIsolationLevelForReadOnlyReplica(ctx);\n",
            18,
        ),
        (
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 01a20571-5666-7313-a73f-791168f114da\n",
            67,
        ),
        (
            "    if let Some(frame) = self.frames.get_mut(&stream_id).filter(|f| !f.is_done()) { frame.push(bytes)?; }\n",
            31,
        ),
        (
            "インポーターは各ファイルを一度だけ読み取り、オフセットの索引を保持します。\n",
            25,
        ),
    ];

    const SAMPLES: [(&str, usize); 5] = [
        (
            "The importer reads every file once and keeps an index of offsets, so that a second run only looks at what \
             changed since the first one was finished.",
            30,
        ),
        (
            "pub fn tokens(text: &str) -> usize {\n    let mut sum = 0;\n    for c in text.chars() {\n        sum += cost(c, \
             sum_of_previous);\n    }\n    sum.div_ceil(ONE)\n}\n",
            49,
        ),
        (
            "2026-11-02T10:15:42.120Z ERROR worker-3 request failed: status=503 path=/v1/messages latency_ms=1250 retries=2\n\
             2026-11-02T10:15:43.007Z INFO worker-1 request served: status=200 path=/v1/models latency_ms=12 retries=0\n",
            77,
        ),
        (
            "{\"type\":\"tool_use\",\"id\":\"toolu_01AbCdEf\",\"name\":\"Bash\",\"input\":{\"command\":\"cargo test --workspace\",\
             \"timeout\":60000},\"cache_control\":null}",
            40,
        ),
        (
            "Die Größe der Übertragung überschreitet die zulässige Menge; bitte prüfen Sie die Einstellungen und versuchen \
             Sie es später erneut.",
            26,
        ),
    ];
}

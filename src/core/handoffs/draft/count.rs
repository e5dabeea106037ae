//! How the tokens of a budget are counted: with the model's own vocabulary where that is public, else by an estimate.

use std::fmt;

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

use super::tokens::{self, trimmed_end};
use crate::text::cut::floor;

/// A text is counted in pieces of this many bytes: the vocabulary's pattern overflows its stack on a megabyte of blanks.
const PIECE: usize = 64 << 10;

/// Bound on an estimate's error: a text estimated larger by this factor does not fit and is not counted.
const SURELY: usize = 4;

/// The counter of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenCounter {
    /// Tokens are estimated: the model's vocabulary is not public, or not known.
    #[default]
    Estimated,
    /// `o200k_base`, the vocabulary of OpenAI's models since GPT-4o. It is built at its first use: about 0.1 s and 46
    /// MB.
    O200k,
}

impl TokenCounter {
    /// The count for a model of this name. Of names such as `openai/gpt-5` the last part is the model's.
    pub fn of_model(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        match get_tokenizer(name) {
            Some(Tokenizer::O200kBase | Tokenizer::O200kHarmony) => Self::O200k,
            _ => Self::Estimated,
        }
    }

    /// Whether its numbers are what the model's provider counts.
    pub fn is_exact(self) -> bool {
        self == Self::O200k
    }

    pub fn tokens(self, text: &str) -> usize {
        match self {
            Self::Estimated => tokens::tokens(text),
            Self::O200k => {
                let vocabulary = tiktoken_rs::o200k_base_singleton();
                pieces(text).map(|piece| vocabulary.count_ordinary(piece)).sum()
            }
        }
    }

    /// A number of tokens as shown: an estimate is marked.
    pub fn shown(self, tokens: usize) -> impl fmt::Display {
        let mark = if self.is_exact() { "" } else { "≈ " };
        format!("{mark}{tokens}")
    }

    /// Whether a text has more tokens than `most` for sure, without counting them.
    pub(super) fn surely_exceeds(self, most: usize, text: &str) -> bool {
        self.is_exact() && tokens::tokens(text) > most.saturating_mul(SURELY)
    }

    /// The beginning of a text that has at most this many tokens, cut between lines or words where one is near.
    pub(super) fn beginning(self, text: &str, most: usize) -> &str {
        let begins = tokens::beginning(text, most);
        if !self.is_exact() || begins.len() <= most {
            return begins;
        }
        let counted = self.tokens(begins);
        if counted <= most {
            return begins;
        }
        // The rest is about as dense as what was counted; each step is shorter by a tenth at least.
        let mut end = floor(begins, begins.len() * most / counted);
        while end > 0 && self.tokens(&begins[..end]) > most {
            end = floor(begins, end * 9 / 10);
        }
        trimmed_end(text, end)
    }
}

/// A text in pieces, cut after a line where one ends near.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = match floor(rest, PIECE) {
            all if all == rest.len() => all,
            end => whole_lines(rest, end),
        };
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        Some(piece)
    })
}

fn whole_lines(text: &str, end: usize) -> usize {
    let near = floor(text, end / 8 * 7);
    text[near..end].rfind('\n').map_or(end, |at| near + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openai_models_since_4o_are_counted_and_all_others_estimated() {
        for model in [
            "gpt-5",
            "gpt-5.2-codex",
            "gpt-4o-mini",
            "o3",
            "openai/gpt-5",
            "gpt-oss-120b",
        ] {
            assert_eq!(TokenCounter::of_model(model), TokenCounter::O200k, "{model}");
        }
        for model in [
            "claude-opus-5-5",
            "gemini-3-pro",
            "gpt-4",
            "qwen3:8b",
            "my-deployment",
            "gpt-6",
            "",
        ] {
            assert_eq!(TokenCounter::of_model(model), TokenCounter::Estimated, "{model}");
        }
        assert_eq!(TokenCounter::O200k.shown(12).to_string(), "12");
        assert_eq!(TokenCounter::Estimated.shown(12).to_string(), "≈ 12");
    }

    #[test]
    fn a_text_is_counted_as_openais_own_tokenizer_counts_it() {
        // Ids of a reference run of `tiktoken`.
        assert_eq!(TokenCounter::O200k.tokens("hello world"), 2);
        assert_eq!(TokenCounter::O200k.tokens("abc\n\ndef"), 3);
        assert_eq!(TokenCounter::O200k.tokens(""), 0);
    }

    /// A vocabulary's pattern gives up on long runs of blanks, and its merging takes more than linear time on a long
    /// word.
    #[test]
    fn hostile_texts_are_counted_in_pieces() {
        for text in [" ", "a", "\n", " \n", "=", "中"] {
            let long = text.repeat(100_000 / text.len());
            let short = text.repeat(10_000 / text.len());
            let (ten, one) = (
                TokenCounter::O200k.tokens(&long),
                TokenCounter::O200k.tokens(&short),
            );
            assert!(
                ten.abs_diff(one * 10) <= ten / 20 + 40,
                "{text:?}: {one}, then {ten}"
            );
            assert!(pieces(&long).all(|piece| piece.len() <= PIECE));
            assert_eq!(pieces(&long).map(str::len).sum::<usize>(), long.len());
        }
    }

    #[test]
    fn a_beginning_is_as_long_as_its_count_allows() {
        for text in HARD.map(|text| text.repeat(40)) {
            for most in [1, 40, 600] {
                let begins = TokenCounter::O200k.beginning(&text, most);
                assert!(text.starts_with(begins), "{begins}");
                assert!(TokenCounter::O200k.tokens(begins) <= most, "{most}: {begins}");
            }
            assert!(
                TokenCounter::O200k.tokens(TokenCounter::O200k.beginning(&text, 600)) > 400,
                "{text}"
            );
        }
    }

    /// Where an estimate by bytes is far off, this one is near.
    #[test]
    fn the_estimate_is_near_on_chinese_base64_identifiers_and_hashes() {
        for text in HARD.map(|text| text.repeat(4)) {
            let (counted, shown_tokens) = (
                TokenCounter::O200k.tokens(&text),
                TokenCounter::Estimated.tokens(&text),
            );
            let off = shown_tokens.abs_diff(counted) * 100 / counted;
            assert!(off <= 30, "{shown_tokens} for {counted}: {text}");
        }
    }

    const HARD: [&str; 6] = [
        "这个导入器只读取每个文件一次，并保存偏移量的索引，所以第二次运行只查看第一次完成之后改变的内容。",
        "TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24sIGJ1dCBieSB0aGlzIHNpbmd1bGFyIHBhc3Npb24gZnJvbSBvdGhlciBhbmltYWxz\n",
        "AbstractTransactionAwareConnectionFactoryConfigurationProvider::resolveEffectiveIsolationLevelForReadOnlyReplica(ctx);\n",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 01a20571-5666-7313-a73f-791168f114da\n",
        "    if let Some(frame) = self.frames.get_mut(&stream_id).filter(|f| !f.is_done()) { frame.push(bytes)?; }\n",
        "インポーターは各ファイルを一度だけ読み取り、オフセットの索引を保持します。\n",
    ];
}

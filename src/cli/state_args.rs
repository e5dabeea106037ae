//! Shared arguments: options that locate the state, list formats, and value parsers.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args as ClapArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::shells::ShellSyntax;
use baton_core::text::date::PeriodStart;

/// Help of `--config`, with the location that [`super::config_file`] uses.
pub(super) const CONFIG_HELP: &str = if cfg!(target_os = "macos") {
    "Read the config from this TOML file [default: ~/Library/Application Support/baton/baton.toml, else the built-in defaults] [env: \
     BATON_CONFIG]"
} else {
    "Read the config from this TOML file [default: ~/.config/baton/baton.toml, else the built-in defaults] [env: BATON_CONFIG]"
};

/// Output format of a list for programs.
#[derive(Debug, Clone, Copy, Default, ClapArgs)]
#[group(multiple = false)]
pub(super) struct ListFormat {
    /// Print one JSON array (with --follow, one object per line, because an array would never end)
    #[arg(long)]
    pub(super) json: bool,
    /// Print JSON Lines: one object per line
    #[arg(long)]
    pub(super) jsonl: bool,
}

impl ListFormat {
    /// Whether a program reads the output.
    pub(super) fn is_for_programs(self) -> bool {
        self.json || self.jsonl
    }
}

/// Options that locate the state. They select the same config as the proxy's.
#[derive(Debug, ClapArgs)]
pub(super) struct StateArgs {
    #[arg(long, value_name = "FILE", help = CONFIG_HELP)]
    pub(super) config: Option<PathBuf>,
    /// Use the store in this directory [state.dir]
    #[arg(long, value_name = "DIR")]
    pub(super) state_dir: Option<String>,
}

impl StateArgs {
    /// The given options as words, so that another command uses the same state.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let config = self.config.as_ref().map(|file| file.display().to_string());
        let given = [("--config", config), ("--state-dir", self.state_dir.clone())];
        let given = given.into_iter();
        given
            .filter_map(|(name, value)| Some([name.to_owned(), value?]))
            .flatten()
    }

    /// The words as a part of a shell line, each after a space.
    pub(super) fn options(&self) -> String {
        let words = self.words();
        words
            .map(|word| format!(" {}", ShellSyntax::Sh.quoted(&word)))
            .collect()
    }
}

/// Parses a whole number. The standard library's error mentions digits, which confuses users.
pub(super) fn number<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "not a number from 0")
}

/// Creates a parser that accepts the names of `all`.
pub(super) fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let of = move |given: String| all.into_iter().find(|one| name(*one) == given);
    // The error never occurs, because clap only passes possible values on.
    PossibleValuesParser::new(all.map(name)).try_map(move |given| of(given).ok_or("unknown"))
}

/// Parses the start of a period.
pub(super) fn period_start(text: &str) -> Result<PeriodStart, String> {
    PeriodStart::parse(text).ok_or_else(|| format!("write {}", PeriodStart::SPELLINGS))
}

/// Parses the number of a leg, which counts from 1.
pub(super) fn leg(text: &str) -> Result<u32, &'static str> {
    match number(text)? {
        0 => Err("legs count from 1"),
        leg => Ok(leg),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_command_is_given_the_same_state() {
        let options = |config: Option<&str>, state_dir: Option<&str>| {
            let (config, state_dir) = (config.map(PathBuf::from), state_dir.map(str::to_owned));
            StateArgs { config, state_dir }.options()
        };
        assert_eq!(options(None, None), "");
        assert_eq!(
            options(Some("/etc/baton.toml"), Some("my state")),
            " --config /etc/baton.toml --state-dir 'my state'"
        );
    }

    #[test]
    fn a_wrong_number_is_named_as_such() {
        assert_eq!(number::<usize>("20"), Ok(20));
        assert_eq!(number::<usize>("x"), Err("not a number from 0"));
        assert_eq!(leg("2"), Ok(2));
        assert_eq!(leg("0"), Err("legs count from 1"));
        assert_eq!(leg("x"), Err("not a number from 0"));
    }
}

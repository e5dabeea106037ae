//! A trigger's request for a draft: method, goal and origin.

use super::request::{DraftSpec, Preset};
use super::{DraftEnd, carried};
use crate::record::{HandoffOrigin, Position};

named! {
    /// Method of making a draft.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub enum DraftMethod {
        /// Asks the model once more, after its own history.
        #[default]
        Oneshot = "oneshot",
        /// Asks a model that only sees a selection from the transcript.
        Bundle = "bundle",
        /// Composed from the transcript without a model.
        Local = "local",
    }
}

impl DraftMethod {
    /// The fallback of an automatic trigger after this method.
    pub fn fallback(self) -> Option<Self> {
        match self {
            Self::Oneshot => Some(Self::Bundle),
            Self::Bundle => Some(Self::Local),
            Self::Local => None,
        }
    }

    /// The next method after an attempt that ended like this.
    ///
    /// If the history was too large for the method, the next one is tried even if the request names a method.
    pub fn after(self, end: &DraftEnd, falls_back: bool) -> Option<Self> {
        match end {
            // Neither is a failure, so another method has nothing to repair.
            DraftEnd::Cancelled | DraftEnd::Review => None,
            DraftEnd::Window => self.fallback(),
            _ => self.fallback().filter(|_| falls_back),
        }
    }
}

/// A document that a handoff is made from: drafted, supplied, or approved by a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedDraft {
    /// The document in its current state.
    pub document: String,
    /// Method of the draft; `None` if the document was supplied.
    pub method: Option<DraftMethod>,
    /// Position of the draft in the transcript, if it was reviewed since.
    pub made_at: Option<Position>,
}

impl AcceptedDraft {
    /// A document that no user has reviewed.
    pub fn new(document: String, method: Option<DraftMethod>) -> Self {
        Self {
            document,
            method,
            made_at: None,
        }
    }

    /// The carry-over prompt of this document, before anything is appended, and the origin of the handoff.
    pub fn carried(&self, request: &DraftRequest) -> (String, HandoffOrigin) {
        match self.method {
            Some(method) => (carried(&self.document), request.origin_of(method)),
            // A supplied document is the carry-over prompt, without a frame.
            None => (self.document.trim().to_owned(), HandoffOrigin::User),
        }
    }
}

crate::named! {
    /// `handoff.review`: which drafts a user must approve first.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum ReviewPolicy {
        /// Drafts take effect on their own.
        #[default]
        Never = "never",
        /// Handoffs that a user or the API requests wait for approval.
        Manual = "manual",
        /// All handoffs wait for approval.
        Always = "always",
    }
}

/// A trigger's request for a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftRequest {
    /// Origin of the request: `User` (a command), `Auto`, `Api`.
    pub origin: HandoffOrigin,
    /// Method of the draft; `None` for the configured one.
    pub method: Option<DraftMethod>,
    /// The user's goal for the next session; may be empty.
    pub focus: String,
    /// Purpose of the next session.
    pub preset: Preset,
    /// Another model of the same upstream, which gets the bundle; `None` for the configured one.
    pub model: Option<String>,
    /// The model for requests after the handoff, on the same wire.
    ///
    /// [`OWN_MODEL`] stands for the agent's model; `None` for the configured one.
    pub to: Option<String>,
    /// Whether the draft describes the state of the repository.
    pub git: bool,
    /// Whether the draft describes commands.
    pub commands: bool,
    /// Whether the draft states why files were changed.
    pub why: bool,
    /// Whether a user must approve it before it takes effect.
    pub review: bool,
    /// Whether to cut the history even if the request becomes larger.
    pub force: bool,
    /// A short reason for the user, shown in the sentinel.
    pub reason: Option<String>,
}

impl Default for DraftRequest {
    fn default() -> Self {
        Self {
            origin: HandoffOrigin::User,
            method: None,
            focus: String::new(),
            preset: Preset::default(),
            model: None,
            to: None,
            git: true,
            commands: true,
            why: true,
            review: false,
            force: false,
            reason: None,
        }
    }
}

/// Value of `--to` that stands for the agent's own model. It ends the routing by an earlier handoff.
pub const OWN_MODEL: &str = "own";

/// The flags of `::handoff`, for help.
pub const FLAGS: &str = "[--review] [--force] [--method oneshot|bundle|local] [--preset implement|docs|debug] [--model NAME] \
[--to MODEL] [--no-git] [--no-commands] [--no-why] [goal…]";

impl DraftRequest {
    /// A request from a threshold, without a user.
    pub fn automatic() -> Self {
        Self {
            origin: HandoffOrigin::Auto,
            ..Self::default()
        }
    }

    /// The first method to try, given the configured method and model.
    ///
    /// A history is bound to the model that it was made with, so another model gets a selection.
    pub fn first_method(&self, configured: DraftMethod, model: Option<&str>) -> DraftMethod {
        let names_model = self.model.as_deref().or(model).is_some();
        match self.method.unwrap_or(configured) {
            DraftMethod::Oneshot if names_model => DraftMethod::Bundle,
            method => method,
        }
    }

    /// Whether a user reviews the draft first.
    pub fn is_reviewed(&self, policy: ReviewPolicy) -> bool {
        self.review
            || match policy {
                ReviewPolicy::Never => false,
                ReviewPolicy::Manual => self.origin != HandoffOrigin::Auto,
                ReviewPolicy::Always => true,
            }
    }

    /// Parses the arguments of `::handoff`: flags first, then the goal verbatim. `--` ends the flags.
    ///
    /// The origin is `User`.
    ///
    /// # Errors
    /// The name of the first invalid flag, and the reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut ask = Self::default();
        let mut rest = text.trim();
        while rest.starts_with("--") {
            let (word, after) = split(rest);
            rest = after;
            if word == "--" {
                break;
            }
            let (flag, value) = word
                .split_once('=')
                .map_or((word, None), |(flag, value)| (flag, Some(value)));
            rest = ask.take(flag, value, rest)?;
        }
        ask.focus = rest.to_owned();
        Ok(ask)
    }

    /// Applies one flag, and returns the remainder of `rest`. `value` is the text after its `=`.
    fn take<'t>(&mut self, flag: &str, value: Option<&str>, rest: &'t str) -> Result<&'t str, String> {
        let bad = |why: &str| format!("{flag}{why}");
        let not_one_of = |names: &[&str]| bad(&format!(": its value is one of {}", names.join(", ")));
        let switch = match flag {
            "--review" => Some((&mut self.review, true)),
            "--force" => Some((&mut self.force, true)),
            "--no-git" => Some((&mut self.git, false)),
            "--no-commands" => Some((&mut self.commands, false)),
            "--no-why" => Some((&mut self.why, false)),
            _ => None,
        };
        if let Some((switch, to)) = switch {
            *switch = to;
            return value.map_or(Ok(rest), |_| Err(bad(" takes no value")));
        }
        if !matches!(flag, "--method" | "--preset" | "--model" | "--to") {
            return Err(bad(": there is no such flag"));
        }
        let (value, rest) = match value {
            Some(value) => (value, rest),
            None => split(rest),
        };
        // `--method --force` lacks its value; it must not become a method called `--force`.
        if value.is_empty() || value.starts_with("--") {
            return Err(bad(": its value is missing"));
        }
        match flag {
            "--method" => {
                let names = DraftMethod::ALL.map(DraftMethod::name);
                self.method = Some(DraftMethod::named(value).ok_or_else(|| not_one_of(&names))?);
            }
            "--preset" => {
                let names = Preset::ALL.map(Preset::name);
                self.preset = Preset::named(value).ok_or_else(|| not_one_of(&names))?;
            }
            "--to" => self.to = Some(value.to_owned()),
            _ => self.model = Some(value.to_owned()),
        }
        Ok(rest)
    }

    /// The origin of a handoff with a draft by `method`. Handoffs by command are named after the method.
    pub fn origin_of(&self, method: DraftMethod) -> HandoffOrigin {
        match (self.origin, method) {
            (HandoffOrigin::User, DraftMethod::Oneshot) => HandoffOrigin::Oneshot,
            (HandoffOrigin::User, DraftMethod::Bundle) => HandoffOrigin::Bundle,
            (HandoffOrigin::User, DraftMethod::Local) => HandoffOrigin::Local,
            (origin, _) => origin,
        }
    }

    /// The specification of the draft. `tokens` is the budget of a document that is composed here, without a model.
    pub fn spec<'r>(&'r self, tokens: usize, repository: &'r str) -> DraftSpec<'r> {
        DraftSpec {
            focus: &self.focus,
            preset: self.preset,
            tokens,
            repository,
            git: self.git,
            commands: self.commands,
            why: self.why,
        }
    }

    /// Whether another method is tried after a failure, because no user is there to request it.
    pub fn falls_back(&self) -> bool {
        matches!(self.origin, HandoffOrigin::Auto | HandoffOrigin::Api)
    }
}

/// The first word, and the text after it.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_first_and_the_rest_is_the_goal() {
        let ask = DraftRequest::parse(
            " --review --force --method bundle --preset=docs --model m/1 --no-git --no-commands --no-why  the --api\n and its tests ",
        );
        let expected = DraftRequest {
            method: Some(DraftMethod::Bundle),
            focus: "the --api\n and its tests".to_owned(),
            preset: Preset::Docs,
            model: Some("m/1".to_owned()),
            git: false,
            commands: false,
            why: false,
            review: true,
            force: true,
            ..DraftRequest::default()
        };
        assert_eq!(ask, Ok(expected));
        assert_eq!(DraftRequest::parse(""), Ok(DraftRequest::default()));
        let only = |focus: &str| DraftRequest {
            focus: focus.to_owned(),
            ..DraftRequest::default()
        };
        assert_eq!(
            DraftRequest::parse("-- --review is text"),
            Ok(only("--review is text"))
        );
        assert_eq!(DraftRequest::parse("schön --review"), Ok(only("schön --review")));
    }

    #[test]
    fn a_bad_flag_is_named() {
        for (text, answer) in [
            ("--reveiw now", "--reveiw: there is no such flag"),
            ("--method", "--method: its value is missing"),
            ("--method --review", "--method: its value is missing"),
            ("--model= x", "--model: its value is missing"),
            (
                "--method fast",
                "--method: its value is one of oneshot, bundle, local",
            ),
            (
                "--preset=x",
                "--preset: its value is one of implement, docs, debug",
            ),
            ("--no-git=yes", "--no-git takes no value"),
        ] {
            assert_eq!(DraftRequest::parse(text).unwrap_err(), answer, "{text}");
        }
    }

    #[test]
    fn every_flag_of_the_help_is_read() {
        for flag in FLAGS
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("[--"))
        {
            let flag = format!("--{}", flag.trim_end_matches(']'));
            let known = match DraftRequest::parse(&flag) {
                Ok(_) => true,
                Err(bad) => bad.to_string().ends_with("its value is missing"),
            };
            assert!(known, "{flag}");
        }
    }

    #[test]
    fn a_commands_handoff_is_named_by_its_method_and_others_by_their_origin() {
        let by = |origin| DraftRequest {
            origin,
            ..DraftRequest::default()
        };
        let made = |origin| DraftMethod::ALL.map(|method| by(origin).origin_of(method));
        assert_eq!(
            made(HandoffOrigin::User),
            [
                HandoffOrigin::Oneshot,
                HandoffOrigin::Bundle,
                HandoffOrigin::Local
            ]
        );
        assert_eq!(made(HandoffOrigin::Auto), [HandoffOrigin::Auto; 3]);
        assert_eq!(made(HandoffOrigin::Api), [HandoffOrigin::Api; 3]);
        assert!(by(HandoffOrigin::Auto).falls_back() && !by(HandoffOrigin::User).falls_back());
        let tried = std::iter::successors(Some(DraftMethod::Oneshot), |method| method.fallback());
        assert_eq!(tried.collect::<Vec<_>>(), DraftMethod::ALL);
    }

    #[test]
    fn another_model_gets_a_selection_in_place_of_the_history() {
        let model = || Some("small".to_owned());
        let (oneshot, bundle, local) = (DraftMethod::Oneshot, DraftMethod::Bundle, DraftMethod::Local);
        let rows = [
            (None, None, None, oneshot, oneshot),
            (None, model(), None, oneshot, bundle),
            (None, None, model(), oneshot, bundle),
            (Some(oneshot), model(), None, local, bundle),
            (Some(local), model(), None, oneshot, local),
            (None, model(), None, local, local),
            (Some(bundle), None, None, oneshot, bundle),
        ];
        for (named, request_model, config_model, by_config, method) in rows {
            let request = DraftRequest {
                method: named,
                model: request_model,
                ..DraftRequest::default()
            };
            let chosen = request.first_method(by_config, config_model.as_deref());
            assert_eq!(chosen, method, "{request:?}");
        }
    }

    #[test]
    fn a_failure_falls_back_where_it_may_and_a_size_always() {
        let unreached = || DraftEnd::Unreached("refused".to_owned());
        let (oneshot, bundle, local) = (DraftMethod::Oneshot, DraftMethod::Bundle, DraftMethod::Local);
        let rows = [
            (oneshot, unreached(), true, oneshot.fallback()),
            (oneshot, unreached(), false, None),
            (bundle, DraftEnd::Empty, true, bundle.fallback()),
            (bundle, DraftEnd::Empty, false, None),
            (oneshot, DraftEnd::Cancelled, true, None),
            (oneshot, DraftEnd::Review, true, None),
            (local, unreached(), true, None),
        ];
        for (method, end, falls_back, next) in rows {
            assert_eq!(method.after(&end, falls_back), next, "{end:?} {falls_back}");
        }
        assert_eq!(oneshot.after(&DraftEnd::Window, false), oneshot.fallback());
    }

    fn of(origin: HandoffOrigin) -> DraftRequest {
        DraftRequest {
            origin,
            ..DraftRequest::default()
        }
    }

    #[test]
    fn the_policy_decides_on_a_review_unless_the_request_wants_one() {
        let rows = [
            (ReviewPolicy::Never, HandoffOrigin::Api, false),
            (ReviewPolicy::Never, HandoffOrigin::Auto, false),
            (ReviewPolicy::Manual, HandoffOrigin::Api, true),
            // A threshold has no user who waits at the screen.
            (ReviewPolicy::Manual, HandoffOrigin::Auto, false),
            (ReviewPolicy::Always, HandoffOrigin::Auto, true),
        ];
        for (policy, origin, reviewed) in rows {
            assert_eq!(of(origin).is_reviewed(policy), reviewed, "{policy:?} {origin:?}");
            let wanted = DraftRequest {
                review: true,
                ..of(origin)
            };
            assert!(wanted.is_reviewed(policy));
        }
    }

    #[test]
    fn a_given_document_is_the_prompt_of_a_user_and_a_drafted_one_has_its_method_or_threshold() {
        let document = "\n Go on. \n";
        let request = DraftRequest {
            origin: HandoffOrigin::Auto,
            ..DraftRequest::default()
        };
        let drafted = |method| {
            let document = document.to_owned();
            AcceptedDraft {
                document,
                method,
                made_at: None,
            }
            .carried(&request)
        };
        let given = ("Go on.".to_owned(), HandoffOrigin::User);
        assert_eq!(drafted(None), given);
        let (prompt, origin) = drafted(Some(DraftMethod::Local));
        assert_eq!(origin, HandoffOrigin::Auto);
        assert!(prompt.contains("Go on."));
    }
}

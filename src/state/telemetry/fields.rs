//! The fields of an exchange's log line, which have the same names in its span.

use std::borrow::Cow;

use tracing::callsite::{DefaultCallsite, Identifier};
use tracing::dispatcher::get_default;
use tracing::field::{FieldSet, Value};
use tracing::metadata::Kind;
use tracing::{Event, Level, Metadata};

use super::facts::{FACTS, FactValue};
use super::{ExchangeEvent, shortened};
use baton_core::record::WireId;
use baton_core::wire::wire;

/// A field that identifies the exchange, with its name.
type Identity = (&'static str, fn(&ExchangeEvent) -> FactValue<'_>);

pub(super) const REQUEST: [Identity; 3] = [
    ("baton.exchange", |e| (&*e.id).into()),
    ("http.request.method", |e| {
        e.route.split_once(' ').map_or("", |(method, _)| method).into()
    }),
    ("url.path", |e| {
        e.route.split_once(' ').map_or(&*e.route, |(_, path)| path).into()
    }),
];

/// Fields that the spans of the legs have as well.
pub(super) const CONVERSATION: [Identity; 5] = [
    ("baton.wire", |e| e.wire.map(WireId::name).into()),
    ("baton.upstream", |e| (&*e.upstream).into()),
    ("gen_ai.provider.name", |e| {
        e.wire.map(|id| wire(id).provider).into()
    }),
    ("gen_ai.request.model", |e| e.model.as_deref().into()),
    ("gen_ai.conversation.id", |e| e.conversation.as_deref().into()),
];

const IDENTITY: usize = REQUEST.len() + CONVERSATION.len();

/// Field names of the log: the message, the identity of the exchange, the facts.
static NAMES: [&str; 1 + IDENTITY + FACTS.len()] = {
    let mut names = ["message"; 1 + IDENTITY + FACTS.len()];
    let mut i = 1;
    while i < names.len() {
        names[i] = match i - 1 {
            i if i < REQUEST.len() => REQUEST[i].0,
            i if i < IDENTITY => CONVERSATION[i - REQUEST.len()].0,
            i => FACTS[i - IDENTITY].name,
        };
        i += 1;
    }
    names
};

// Declared by hand: `tracing::info!` requires field names in the source, and these come from the table.
static CALLSITE: DefaultCallsite = DefaultCallsite::new(&METADATA);
static METADATA: Metadata<'static> = Metadata::new(
    "exchange",
    "baton",
    Level::INFO,
    None,
    None,
    None,
    FieldSet::new(&NAMES, Identifier(&CALLSITE)),
    Kind::EVENT,
);

impl ExchangeEvent {
    /// Returns each field with its value. Strings from the agent are bounded in length.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, FactValue<'_>)> {
        let identity = REQUEST.into_iter().chain(CONVERSATION);
        let identity = identity.map(|(name, value)| (name, value(self)));
        let facts = FACTS.iter().map(|fact| (fact.name, (fact.value)(self)));
        identity
            .chain(facts)
            .map(|(name, value)| (name, value.shortened()))
    }

    /// Logs the exchange with all its fields.
    pub fn log(&self) {
        // Checked before any value is computed, like the macro does.
        let interest = CALLSITE.interest();
        if interest.is_never() || !get_default(|current| current.enabled(&METADATA)) {
            return;
        }
        let values: Vec<_> = self.fields().map(|(_, value)| value).collect();
        let message = [Some(&"exchange" as &dyn Value)].into_iter();
        let values: Vec<_> = message.chain(values.iter().map(FactValue::logged)).collect();
        Event::dispatch(&METADATA, &METADATA.fields().value_set_all(&values));
    }
}

impl FactValue<'_> {
    /// Shortens a borrowed string, which comes from the agent. Owned ones are lists of names and ids.
    fn shortened(self) -> Self {
        match self {
            Self::Text(Cow::Borrowed(text)) => Self::Text(shortened(text).into()),
            value => value,
        }
    }

    fn logged(&self) -> Option<&dyn Value> {
        match self {
            Self::Unknown => None,
            Self::Flag(flag) => Some(flag),
            Self::Count(count) => Some(count),
            Self::Number(number) => Some(number),
            Self::Text(Cow::Borrowed(text)) => Some(text),
            Self::Text(Cow::Owned(text)) => Some(text),
        }
    }
}

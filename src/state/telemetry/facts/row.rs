//! A row of the table of facts: one named fact of an exchange.

use std::borrow::Cow;

/// A fact of a `T`. Its name is the name of the log field and of the span attribute.
pub(crate) struct FactRow<T> {
    pub name: &'static str,
    pub value: ValueOf<T>,
    pub counter: Option<FactCounter<T>>,
    pub filter: Option<(FilterKind, &'static str)>,
    /// Notes in the log line for users.
    pub notes: TextsOf<T>,
    /// Sentences in the inspector and in `baton show`: `before` precede those of the legs, `after` follow
    /// them.
    pub before: TextsOf<T>,
    pub after: TextsOf<T>,
}

pub(crate) type ValueOf<T> = fn(&T) -> FactValue<'_>;
pub(crate) type TextsOf<T> = fn(&T) -> Vec<String>;

/// A counter by wire. Every exchange adds to it.
pub(crate) struct FactCounter<T> {
    pub name: &'static str,
    pub help: &'static str,
    /// Second label, with a count for each of its values including zeros. `None` counts the value itself.
    pub by: Option<(&'static str, CountsOf<T>)>,
}

type CountsOf<T> = fn(&T) -> Vec<(&'static str, u64)>;

/// The form of a filter term: `lost_sentinel`, `status:529`, `requests>1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterKind {
    Flag,
    Text,
    Number,
}

/// The value of a fact. `Unknown` is neither logged nor traced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FactValue<'a> {
    Unknown,
    Flag(bool),
    Count(u64),
    Number(f64),
    Text(Cow<'a, str>),
}

/// Creates a fact that is only logged and traced.
pub(super) const fn row<T>(name: &'static str, value: ValueOf<T>) -> FactRow<T> {
    FactRow {
        name,
        value,
        counter: None,
        filter: None,
        notes: |_| Vec::new(),
        before: |_| Vec::new(),
        after: |_| Vec::new(),
    }
}

impl<T> FactRow<T> {
    /// Counts the value. A string counts as one.
    pub(super) const fn counted(mut self, name: &'static str, help: &'static str) -> Self {
        self.counter = Some(FactCounter { name, help, by: None });
        self
    }

    /// Counts by a label.
    pub(super) const fn counted_by(
        mut self,
        label: &'static str,
        name: &'static str,
        help: &'static str,
        counts: CountsOf<T>,
    ) -> Self {
        let by = Some((label, counts));
        self.counter = Some(FactCounter { name, help, by });
        self
    }

    pub(super) const fn filtered(mut self, kind: FilterKind, name: &'static str) -> Self {
        self.filter = Some((kind, name));
        self
    }

    pub(super) const fn noted(mut self, notes: TextsOf<T>) -> Self {
        self.notes = notes;
        self
    }

    pub(super) const fn with_lead_sentence(mut self, sentences: TextsOf<T>) -> Self {
        self.before = sentences;
        self
    }

    pub(super) const fn told(mut self, sentences: TextsOf<T>) -> Self {
        self.after = sentences;
        self
    }
}

impl FactValue<'_> {
    /// Returns the value as an amount. Unknown values are zero.
    pub(crate) fn amount(&self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Flag(flag) => (*flag).into(),
            Self::Count(count) => *count,
            // Counters are whole numbers, so the fraction is dropped.
            Self::Number(number) => *number as u64,
            Self::Text(_) => 1,
        }
    }

    /// Returns the value as a number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the value as a string.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Unknown => Cow::Borrowed(""),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Flag(flag) => flag.to_string().into(),
            Self::Count(count) => count.to_string().into(),
            Self::Number(number) => number.to_string().into(),
        }
    }
}

macro_rules! values {
    ($($from:ty = |$value:ident| $to:expr;)*) => {
        $(impl<'a> From<$from> for FactValue<'a> {
            fn from($value: $from) -> Self {
                $to
            }
        })*
    };
}

values! {
    bool = |flag| Self::Flag(flag);
    u16 = |count| Self::Count(count.into());
    u32 = |count| Self::Count(count.into());
    u64 = |count| Self::Count(count);
    usize = |count| Self::Count(count as u64);
    f64 = |number| Self::Number(number);
    &'a str = |text| Self::Text(text.into());
    String = |text| Self::Text(text.into());
}

impl<'a, T: Into<FactValue<'a>>> From<Option<T>> for FactValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unknown, Into::into)
    }
}

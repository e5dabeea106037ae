//! A row of the table of facts: what is known of an exchange under one name.

use std::borrow::Cow;

/// A fact of a `T`. Its name is that of the log's field and of the span's attribute.
pub(crate) struct FactRow<T> {
    pub name: &'static str,
    pub value: ValueOf<T>,
    pub counter: Option<FactCounter<T>>,
    pub filter: Option<(FilterKind, &'static str)>,
    /// Its notes in the log line for people.
    pub notes: TextsOf<T>,
    /// Its sentences in the inspector and in `baton show`, before those of the legs and after them.
    pub before: TextsOf<T>,
    pub after: TextsOf<T>,
}

pub(crate) type ValueOf<T> = fn(&T) -> FactValue<'_>;
pub(crate) type TextsOf<T> = fn(&T) -> Vec<String>;

/// A counter by wire, to which every exchange adds.
pub(crate) struct FactCounter<T> {
    pub name: &'static str,
    pub help: &'static str,
    /// A second label, and a count for each of its values, zeros included. Without it the value itself is counted.
    pub by: Option<(&'static str, CountsOf<T>)>,
}

type CountsOf<T> = fn(&T) -> Vec<(&'static str, u64)>;

/// How a term of the filter language asks for a value: `lost_sentinel`, `status:529`, `requests>1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterKind {
    Flag,
    Text,
    Number,
}

/// A value; `Unknown` is neither logged nor traced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FactValue<'a> {
    Unknown,
    Flag(bool),
    Count(u64),
    Number(f64),
    Text(Cow<'a, str>),
}

/// A fact that is logged and traced.
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
    /// Its value is counted; a text counts as one.
    pub(super) const fn counted(mut self, name: &'static str, help: &'static str) -> Self {
        self.counter = Some(FactCounter { name, help, by: None });
        self
    }

    /// It is counted by a label.
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
    /// The value as an amount; zero for nothing.
    pub(crate) fn amount(&self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Flag(flag) => (*flag).into(),
            Self::Count(count) => *count,
            Self::Number(number) => *number as u64,
            Self::Text(_) => 1,
        }
    }

    /// The value as a number, where it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The value as a text.
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

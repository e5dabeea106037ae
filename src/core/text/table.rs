//! Tables that are files next to the code: lists of words to which anybody can add a row.

use serde::Deserialize;

/// A table of rows, each `[[rows]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows<T> {
    rows: Vec<T>,
}

/// A table next to the code. The tests of each read it, so that a broken one is never shipped.
pub fn read<T: Deserialize<'static>>(text: &'static str) -> T {
    match toml::from_str(text) {
        Ok(table) => table,
        Err(error) => unreachable!("the tests read every table: {error}"),
    }
}

/// The rows of a table next to the code.
pub fn rows<T: Deserialize<'static>>(text: &'static str) -> Vec<T> {
    read::<Rows<T>>(text).rows
}

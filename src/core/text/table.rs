//! Tables that are files next to the code: lists of words to which anybody can add a row.

use serde::Deserialize;

/// A table of rows, each `[[rows]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows<T> {
    rows: Vec<T>,
}

/// A table next to the code, for a static. The tests of each read it, so that a broken one is never shipped.
///
/// The text becomes JSON values first, which are leaked, since rows borrow from them. A TOML deserializer for each type of row
/// would make the program 2 % larger.
pub fn read<T: Deserialize<'static>>(text: &str) -> T {
    let values: Result<serde_json::Value, _> = toml::from_str(text);
    let values = values.map(|values| &*Box::leak(Box::new(values)));
    let table = values
        .map_err(|error| error.to_string())
        .and_then(|values| T::deserialize(values).map_err(|error| error.to_string()));
    match table {
        Ok(table) => table,
        Err(error) => unreachable!("the tests read every table: {error}"),
    }
}

/// The rows of a table next to the code.
pub fn rows<T: Deserialize<'static>>(text: &str) -> Vec<T> {
    read::<Rows<T>>(text).rows
}

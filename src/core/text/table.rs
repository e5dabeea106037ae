//! Tables in files next to the code: lists of words that anyone can extend.

use serde::Deserialize;

/// A table of `[[rows]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows<T> {
    rows: Vec<T>,
}

/// Parses a table next to the code, for a static. A test reads every table, so an invalid one cannot be
/// released.
///
/// The input is first parsed into JSON values, which are leaked because rows borrow from them. Deserializing
/// TOML for each row type would make the program 2 % larger.
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

/// Parses the rows of a table next to the code.
pub fn rows<T: Deserialize<'static>>(text: &str) -> Vec<T> {
    read::<Rows<T>>(text).rows
}

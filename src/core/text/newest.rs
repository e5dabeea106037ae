//! Lists of bounded length.

/// Adds an item; of a list that has this many, the oldest goes.
pub(crate) fn push<T>(list: &mut Vec<T>, most: usize, item: T) {
    if list.len() == most {
        list.remove(0);
    }
    list.push(item);
}

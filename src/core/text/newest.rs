//! Lists of bounded length.

/// Appends an item. A list with more than `most` items then loses its oldest ones.
pub fn push<T>(list: &mut Vec<T>, most: usize, item: T) {
    list.push(item);
    let more = list.len().saturating_sub(most);
    list.drain(..more);
}

//! Lists of bounded length.

/// Appends an item. A list that already has `most` items loses its oldest one.
pub fn push<T>(list: &mut Vec<T>, most: usize, item: T) {
    if list.len() == most {
        list.remove(0);
    }
    list.push(item);
}

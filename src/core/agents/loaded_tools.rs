//! Tools that an agent defines for the model only once it has searched for them: a cut loses what was loaded.

/// The tool that loads them, and the beginning of a query that names them (Claude Code since 2.1.304).
const SEARCH: &str = "ToolSearch";
const SELECT: &str = "select:";

/// The line behind a carry-over prompt that names them; nothing where none was loaded.
pub fn line(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let names = names.join(",");
    format!(
        "\n\n<loaded-tools>Used before and not loaded now. One {SEARCH} call loads them: {SELECT}{names}</loaded-tools>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_search_loads_all() {
        let names = ["WebFetch".to_owned(), "TodoWrite".to_owned()];
        assert!(line(&names).contains("ToolSearch call loads them: select:WebFetch,TodoWrite<"));
        assert_eq!(line(&[]), "");
    }
}

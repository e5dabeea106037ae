//! Tools that an agent defines for the model only after a search. A cut loses the definitions that were
//! loaded.

/// Name of the tool that loads definitions (Claude Code since 2.1.304).
const SEARCH: &str = "ToolSearch";
/// Beginning of a query that names the tools.
const SELECT: &str = "select:";

/// Formats the line after a carry-over prompt that names the loaded tools; empty if there are none.
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

use std::collections::BTreeSet;

use super::*;
use crate::cli::shells::ShellSyntax;

const BASE: &str = "http://127.0.0.1:8787";

/// How to start an agent by hand, for the tables.
fn by_hand(agent: &'static AgentSetup) -> String {
    let setup = agent.setup(BASE, BASE, agent.file.as_ref().map_or("", |file| &file.name));
    // The URL itself is left out if the file does not use it.
    let read = agent.file.as_ref().is_some_and(|file| match file.content {
        ConfigContent::Text { ref text } => text.contains(URL),
        ConfigContent::Copy { .. } => false,
    });
    let variables = setup.variables.iter().filter(|(name, _)| read || *name != URL);
    let mut words: Vec<_> = variables.map(|(name, value)| format!("{name}={value}")).collect();
    words.push(if agent.is_known() { &agent.name } else { "AGENT" }.to_owned());
    words.extend(
        setup
            .arguments
            .iter()
            .map(|argument| ShellSyntax::Sh.quoted(argument)),
    );
    words.join(" ")
}

fn code(words: &[&str]) -> String {
    format!("`{}`", words.join(" "))
}

#[test]
fn the_readme_has_every_agent_with_its_sign_ins() {
    let readme = include_str!("../../../README.md");
    for agent in known() {
        let row = format!(
            "| {} | `baton run {}` | {} |\n",
            agent.title, agent.name, agent.sign_ins
        );
        assert!(readme.contains(&row), "{row}");
    }
    let generic = format!("| any other | `baton run AGENT` | {} |\n", TABLE.generic.sign_ins);
    assert!(readme.contains(&generic), "{generic}");
}

#[test]
fn the_page_of_agents_says_how_each_is_set_by_hand() {
    let page = include_str!("../../../docs/agents.md");
    for agent in known() {
        let row = format!("| {} | `{}` |\n", agent.title, by_hand(agent));
        assert!(page.contains(&row), "{row}");
    }
    let generic = format!("| any other | `{}` |\n", by_hand(&TABLE.generic));
    assert!(page.contains(&generic), "{generic}");
}

#[test]
fn the_page_of_agents_says_how_each_takes_a_prompt_and_what_to_know() {
    let page = include_str!("../../../docs/agents.md");
    for agent in known() {
        let command = |template: &[String]| {
            let words: Vec<_> = std::iter::once(agent.name.as_str())
                .chain(template.iter().map(String::as_str))
                .collect();
            code(&words).replace("{prompt}", "PROMPT").replace(" `", "`")
        };
        let row = format!(
            "| {} | {} | {} | {} |\n",
            agent.title,
            command(&agent.prompt),
            command(&agent.headless),
            agent.notes.join("; ")
        );
        assert!(page.contains(&row), "{row}");
    }
    let pi = find("pi").and_then(|agent| agent.file.as_ref()).unwrap();
    let extension = pi.content.text(None, BASE).unwrap();
    assert!(page.contains(&extension), "the extension of pi");
}

#[test]
fn the_table_is_read_and_each_setting_names_its_place() {
    let table: AgentTable = toml::from_str(include_str!("../../../config/agents.toml")).unwrap();
    assert_eq!(table.agent.len(), known().len());
    for agent in &table.agent {
        let urls = agent.base_urls.iter().map(|row| &row.setting);
        let sign_ins = agent.unreached.iter().flat_map(|row| &row.settings);
        for setting in agent.windows.iter().chain(urls).chain(sign_ins) {
            let has_source =
                !setting.file.is_empty() || !setting.options.is_empty() || !setting.assignments.is_empty();
            let is_whole = has_source && !setting.keys.is_empty();
            assert!(is_whole || setting.environment.is_some(), "{setting:?}");
        }
        let overriding = &agent.overriding;
        assert!(overriding.files.iter().all(|row| row.keys.is_empty()
            && (!row.file.is_empty()
                || row.variable.is_some()
                || row.environment.is_some()
                || !row.assignments.is_empty())));
        let sign_ins = &agent.unreached;
        assert!(
            sign_ins
                .iter()
                .all(|row| row.is.is_some() != row.unless.is_some())
        );
    }
}

#[test]
fn names_are_found_as_people_write_them_and_are_one_agents() {
    let name = |program: &str| find(program).map(|agent| agent.name.as_str());
    assert_eq!(name("claude"), Some("claude"));
    assert_eq!(name("claude-code"), Some("claude"));
    assert_eq!(name("/opt/bin/Claude"), Some("claude"));
    assert_eq!(name("./node_modules/.bin/codex"), Some("codex"));
    assert_eq!(name("gemini.exe"), Some("gemini"));
    assert_eq!(name("claude-squad"), None);
    assert_eq!(name(""), None);
    let all: Vec<_> = known()
        .iter()
        .flat_map(|agent| agent.also.iter().chain([&agent.name]))
        .collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

#[test]
fn third_party_clients_of_a_subscription_are_warned_of() {
    let with_terms = known().iter().filter(|agent| agent.terms().is_some());
    let names: Vec<_> = with_terms.map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["opencode", "pi"]);
    let why = find("pi").unwrap().terms().unwrap();
    assert!(
        why.contains("a claude.ai plan, pi is a third-party client"),
        "{why}"
    );
}

#[test]
fn a_path_is_started_as_given_and_a_name_by_the_installed_one() {
    let program = |named: &'static str| find_or_generic(named).program(named);
    assert_eq!(program("claude-code"), "claude");
    assert_eq!(program("./claude"), "./claude");
    assert_eq!(program("my-agent"), "my-agent");
}

#[test]
fn every_template_is_filled_and_every_agent_is_pointed_at_the_proxy() {
    for agent in known().iter().chain([&TABLE.generic]) {
        let setup = agent.setup(BASE, BASE, "/tmp/file");
        let mut all: Vec<_> = setup.variables.iter().map(|(_, value)| value.clone()).collect();
        all.extend(setup.arguments.clone());
        all.extend(agent.first_prompt("do it", false));
        all.extend(agent.first_prompt("do it", true));
        if let Some(file) = &agent.file {
            assert!(all.iter().any(|text| text == "/tmp/file"), "{}", agent.title);
            if let ConfigContent::Copy { .. } = file.content {
                all.push(file.content.text(None, BASE).unwrap());
            }
        }
        assert!(
            all.iter()
                .all(|text| !text.contains("{base}") && !text.contains("{file}")),
            "{all:?}"
        );
        let settings = agent.variables.len() + agent.arguments.len();
        assert!(settings > 0, "{}", agent.title);
        for headless in [false, true] {
            let words = agent.first_prompt("do it", headless);
            assert_eq!(
                words.iter().filter(|word| word.trim_end() == "do it").count(),
                1,
                "{words:?}"
            );
        }
    }
}

#[test]
fn a_copy_keeps_what_the_user_has_and_sets_the_addresses() {
    let cline = find("cline").and_then(|agent| agent.file.as_ref()).unwrap();
    let theirs = r#"{"version":1,"lastUsedProvider":"anthropic","providers":{"anthropic":{"settings":{"apiKey":"k","baseUrl":"https://elsewhere"}},"openrouter":{"settings":{"apiKey":"r"}},"gemini":7}}"#;
    let copy: Value = serde_json::from_str(&cline.content.text(Some(theirs), BASE).unwrap()).unwrap();
    let settings = |name: &str| copy["providers"][name]["settings"].clone();
    assert_eq!(
        settings("anthropic"),
        serde_json::json!({"provider": "anthropic", "baseUrl": format!("{BASE}/v1"), "apiKey": "k"})
    );
    assert_eq!(copy["providers"]["openai-native"]["tokenSource"], "manual");
    assert_eq!(settings("openrouter"), serde_json::json!({"apiKey": "r"}));
    assert_eq!(settings("gemini")["baseUrl"], format!("{BASE}/v1beta"));
    assert_eq!(
        (&copy["version"], &copy["lastUsedProvider"]),
        (&1.into(), &"anthropic".into())
    );
    assert!(cline.content.text(Some("[]"), BASE).is_err());
    assert!(cline.content.text(Some("{"), BASE).is_err());
}

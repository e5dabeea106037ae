//! A YAML parser in another language reads baton's files, and baton reads its files.

use std::process::Command;

use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{HandoffFile, read};
use serde_json::json;

use crate::handoff_files::json_of;

/// Strings that are hard to write and to read.
const HARD: &[&str] = &[
    "plain",
    "yes",
    "No",
    "null",
    "~",
    "1.0",
    "0x1F",
    "1:30",
    "2026-01-06",
    "2026-01-06T00:00:00Z",
    "=",
    "<<",
    ".inf",
    "- a",
    "a: b",
    "a #b",
    "#a",
    "it's",
    "say \"hi\"",
    "both ' and \"",
    "back\\slash",
    "two\nlines",
    "ends\n",
    "\nbegins",
    " blank",
    "blank ",
    "tab\tbed",
    "win\r\nend",
    "<system-reminder>\nx: y\n</system-reminder>",
    "grün",
    "漢字",
    "🦀",
    "\u{85}",
    "\u{2028}",
    "\u{feff}x",
    "\u{0}\u{7f}\u{9b}",
    "[a]",
    "{a: b}",
    "*a",
    "&a",
    "!a",
    "%a",
    "@a",
    "`a",
    "|",
    ">",
    "?",
    "-",
    "",
    "---",
    "...",
    "on",
    "0o7",
    "1_000",
];

#[test]
#[ignore = "needs Python: .ci/full sdks"]
fn a_parser_of_another_language_reads_what_is_written_and_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = Time::parse("2026-11-22T18:05:48Z").unwrap();
    let mut file = HandoffFile {
        session: "api".to_owned(),
        ..HandoffFile::default()
    };
    file.prepare(at);
    file.goal = "Login works: \"remember me\"".to_owned();
    file.now = "first\nsecond".to_owned();
    file.next = HARD.iter().map(|text| (*text).to_owned()).collect();
    // In keys, that parser folds line breaks that only YAML 1.1 recognizes.
    let keys = HARD.iter().filter(|text| !text.contains(['\u{85}', '\u{2028}']));
    file.findings = keys
        .map(|text| ((*text).to_owned(), (*text).to_owned()))
        .collect();
    file.findings.insert("long ".repeat(200), "x".to_owned());
    file.set_tokens(1, 3);
    let (ours, theirs) = (dir.path().join("ours.yaml"), dir.path().join("theirs.yaml"));
    std::fs::write(&ours, file.to_yaml()).unwrap();
    let script = "import json, sys, yaml
read = yaml.safe_load(open(sys.argv[1], encoding='utf-8'))
styles = [(60, False, None), (4000, None, None), (80, True, None)]
styles += [(80, False, style) for style in '\"\\'|>'] + [(4000, False, '|'), (80, True, '|')]
for n, (width, flow, style) in enumerate(styles):
    yaml.safe_dump(read, open(sys.argv[2] + str(n) + '.yaml', 'w', encoding='utf-8'),
                   width=width, default_flow_style=flow, default_style=style, allow_unicode=True, sort_keys=False)
print(json.dumps(read, default=lambda time: time.strftime('%Y-%m-%dT%H:%M:%SZ')))";
    let done = Command::new(super::Runner::Python.program())
        .args(["-c", script])
        .args([&ours, &theirs])
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&done.stderr),
        file.to_yaml()
    );
    let read_there = json_of(&String::from_utf8(done.stdout).unwrap());
    let mut expected = file.to_value().to_json();
    // A float with the same value.
    expected["tokens_pct"] = json!(33.33);
    assert_eq!(read_there, expected, "{}", file.to_yaml());
    let mut written = 0;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path == ours {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let back = read(&text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", path.display()));
        written += 1;
        // With every scalar as a string, a number is a string as well. The parser keeps line breaks that only
        // YAML 1.1 recognizes, and folds at them.
        let of_both = |text: &&String| !text.contains(['\u{85}', '\u{2028}']) && *text != "\n";
        let next = |file: &HandoffFile| file.next.iter().filter(of_both).cloned().collect::<Vec<_>>();
        let findings = |file: &HandoffFile| {
            let all = file.findings.iter().filter(|(name, _)| of_both(name));
            all.map(|(name, told)| (name.clone(), told.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(next(&back.file), next(&file), "{}", path.display());
        assert_eq!(findings(&back.file), findings(&file), "{}", path.display());
        assert_eq!(back.file.goal, file.goal);
        assert_eq!(back.file.now, file.now);
    }
    assert_eq!(written, 9);
}

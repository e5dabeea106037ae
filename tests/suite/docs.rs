//! Tests and names that the documentation mentions exist, including the names in docs/reference.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const PAGES: [&str; 4] = [
    "docs/dev/invariants.md",
    "docs/dev/tested.md",
    "docs/agents.md",
    "docs/security.md",
];

/// Every Rust file below `directory`.
fn sources(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs") {
            out.push(path);
        }
    }
}

/// The last segment of each path in backticks of a table's row, or of a list's entry: a test, or a module of tests.
fn named(page: &str) -> BTreeSet<String> {
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") || line.starts_with("* "));
    let code = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let paths = code.filter(|text| text.contains("::") && !text.contains(' '));
    paths
        .filter_map(|path| path.split("::").filter(|part| part.len() > 1).last())
        .filter(|name| {
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_test_that_the_documentation_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests/suite"), &mut files);
    let mut missing = BTreeMap::new();
    for page in PAGES {
        let names = named(&std::fs::read_to_string(root.join(page)).unwrap());
        assert!(!names.is_empty(), "{page} names no test");
        missing.extend(names.into_iter().map(|name| (name, page)));
    }
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        for name in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            missing.remove(name);
        }
        missing.remove(&*file.file_stem().unwrap().to_string_lossy());
    }
    assert!(missing.is_empty(), "no tests, but named: {missing:?}");
}

/// The part of docs/reference.md under a heading.
fn reference(heading: &str) -> String {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md")).unwrap();
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).expect(heading);
    section.split("\n## ").next().unwrap().to_owned()
}

/// Code in the first cell of each table row.
fn first_cells(text: &str) -> BTreeSet<String> {
    let cells = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let code = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    code.map(str::to_owned).collect()
}

fn source(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn each_dependency_is_among_the_decisions() {
    let decisions = source("docs/dev/decisions.md");
    let manifests = [
        "Cargo.toml",
        "src/core/Cargo.toml",
        "src/state/Cargo.toml",
        "src/serve/Cargo.toml",
    ]
    .map(source);
    let names = manifests.iter().flat_map(|manifest| {
        let tables = manifest.split("\n[").filter(|table| {
            let name = table.split(']').next().unwrap_or_default();
            name == "dependencies" || name.starts_with("target.") && name.ends_with(".dependencies")
        });
        let lines = tables.flat_map(|table| table.lines().skip(1));
        lines
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, _)| name)
    });
    let names: BTreeSet<&str> = names
        .filter(|name| !name.starts_with('#') && !name.starts_with("baton-llm"))
        .collect();
    let missing: Vec<&&str> = names
        .iter()
        .filter(|name| !decisions.contains(&format!("`{name}`")))
        .collect();
    assert!(
        names.len() > 50 && missing.is_empty(),
        "{} dependencies, not named: {missing:?}",
        names.len()
    );
}

#[test]
fn the_documentation_stays_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let words = |file: &Path| std::fs::read_to_string(file).unwrap().split_whitespace().count();
    let readme = words(&root.join("README.md"));
    let pages = ["docs", "docs/dev"].map(|directory| std::fs::read_dir(root.join(directory)).unwrap());
    let pages = pages.into_iter().flatten().map(|entry| entry.unwrap().path());
    let all: usize = pages
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .map(|path| words(&path))
        .sum();
    assert!(readme <= 1300, "README.md has {readme} words");
    assert!(
        readme + all <= 30_000,
        "the documentation has {} words",
        readme + all
    );
}

#[test]
fn the_reference_has_every_exit_code() {
    let text = source("src/cli/exit.rs");
    let codes: BTreeSet<_> = text
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix("pub(super) const ")?
                .split_once("Self(")?
                .1
                .strip_suffix(");")
        })
        .collect();
    assert!(codes.contains("64"), "{codes:?}");
    let section = reference("Exit codes");
    let rows: BTreeSet<_> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .filter(|cell| cell.parse::<u8>().is_ok())
        .collect();
    assert_eq!(rows, codes);
}

#[test]
fn the_reference_has_every_prefix_and_header() {
    let section = reference("Path prefixes and headers");
    let declared = source("src/serve/proxy/declared.rs");
    let prefixes = declared
        .lines()
        .filter_map(|line| line.trim().strip_prefix("prefix: \"")?.strip_suffix("\","));
    let prefixes: Vec<_> = prefixes.chain(["/u/"]).collect();
    assert!(prefixes.len() > 4, "{prefixes:?}");
    for prefix in prefixes {
        assert!(section.contains(&format!("| `{prefix}")), "{prefix}");
    }
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve"),
        &mut files,
    );
    let mut headers = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let named = text
            .split('"')
            .filter(|text| text.len() > 8 && text.starts_with("x-baton-"));
        // Other strings begin with a header as well.
        let named = named.filter(|text| text.bytes().all(|b| b == b'-' || b.is_ascii_lowercase()));
        headers.extend(named.map(str::to_owned));
    }
    assert!(headers.len() > 6, "{headers:?}");
    for header in headers {
        assert!(section.contains(&format!("`{header}`")), "{header}");
    }
}

#[test]
fn the_reference_has_every_field_of_a_refusals_line() {
    let text = source("src/serve/proxy/mod.rs");
    let calls = text.lines().map(str::trim);
    let mut calls = calls.filter_map(|line| {
        let fields = line.strip_prefix("tracing::warn!(")?;
        fields.strip_suffix(", \"refused\");")
    });
    let fields = calls.next().expect("the line of a refusal").split(", ");
    let fields: Vec<_> = fields.map(|field| field.split(" = ").next().unwrap()).collect();
    assert!(fields.contains(&"client.address"), "{fields:?}");
    let section = reference("Log fields");
    let (_, listed) = section.split_once("(`message` is `refused`), with ").unwrap();
    let listed = listed.split("\n\n").next().unwrap();
    for field in fields {
        assert!(listed.contains(&format!("`{field}`")), "{field}");
    }
}

#[test]
fn the_reference_has_every_column_of_the_log() {
    let text = source("src/cli/log.rs");
    let (_, columns) = text.split_once("\nconst COLUMNS").unwrap();
    let columns = columns.split(";\n").next().unwrap();
    let names: Vec<_> = columns
        .lines()
        .filter_map(|line| line.trim().strip_prefix("(\"")?.split('"').next())
        .collect();
    assert!(names.contains(&"TIME"), "{names:?}");
    let cells = first_cells(&reference("Columns of `baton log`"));
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        assert!(cells.contains(name), "{name}");
    }
}

/// Names of the serialized fields of a struct.
fn serialized_fields(path: &str, name: &str) -> Vec<String> {
    let text = source(path);
    let (_, body) = text.split_once(&format!("struct {name} {{\n")).expect(name);
    let body = body.split("\n}").next().unwrap();
    let mut fields = Vec::new();
    let mut is_named = true;
    for line in body.lines().map(str::trim) {
        if line.starts_with("#[serde(skip)]") || line.starts_with("#[serde(flatten)]") {
            is_named = false;
        }
        if line.starts_with(['#', '/']) {
            continue;
        }
        let declared = line.split(": ").next().unwrap();
        let field = declared.rsplit(' ').next().unwrap();
        if is_named {
            fields.push(field.to_owned());
        }
        is_named = true;
    }
    fields
}

/// Keys that a file gives to JSON objects: `"key": value` and `object["key"] = value`.
fn json_keys(path: &str) -> Vec<String> {
    let text = source(path);
    let text = text.split("#[cfg(test)]").next().unwrap();
    let keys = text.lines().filter_map(|line| {
        let line = line.trim();
        let (key, rest) = match line.strip_prefix("shown[\"") {
            Some(indexed) => indexed.split_once('"')?,
            None => line.strip_prefix('"')?.split_once('"')?,
        };
        (rest.starts_with(": ") || rest.starts_with("] = ")).then(|| key.to_owned())
    });
    keys.collect()
}

#[test]
fn the_reference_has_every_member_of_json_output() {
    let structs = [
        ("src/cli/doctor/finding.rs", "Finding"),
        ("src/cli/doctor/mod.rs", "ReportedFinding"),
        ("src/cli/doctor/mod.rs", "DoctorReport"),
        ("src/cli/doctor/installation.rs", "StateSummary"),
        ("src/cli/running.rs", "Process"),
        ("src/cli/handoffs/check.rs", "CheckedDocument"),
        ("src/state/journal/query.rs", "JournalTotals"),
        ("src/state/journal/bill_sums.rs", "BillSum"),
        ("src/state/journal/bill_sums.rs", "SavingsReport"),
        ("src/state/journal/bill_sums.rs", "PriceSource"),
        ("src/state/files/yaml_files/read.rs", "FileSummary"),
        ("src/core/trial/report.rs", "TrialReport"),
        ("src/core/trial/report.rs", "GroupSum"),
        ("src/core/trial/report.rs", "LengthSum"),
        ("src/core/trial/report.rs", "ArmSum"),
        ("src/core/trial/report.rs", "Verdict"),
        ("src/core/trial/report.rs", "Judged"),
        ("src/core/trial/reckon.rs", "Reckoned"),
        ("src/core/trial/reckon.rs", "ModelUse"),
        ("src/core/trial/reckon.rs", "ArmResult"),
        ("src/core/trial/replay.rs", "ReplayBill"),
        ("src/core/trial/replay.rs", "ReplayCut"),
        ("src/core/trial/lost.rs", "LostCaches"),
        ("src/core/trial/session.rs", "RecordedSession"),
        ("src/core/bill/cost.rs", "TokenCounts"),
        ("src/core/handoffs/field_error.rs", "FieldError"),
    ];
    let mut members: Vec<_> = structs
        .iter()
        .flat_map(|(path, name)| serialized_fields(path, name))
        .collect();
    for file in ["check", "create", "draft", "files", "list", "resume", "show"] {
        members.extend(json_keys(&format!("src/cli/handoffs/{file}.rs")));
    }
    assert!(members.len() > 100, "{members:?}");
    let section = reference("JSON output");
    let listed: BTreeSet<_> = section
        .split(|c: char| !(c.is_ascii_lowercase() || c == '_'))
        .collect();
    let missing: BTreeSet<_> = members
        .iter()
        .filter(|name| !listed.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "not in docs/reference.md: {missing:?}");
}

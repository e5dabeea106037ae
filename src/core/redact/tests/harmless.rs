//! Text that must not be redacted: ordinary code, counts, identifiers, ids.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

#[test]
fn counts_ids_types_and_code_stay() {
    let redactor = Redactor::new(&[]);
    for text in [
        "max_tokens=4096, input_tokens: 12345678, total_tokens = 99",
        "let token = next_token(&mut lexer)?; let key = map.get(&key);",
        "password: String, token: Option<String>, secret: &str",
        "const apiKey = process.env.API_KEY;",
        "api_key = os.environ[\"API_KEY\"]",
        "password = getpass.getpass()",
        "token: ${{ secrets.GITHUB_TOKEN }}",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <token>",
        "export API_KEY=$(cat key.txt)",
        "password = \"<your password>\"",
        "DATABASE_URL=postgres://user:${DB_PASSWORD}@host/db",
        "the token is read, the key is pressed, the secret is out",
        "key: value, sort_key: created_at, primary_key=True",
        "https://docs.rs/regex/latest/regex/#syntax",
        "author = \"Jane Doe\", authority: example.org",
        "git commit 3f2504e04f8911d39a0c0305e82c3301a1b2c3d4",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "public_key = \"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI\"",
        "type Keys = Record<string, TokenV2>; interface A { password: string; }",
        "if (password == \"\") return; password != other",
        "self.token = token; this.apiKey = config.apiKey",
        "fn pass(value: u32) -> bool { bypass }",
        "<input type=\"password\" name=\"password\" />",
    ] {
        assert_eq!(redactor.text(text), text);
    }
    for body in [
        r#"{"max_tokens":4096,"prompt_cache_key":"0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11","usage":{"input_tokens":1,"output_tokens":2}}"#,
        r#"{"logprobs":[{"token":" the","logprob":-0.1},{"token":"Hello"}]}"#,
        r#"{"type":"thinking","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"}"#,
        r#"{"properties":{"password":{"type":"string","description":"The user's password"},"headers":{"type":"object","description":"HTTP headers"}},"required":["password","token"]}"#,
        r#"{"token_type":"bearer","tokenizer":"o200k_base","key":"Enter","id":"toolu_01A09q90qw90lq917835lq9"}"#,
        r#"{"headers":{"content-type":"application/json","accept":"*/*"}}"#,
    ] {
        assert_eq!(String::from_utf8_lossy(&redactor.json(body.as_bytes())), body);
    }
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut all: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    for path in all {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "node_modules" && name != "redact" {
            files(&path, out);
        } else if [
            ".rs", ".json", ".toml", ".md", ".txt", ".sse", ".js", ".css", ".html", ".mjs", ".sh",
        ]
        .iter()
        .any(|end| name.ends_with(end))
        {
            out.push(path);
        }
    }
}

/// This repository's sources, documents and recorded requests contain no credential, except for invented ones
/// in tests. Any other match is a false positive.
#[test]
fn ordinary_code_and_transcripts_are_hardly_touched() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut all = Vec::new();
    for dir in ["src", "tests/golden", "tests/suite", "docs", "config", "benches"] {
        files(&root.join(dir), &mut all);
    }
    let redactor = Redactor::new(&[]);
    let (mut bytes, mut finds) = (0, Vec::new());
    for path in &all {
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        bytes += text.len();
        for found in redactor.find(&text).all() {
            let line = text[..found.start()].matches('\n').count() + 1;
            let shown: String = text[found.start()..found.end()].chars().take(60).collect();
            let file = path.strip_prefix(root).unwrap().display();
            finds.push(format!("{file}:{line}: {} {shown:?}", found.kind()));
        }
    }
    println!(
        "{} finds in {} files, {bytes} bytes\n{}",
        finds.len(),
        all.len(),
        finds.join("\n")
    );
    assert!(bytes > 2_000_000, "{bytes}");
    // The remaining matches are invented by tests and examples, at most one per 100 KB of code.
    assert!(finds.len() <= bytes / 100_000, "{}", finds.len());
}

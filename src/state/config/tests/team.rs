//! Clients, secrets in files, and tokens of the admin listener.

use pretty_assertions::assert_eq;

use super::{load, problems};
use crate::config::{Config, Environment, Flags, Secret};

/// A directory with these files.
fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

const DIGEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

#[test]
fn a_secret_comes_from_a_file_and_a_missing_one_has_its_place() {
    let dir = directory(&[("key", "sk-from-a-file\n")]);
    let key = dir.path().join("key");
    let text = format!("[upstreams.openai]\napi_key = {{ file = '{}' }}", key.display());
    let config = load(&text, &[], &Flags::default()).unwrap();
    let given = config.upstreams["openai"].api_key.as_ref().unwrap();
    assert_eq!(given.reveal(), "sk-from-a-file");
    assert_eq!(config.secret_files, [key.as_path()]);
    std::fs::remove_file(&key).unwrap();
    let [problem] = &problems(&text)[..] else {
        panic!("one problem")
    };
    for part in [
        "my.toml:2",
        "upstreams.openai.api_key",
        "key, which cannot be read",
    ] {
        assert!(problem.contains(part), "{problem}");
    }
}

#[test]
fn commands_do_without_the_secrets_that_they_do_not_use() {
    let text = "[admin]\nlisten = '10.0.0.5:8788'\ntoken = { env = 'NOT_SET' }\n[store]\nkind = 'redis'\nurl = { file = '/nonexistent' }\n\
                [[clients]]\nname = 'ada'\nkey = { env = 'NOT_SET' }\n[upstreams.openai]\nheaders = { 'x-a' = { env = 'NOT_SET' } }\n";
    let needing = |needed_secrets| {
        let flags = Flags {
            needed_secrets,
            ..Flags::default()
        };
        load(text, &[], &flags).err().unwrap_or_default()
    };
    assert_eq!(needing(Some(&[])).len(), 0);
    let store = needing(Some(&["store.url"]));
    assert!(store.len() == 1 && store[0].contains("store.url"), "{store:?}");
    assert_eq!(needing(None).len(), 4);
}

#[test]
fn clients_come_from_a_directory_and_have_keys_or_digests() {
    let by_key = "key = 'key-of-grace-0123'";
    let by_digest = format!("key_sha256 = '{DIGEST}'");
    let dir = directory(&[
        ("ada.toml", &by_digest),
        ("grace.toml", by_key),
        (".hidden.toml", "x"),
        ("notes.txt", "x"),
    ]);
    let text = |more: &str| format!("server.clients_dir = '{}'\n{more}", dir.path().display());
    let config = load(&text(""), &[], &Flags::default()).unwrap();
    let names: Vec<_> = config.clients.iter().map(|client| client.name.as_str()).collect();
    assert_eq!(names, ["ada", "grace"]);
    assert!(config.requires_clients());
    // `sha256sum` of the word.
    assert_eq!(config.clients[0].digest(), Some(Secret::new("test").digest()));
    let broken = [
        (
            "[[clients]]\nname = 'ada'\nkey = 'another-key-0123'",
            "there is another client",
        ),
        (
            "[[clients]]\nname = 'eve'\nkey = 'key-of-grace-0123'",
            "the same key",
        ),
        (&format!("[[clients]]\nname = 'eve'\n{by_digest}"), "the same key"),
        (
            &format!("[[clients]]\nname = 'eve'\nkey = 'key-of-eve-012345'\nkey_sha256 = '{DIGEST}'"),
            "is given as well",
        ),
        (
            "[[clients]]\nname = 'eve'\nkey_sha256 = 'abc'",
            "not a SHA-256 digest",
        ),
        ("[[clients]]\nname = 'eve'", "no `key`"),
        (
            "[[clients]]\nname = 'local'\nkey = 'key-of-local-0123'",
            "requests without a client",
        ),
        (
            "[[clients]]\nname = \"a\\nb\"\nkey = 'key-of-a-0123456'",
            "a control character",
        ),
    ];
    // The file that comes after an equal key is refused, and the config is valid.
    let refused = |more: &str| {
        let config = load(&text(more), &[], &Flags::default());
        let problems = config.map(|config| config.refused_clients).unwrap_or_default();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (more, expected) in broken {
        let mut found = refused(more);
        if found.is_empty() {
            found = problems(&text(more));
        }
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{more}: {found:?}"
        );
    }
    std::fs::write(dir.path().join("eve.toml"), "kye = 'x'").unwrap();
    let found = refused("");
    assert!(
        found.iter().any(|problem| problem.contains("eve.toml:1")),
        "{found:?}"
    );
    // A file that is not TOML has an error in each line, and one tells it.
    std::fs::write(
        dir.path().join("eve.toml"),
        "# Notes\nnot a table, and\nno key: of `any`\n".repeat(9),
    )
    .unwrap();
    let found = refused("");
    assert!(found.len() == 1 && found[0].contains("eve.toml:2"), "{found:?}");
    let config = load(&text(""), &[], &Flags::default()).unwrap();
    assert_eq!(config.clients.len(), 2, "{:?}", config.clients);
    let found = problems(&format!("server.clients_dir = '{}/none'", dir.path().display()));
    assert!(
        found.len() == 1 && found[0].contains("server.clients_dir"),
        "{found:?}"
    );
}

/// Removal of a client depends on nothing but its own file or entry.
#[test]
fn a_removed_client_is_missed_whatever_else_is_wrong() {
    let dir = directory(&[
        ("ada.toml", "key = 'key-of-ada-012345'"),
        ("bob.toml", "key = 'key-of-bob-012345'"),
    ]);
    let listed = "[[clients]]\nname = 'eve'\nkey = 'key-of-eve-012345'";
    let text = format!("server.clients_dir = '{}'\n{listed}", dir.path().display());
    let config = load(&text, &[], &Flags::default()).unwrap();
    let present = || {
        let present = config.present_clients(&Environment::default()).unwrap();
        present.into_iter().map(|client| client.name).collect::<Vec<_>>()
    };
    assert_eq!(present(), ["eve", "ada", "bob"]);
    std::fs::remove_file(dir.path().join("ada.toml")).unwrap();
    std::fs::write(dir.path().join("bob.toml"), "kye = 'x'").unwrap();
    assert_eq!(present(), ["eve"]);
    std::fs::remove_dir_all(dir.path()).unwrap();
    assert_eq!(present(), ["eve"]);
    std::fs::write(dir.path(), "").unwrap();
    assert!(
        config.present_clients(&Environment::default()).is_err(),
        "not a directory"
    );
    // An entry of the config is removed if the list could be read.
    for (more, is_read) in [
        ("", true),
        ("limits.body_byte = 3", true),
        ("server.clients_dir = '/nowhere/at/all'", true),
        ("upstreams.openai.api_key = { file = '/nowhere' }", true),
        ("[[client]]", false),
        ("[clients]", false),
        ("clients = [", false),
        ("[[clients]]\nname = 'eve'", false),
    ] {
        let (file, env, flags) = (
            dir.path().with_extension("toml"),
            Environment::default(),
            Flags::default(),
        );
        std::fs::write(&file, more).unwrap();
        let (_, problems) = Config::read(Some(&file), &env, &flags);
        assert_eq!(
            Config::is_client_list_read(&problems),
            is_read,
            "{more}: {problems:?}"
        );
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn an_admin_token_opens_nothing_else() {
    let full = "admin.token = 'token-of-operators'\n";
    let broken = [
        (
            "admin.read_token = 'token-of-operators'",
            "admin.read_token",
            "`admin.token` has the same value",
        ),
        (
            "admin.metrics_token = 'token-of-operators'",
            "admin.metrics_token",
            "`admin.token` has the same value",
        ),
        (
            "[[clients]]\nname = 'ada'\nkey = 'token-of-operators'",
            "admin.token",
            "the key of the client \"ada\"",
        ),
        (
            "admin.tls_cert = '/etc/hosts'",
            "admin.tls_cert",
            "it needs `admin.tls_key`",
        ),
    ];
    for (more, key, expected) in broken {
        let found = problems(&format!("{full}{more}"));
        assert!(found.len() == 1, "{more}: {found:?}");
        assert!(found[0].contains(key) && found[0].contains(expected), "{found:?}");
        assert!(!found[0].contains("token-of-operators"), "{found:?}");
    }
    let alone = problems("admin.metrics_token = 'token-of-a-scraper'");
    assert!(
        alone.len() == 1 && alone[0].contains("it needs `admin.token`"),
        "{alone:?}"
    );
}

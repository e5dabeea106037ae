//! Secrets of a team over the real program: clients in a directory, secrets in files, tokens of the admin listener.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use baton_strict::Reply;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::fixture::user;
use crate::harness::program::{self, Place, Program};
use crate::harness::temp;
use crate::harness::texts::{assert_contains, assert_lacks};

fn check(dir: &Path) -> Output {
    let mut command = program::baton(dir, &["check", "--config"]);
    command.arg(dir.join("baton.toml")).output().unwrap()
}

fn said(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    streams.concat()
}

/// Status of a request with this client key.
async fn status(program: &Program, key: &str) -> u16 {
    let headers = [("x-api-key", key), ("anthropic-version", "2023-06-01")];
    program.sends_with(&headers, &[user("Hello.")]).await.status
}

/// Waits until a key has this status, which a reload brings within seconds.
async fn becomes(program: &Program, key: &str, expected: u16) {
    for _ in 0..60 {
        if status(program, key).await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("the key never gets {expected}");
}

/// A proxy's place with these lines in its config.
async fn place(more: &str) -> Place {
    let replies = std::iter::repeat_with(|| Reply::text("Hello.")).take(200);
    Place::new(replies, more).await
}

/// A place of clients in files.
async fn place_of_clients() -> (Place, tempfile::TempDir, PathBuf) {
    let dir = temp();
    let clients = dir.path().join("clients");
    let place = place(&format!("server.clients_dir = '{}'\n", clients.display())).await;
    (place, dir, clients)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_added_and_removed_while_the_proxy_runs() {
    let (place, _dir, clients) = place_of_clients().await;
    // The directory must exist for the proxy, and the command makes it.
    let start = place.baton(&["serve"]);
    assert!(said(&start).contains("server.clients_dir"), "{}", said(&start));
    fs::create_dir(&clients).unwrap();
    let nobody = place.baton(&["client", "list"]);
    assert_contains(&said(&nobody), "refuses every request");
    fs::remove_dir(&clients).unwrap();
    let add = ["client", "add", "ada", "--url", "https://baton.test/"];
    let text = said(&place.baton(&add));
    let key = text.split_once("key, shown only now: ").unwrap().1;
    let key = key.lines().next().unwrap().to_owned();
    let line = format!(
        "ANTHROPIC_BASE_URL=https://baton.test CLAUDE_CODE_GATEWAY_HINT_HEADERS=1 ANTHROPIC_API_KEY={key} claude"
    );
    assert!(text.contains(&line), "{text}");
    assert_contains(&text, "codex -c 'openai_base_url=\"https://baton.test/v1\"'");
    let stored = fs::read_to_string(clients.join("ada.toml")).unwrap();
    assert_contains(&stored, "key_sha256");
    assert_lacks(&stored, &key);
    let program = place.start();
    assert_eq!(status(&program, &key).await, 200);
    assert_eq!(status(&program, "sk-baton-another-key").await, 401);
    let added = place.json(&["client", "add", "grace", "--json"]);
    let second = added["key"].as_str().unwrap();
    assert_eq!(added["agents"][0]["variables"]["ANTHROPIC_API_KEY"], second);
    becomes(&program, second, 200).await;
    let listed = place.json(&["client", "list", "--json"]);
    assert_eq!([&listed[0]["name"], &listed[1]["name"]], ["ada", "grace"]);
    assert_lacks(&listed.to_string(), "sk-baton");
    let again = place.baton(&["client", "add", "ada"]);
    assert!(!again.status.success());
    assert_contains(&said(&again), "already");
    for bad in ["../eve", ".eve", "a/b", "", "local"] {
        program::refused(&place.baton(&["client", "add", bad]), 64, &[]);
        let removed = place.baton(&["client", "remove", bad]);
        assert!(!removed.status.success(), "{bad}");
    }
    assert!(place.baton(&["client", "remove", "ada"]).status.success());
    becomes(&program, &key, 401).await;
    assert_eq!(status(&program, second).await, 200);
    // Nothing of the state has a key.
    drop(program);
    for file in fs::read_dir(&place.state).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap_or_default();
        assert!(memchr::memmem::find(&bytes, key.as_bytes()).is_none());
    }
}

/// Nobody's file keeps the key of another client valid, or the proxy from serving.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_file_refuses_its_own_client_only() {
    let (place, _dir, clients) = place_of_clients().await;
    let key_of = |name: &str| {
        let added = place.json(&["client", "add", name, "--json"]);
        added["key"].as_str().unwrap().to_owned()
    };
    let (ada, bob, eve) = (key_of("ada"), key_of("bob"), key_of("eve"));
    let program = place.start_logging();
    assert_eq!(status(&program, &eve).await, 200);
    fs::write(clients.join("eve.toml"), "key_sha256 = 'zz'").unwrap();
    becomes(&program, &eve, 401).await;
    let fifo = clients.join("fifo.toml");
    program::fifo(&fifo);
    std::os::unix::fs::symlink("/dev/zero", clients.join("zero.toml")).unwrap();
    fs::write(clients.join("a\nb.toml"), "").unwrap();
    let removed = place.baton(&["client", "remove", "ada"]);
    assert!(removed.status.success(), "{}", said(&removed));
    becomes(&program, &ada, 401).await;
    assert_eq!(status(&program, &bob).await, 200);
    let text = place.log();
    for refused in ["eve.toml:1:14", "fifo.toml", "zero.toml", r"a\nb.toml"] {
        let line = text.lines().find(|line| line.contains(refused));
        assert!(line.is_some_and(|line| line.contains("client refused")), "{text}");
    }
    let checked = place.baton(&["client", "list"]);
    assert!(checked.status.success(), "{}", said(&checked));
    assert!(said(&checked).contains("refused: ") && said(&checked).contains("fifo.toml"));
    let checked = check(place.dir.path());
    assert_eq!(checked.status.code(), Some(78), "{}", said(&checked));
    // A proxy that starts now refuses the same clients.
    drop(program);
    let program = place.start();
    assert_eq!(status(&program, &bob).await, 200);
    assert_eq!(status(&program, &eve).await, 401);
}

/// No other broken file keeps a removed client admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_client_is_refused_whatever_else_is_broken() {
    let place = place("").await;
    let path = |name: &str| place.dir.path().join(name);
    fs::create_dir(path("clients")).unwrap();
    fs::create_dir(path("prompts")).unwrap();
    let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let admin = made();
    fs::write(path("cert.pem"), admin.cert.pem()).unwrap();
    fs::write(path("key.pem"), admin.signing_key.serialize_pem()).unwrap();
    fs::write(path("provider.key"), "sk-0123456789abcdef").unwrap();
    let shown = |name: &str| path(name).display().to_string();
    let more = format!(
        "server.clients_dir = '{}'\nadmin.tls_cert = '{}'\nadmin.tls_key = '{}'\ndraft.prompts_dir = '{}'\n\
         upstreams.openai.api_key = {{ file = '{}' }}\n",
        shown("clients"),
        shown("cert.pem"),
        shown("key.pem"),
        shown("prompts"),
        shown("provider.key")
    );
    let text = fs::read_to_string(&place.config).unwrap() + &more;
    let eve = "eve-0123456789abcdef";
    let listed = format!("[[clients]]\nname = 'eve'\nkey = '{eve}'\n");
    fs::write(&place.config, format!("{text}{listed}")).unwrap();
    let program = place.start();
    let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
    let other = made().cert.pem();
    let breakers: [(&str, &dyn Fn()); 5] = [
        ("certificate", &|| write("cert.pem", &other)),
        ("half", &|| write("cert.pem", &other[..300])),
        ("prompt", &|| fs::create_dir(path("prompts/document.md")).unwrap()),
        ("secret", &|| fs::remove_file(path("provider.key")).unwrap()),
        ("typo", &|| {
            write("baton.toml", &format!("{text}limits.body_byte = 3\n{listed}"))
        }),
    ];
    for (name, breaks) in breakers {
        let added = place.json(&["client", "add", name, "--json"]);
        let key = added["key"].as_str().unwrap();
        becomes(&program, key, 200).await;
        breaks();
        let removed = place.baton(&["client", "remove", name]);
        assert!(removed.status.success(), "{}", said(&removed));
        // The administrator's shell may lack the secrets of the service.
        let is_told = said(&removed).contains("a running proxy refuses other changes");
        assert_eq!(is_told, name != "secret", "{}", said(&removed));
        becomes(&program, key, 401).await;
        assert_eq!(status(&program, eve).await, 200, "{name}");
        if name == "prompt" {
            let told = || said(&place.baton(&["doctor", "--offline"]));
            let is_told = |_| told().contains("config: the running proxy reports that it fails");
            // The report is kept for two seconds.
            assert!((0..60).any(is_told), "{}", told());
        }
        let _ = fs::remove_dir(path("prompts/document.md"));
        write("cert.pem", &admin.cert.pem());
        write("provider.key", "sk-0123456789abcdef");
    }
    // An entry of the config, by a config that is refused.
    write("baton.toml", &format!("{text}limits.body_byte = 3\n"));
    becomes(&program, eve, 401).await;
}

/// A secret is a small regular file, which others can neither read nor change.
#[test]
fn secrets_are_regular_files_that_others_cannot_read() {
    let dir = temp();
    let secret = dir.path().join("secret");
    let clients = dir.path().join("clients");
    let [config, chain, key] = ["baton.toml", "chain.pem", "key.pem"].map(|name| dir.path().join(name));
    let text = format!(
        "upstreams.openai.api_key = {{ file = '{}' }}\nserver.clients_dir = '{}'\n\
         server.tls_cert = '{}'\nserver.tls_key = '{}'\n",
        secret.display(),
        clients.display(),
        chain.display(),
        key.display()
    );
    fs::write(&config, text).unwrap();
    let [pair, other] =
        [(); 2].map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
    fs::write(&chain, other.cert.pem()).unwrap();
    fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    fs::write(&secret, "sk-0123456789abcdef").unwrap();
    let script = "umask 0; exec \"$0\" client add ada --config \"$1\"";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, env!("CARGO_BIN_EXE_baton")])
        .arg(dir.path().join("baton.toml"));
    program::printed(shell.output().unwrap());
    // `check` reports what `serve` would refuse.
    let mismatch = check(dir.path());
    assert_eq!(mismatch.status.code(), Some(78));
    assert_contains(&said(&mismatch), "KeyMismatch");
    fs::write(&chain, pair.cert.pem()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = clients.join("ada.toml");
    assert_eq!((mode(&clients), mode(&file)), (0o755, 0o644));
    let check = || check(dir.path());
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(dir.path(), 0o755);
    set(&key, 0o600);
    set(&secret, 0o600);
    for (path, open, closed, expected) in [
        (&secret, 0o644, 0o600, "can read this secret"),
        (&secret, 0o602, 0o600, "can change this secret"),
        (&key, 0o644, 0o600, "can read this secret"),
        (&config, 0o646, 0o644, "can change the config"),
        (&file, 0o646, 0o644, "can add or change clients"),
        (&clients, 0o777, 0o755, "can add or change clients"),
    ] {
        set(path, open);
        assert!(said(&check()).contains(expected), "{}", said(&check()));
        set(path, closed);
        assert!(!said(&check()).contains("other users"), "{}", said(&check()));
    }
    fs::remove_file(&secret).unwrap();
    program::fifo(&secret);
    assert_contains(&said(&check()), "not a regular file");
    fs::remove_file(&secret).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &secret).unwrap();
    assert_contains(&said(&check()), "not a regular file");
    fs::remove_file(&secret).unwrap();
    fs::write(&secret, "x".repeat(1 << 20)).unwrap();
    assert_contains(&said(&check()), "larger than 64 KiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_file_is_followed_and_outlives_its_file() {
    let dir = temp();
    let file = dir.path().join("ada.key");
    fs::write(&file, "first-key-of-ada-01\n").unwrap();
    let path = file.display();
    let client = format!("[[clients]]\nname = 'ada'\nkey = {{ file = '{path}' }}\n");
    let place = place(&client).await;
    let program = place.start_logging();
    assert_eq!(status(&program, "first-key-of-ada-01").await, 200);
    fs::write(&file, "second-key-of-ada-2\n").unwrap();
    becomes(&program, "second-key-of-ada-2", 200).await;
    assert_eq!(status(&program, "first-key-of-ada-01").await, 401);
    // Neither length nor time of the content differ.
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, "third--key-of-ada-3\n").unwrap();
    let changed = fs::File::options().write(true).open(&file).unwrap();
    changed.set_modified(before).unwrap();
    becomes(&program, "third--key-of-ada-3", 200).await;
    fs::write(&file, "second-key-of-ada-2\n").unwrap();
    becomes(&program, "second-key-of-ada-2", 200).await;
    // A file that vanishes leaves the last value in use, and the log has its path.
    fs::remove_file(&file).unwrap();
    for _ in 0..50 {
        if place.log().contains("config not reloaded") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let text = place.log();
    assert_contains(&text, "config not reloaded");
    assert_contains(&text, "ada.key");
    assert!(!text.contains("key-of-ada"), "{text}");
    assert_eq!(status(&program, "second-key-of-ada-2").await, 200);
    fs::write(&file, "third-key-of-ada-33\n").unwrap();
    becomes(&program, "third-key-of-ada-33", 200).await;
}

/// Sends a GET request over TLS to a listener with this certificate, and returns the response's head.
pub async fn get_over_tls(address: &str, certificate: &Path, path: &str, token: &str) -> String {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(certificate).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address.trim_start_matches("https://"))
        .await
        .unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
    let mut stream = connector.connect(name, stream).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_listener_speaks_https_and_each_token_has_its_purpose() {
    let dir = temp();
    let (chain, key) = (dir.path().join("chain.pem"), dir.path().join("key.pem"));
    let certify = || {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        fs::write(&chain, made.cert.pem()).unwrap();
    };
    certify();
    let admin = format!(
        "admin.token = 'token-of-operators'\nadmin.read_token = 'token-of-a-reader'\nadmin.metrics_token = 'token-of-a-scraper'\n\
         admin.tls_cert = '{}'\nadmin.tls_key = '{}'\n",
        chain.display(),
        key.display()
    );
    let place = place(&admin).await;
    let program = place.start();
    assert!(program.admin.starts_with("https://"), "{}", program.admin);
    let ready = place.baton(&["doctor", "--ready"]);
    assert_eq!(said(&ready), "ready\n");
    let code = async |path: &str, token: &str| {
        let answer = get_over_tls(&program.admin, &chain, path, token).await;
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for (path, token, expected) in [
        ("/readyz", "none", "200"),
        ("/metrics", "token-of-a-scraper", "200"),
        ("/api/status", "token-of-a-scraper", "403"),
        ("/api/status", "token-of-a-reader", "200"),
        ("/api/status", "token-of-operators", "200"),
        ("/api/status", "token-of-nobody-00", "401"),
    ] {
        assert_eq!(code(path, token).await, expected, "{path} {token}");
    }
    certify();
    for _ in 0..50 {
        if place.baton(&["doctor", "--ready"]).status.success() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let answer = get_over_tls(&program.admin, &chain, "/metrics", "token-of-a-scraper").await;
    assert!(answer.contains(" 200 "), "{answer}");
    // Another program on that port is not asked anything.
    let theirs = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
    fs::write(&chain, theirs.cert.pem()).unwrap();
    let other = place.baton(&["doctor", "--ready"]);
    assert!(!other.status.success(), "{}", said(&other));
}

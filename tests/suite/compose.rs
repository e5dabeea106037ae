//! The compose example, as far as it can be checked without containers.
//!
//! The file is valid by the schema of the Compose specification, and matches baton's configuration, the
//! balancers' and the Dockerfile. Its server keeps the data that the configuration promises, and two
//! processes run with exactly its settings.

use std::path::{Path, PathBuf};
use std::process::Command;

use baton_llm::state::config::{Config, Environment, Flags, StoreAddress};
use baton_llm::state::store::Store;
use baton_llm::state::store::redis::RedisStore;
use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value, json};

use crate::harness::program::Program;
use crate::harness::redis::{RedisServer, free_port};
use crate::harness::{client, read, temp};

const TOKEN: &str = "0123456789abcdef-of-the-compose-file";
const KEY: &str = "the-seal-key-of-the-compose-file-0123456789";

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/compose")
        .join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(example(name)).unwrap()
}

/// The file as JSON, with anchors and merges resolved.
fn compose() -> Value {
    let mut open: Vec<(Value, Option<String>, usize)> = Vec::new();
    let mut anchors: Map<String, Value> = Map::new();
    for event in Parser::new_from_str(&text("compose.yaml")) {
        let (value, anchor) = match event.unwrap().0 {
            Event::Scalar(text, _, anchor, _) => (json!(text), anchor),
            Event::Alias(anchor) => (anchors[&anchor.to_string()].clone(), 0),
            Event::MappingStart(anchor, _) => {
                open.push((json!({}), None, anchor));
                continue;
            }
            Event::SequenceStart(anchor, _) => {
                open.push((json!([]), None, anchor));
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => {
                let (value, _, anchor) = open.pop().unwrap();
                (value, anchor)
            }
            _ => continue,
        };
        if anchor > 0 {
            anchors.insert(anchor.to_string(), value.clone());
        }
        let Some((into, key, _)) = open.last_mut() else {
            return value;
        };
        match (into, key.take()) {
            (Value::Array(items), _) => items.push(value),
            // Keys next to a merge take precedence.
            (Value::Object(entries), Some(merge)) if merge == "<<" => {
                for (name, value) in value.as_object().unwrap() {
                    entries.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            (Value::Object(entries), Some(name)) => drop(entries.insert(name, value)),
            (_, none) => {
                drop(none);
                open.last_mut().unwrap().1 = Some(value.as_str().unwrap().to_owned());
            }
        }
    }
    panic!("an empty file");
}

/// Environment of a service, with the variables of the file filled in.
fn environment(service: &Value) -> Vec<(String, String)> {
    let entries = service["environment"].as_object().unwrap().iter();
    let filled = |value: &str| {
        let value = value.replace("${ADMIN_TOKEN}", TOKEN).replace("${SEAL_KEY}", KEY);
        // The other variables are keys, each with a value of its own.
        value.replace("${", "0123456789-").replace('}', "")
    };
    entries
        .map(|(name, value)| (name.clone(), filled(value.as_str().unwrap())))
        .collect()
}

fn config(service: &Value) -> Config {
    let environment: Environment = environment(service).into_iter().collect();
    let file = text("baton.toml");
    Config::from_text(Some(("baton.toml", &file)), &environment, &Flags::default()).unwrap()
}

fn strings(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap())
        .collect()
}

#[test]
fn the_file_is_of_the_specification() {
    let schema = include_str!("../golden/compose-spec.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    // This parser reads numbers as strings, and the specification accepts both.
    let compose = compose();
    let judge = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> = judge
        .iter_errors(&compose)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(faults, [] as [String; 0]);
    let mut wrong = compose;
    wrong["services"]["valkey"]["restarts"] = json!("always");
    assert!(!judge.is_valid(&wrong));
}

#[test]
fn what_it_says_fits_the_config_the_balancers_and_the_dockerfile() {
    let compose = compose();
    let services = compose["services"].as_object().unwrap();
    let replicas = ["baton-1", "baton-2"];
    for name in replicas {
        let service = &services[name];
        let config = config(service);
        assert_eq!(service["hostname"], json!(name));
        assert_eq!(
            (config.server.at.listen.port(), config.admin.at.listen.port()),
            (8787, 8788)
        );
        assert_eq!(
            config.store.address.as_ref().unwrap().servers,
            [("valkey".to_owned(), 6379)]
        );
        // The volumes are its configuration and the writable directory, which belongs to the image's user.
        let volumes = strings(&service["volumes"]);
        let file = service["environment"]["BATON_CONFIG"].as_str().unwrap();
        assert_eq!(volumes[0], format!("./baton.toml:{file}:ro"));
        let dir = config.state_dir.display();
        assert_eq!(volumes[1], format!("{name}:{dir}"));
        assert!(compose["volumes"].get(name).is_some());
        assert!(text("Dockerfile").contains(&format!("--home-dir {dir} ")));
        // Streams may end before the service is killed.
        let grace = service["stop_grace_period"]
            .as_str()
            .unwrap()
            .trim_end_matches('s');
        assert!(grace.parse::<u64>().unwrap() > config.server.drain.as_secs());
    }
    // The variables that must be set are listed in the comment.
    let file = text("compose.yaml");
    let mut asked: Vec<&str> = file
        .split("${")
        .skip(1)
        .map(|rest| rest.split('}').next().unwrap())
        .collect();
    asked.dedup();
    assert_eq!(
        asked,
        [
            "ANTHROPIC_API_KEY",
            "ADA_KEY",
            "GRACE_KEY",
            "ADMIN_TOKEN",
            "SEAL_KEY"
        ]
    );
    let comment = file.split("\nservices:").next().unwrap();
    assert!(asked.iter().all(|name| comment.contains(name)));
    let clients = config(&services["baton-1"]).clients;
    assert_eq!(clients.len(), 2);

    // The balancer's file, its port, and its targets.
    let balancer = &services["balancer"];
    let volumes = strings(&balancer["volumes"]);
    assert!(volumes[0].starts_with("./nginx.conf:/etc/nginx/nginx.conf"));
    assert!(volumes[1].starts_with("./tls:/etc/nginx/tls"));
    assert_eq!(strings(&balancer["ports"]), ["8443:8443"]);
    assert_eq!(strings(&balancer["depends_on"]), replicas);
    for (file, listens) in [
        ("nginx.conf", "listen 8443 ssl;"),
        ("haproxy.cfg", "bind :8443 ssl"),
    ] {
        let balancer = text(file);
        assert!(balancer.contains(listens));
        for name in replicas {
            assert!(balancer.contains(&format!("{name}:8787")), "{file}");
        }
    }

    // The image is built from this repository and contains the program.
    let build = &services["baton-1"]["build"];
    let root = example("").join(build["context"].as_str().unwrap());
    assert!(root.join("Cargo.lock").is_file() && root.join(build["dockerfile"].as_str().unwrap()).is_file());
    let dockerfile = text("Dockerfile");
    assert!(dockerfile.contains("cargo build --profile dist --locked"));
    assert!(dockerfile.contains("/src/target/dist/baton /usr/local/bin/baton"));
    assert!(dockerfile.contains("ENTRYPOINT [\"baton\"]") && dockerfile.contains("CMD [\"serve\"]"));
}

/// With a Redis server.
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs Redis: .ci/full redis"]
    async fn its_server_and_its_replicas_run() {
        let compose = compose();
        let services = compose["services"].as_object().unwrap();
        let command = services["valkey"]["command"].as_str().unwrap();
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("valkey-server"));
        let server = RedisServer::start(&words.collect::<Vec<_>>());
        let dir = temp();
        let mut all = Vec::new();
        for name in ["baton-1", "baton-2"] {
            let mut settings = config(&services[name]).store;
            settings.address = Some(StoreAddress::parse(&server.url()).unwrap());
            assert_eq!(
                RedisStore::new(&settings)
                    .unwrap()
                    .settings_problem()
                    .await
                    .unwrap(),
                None
            );

            // The example with this machine's addresses and directories instead of the containers'.
            let (data, admin) = (free_port(), free_port());
            let file = text("baton.toml")
                .replace("0.0.0.0:8787", &format!("127.0.0.1:{data}"))
                .replace("0.0.0.0:8788", &format!("127.0.0.1:{admin}"))
                .replace("/var/lib/baton", &dir.path().join(name).display().to_string());
            let path = dir.path().join(format!("{name}.toml"));
            std::fs::write(&path, file).unwrap();
            let of_machine = |(variable, value): (String, String)| match variable.as_str() {
                "BATON_CONFIG" => (variable, path.display().to_string()),
                "STORE_URL" => (variable, server.url()),
                _ => (variable, value),
            };
            let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
            command
                .arg("serve")
                .env_clear()
                .envs(environment(&services[name]).into_iter().map(of_machine));
            all.push(Program::launch(command.stderr(std::process::Stdio::null())));
        }
        for program in &all {
            let ready = program.admin("/readyz").await;
            assert_eq!(ready.status, 200, "{}", ready.text());
            let request = http::Request::get(format!("{}/api/status", program.admin))
                .header("authorization", format!("Bearer {TOKEN}"));
            let request = request.body(http_body_util::Full::default()).unwrap();
            let status = read(client().request(request).await.unwrap()).await.json();
            assert_eq!(status["store"], json!("redis"), "{status}");
            let (_, port) = program.data.rsplit_once(':').unwrap();
            assert!(
                status["instance"]
                    .as_str()
                    .unwrap()
                    .ends_with(&format!(":{port}")),
                "{status}"
            );
        }
    }
}

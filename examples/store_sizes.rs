//! Measures the size of records on disk or in a server's memory.
//!
//! Writes handoffs, hidden pairs and conversations into a store, and divides its growth by their number.
//!
//! `cargo run --release --example store_sizes -- [COUNT] [PROMPT_BYTES]` uses SQLite in a temporary directory. With
//! `STORE_URL=redis://HOST:PORT` it uses that server, which should hold nothing else.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use baton_core::record::{Conversation, Handoff, HiddenPair, HiddenResult, InsertionPoint, Update, WireId};
use baton_llm::state::config::{Config, Environment, Flags};
use baton_llm::state::store;
use baton_llm::state::store::records::{PlacedRecord, StoredRecord};
use uuid::Uuid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(10_000), |given| given.parse())?;
    let prompt: usize = arguments.next().map_or(Ok(4_000), |given| given.parse())?;
    let dir = std::env::temp_dir().join(format!("baton-store-sizes-{}", std::process::id()));
    let url = std::env::var("STORE_URL").ok();
    let text = match &url {
        Some(url) => format!("store.kind = 'redis'\nstore.url = '{url}'\nstore.durability = 'memory'\n"),
        None => "store.kind = 'sqlite'\n".to_owned(),
    };
    let config = Config::from_text(
        Some(("example", &text)),
        &Environment::default(),
        &Flags::default(),
    );
    let config = config.map_err(|problems| format!("{problems:?}"))?;
    let size = |dir: &Path| match &url {
        Some(url) => used_memory(url),
        None => Ok(std::fs::metadata(dir.join(store::sqlite::FILE))?.len()),
    };
    let names = [
        "conversation",
        "handoff with its conversation",
        "hidden pair with its conversation",
    ];
    for (step, name) in names.into_iter().enumerate() {
        drop(store::open(&config.store, &dir)?);
        let before = size(&dir)?;
        write(&*store::open(&config.store, &dir)?, step, count, prompt).await?;
        // Closing a store writes its log into its file.
        drop(store::open(&config.store, &dir)?);
        let each = (size(&dir)? - before) / count as u64;
        println!("{name:<34} {each:>8} bytes each, of {count}");
    }
    println!(
        "a handoff's prompt is {prompt} bytes, and stands twice: as text, and as the message that it becomes"
    );
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}

async fn write(
    store: &dyn store::Store,
    step: usize,
    count: usize,
    prompt: usize,
) -> Result<(), Box<dyn Error>> {
    for n in 0..count {
        let key = format!("{:032x}", step * count + n);
        let conversation = Conversation {
            key: key.clone(),
            principal: "local".to_owned(),
            tooled: Some(true),
            ..Conversation::default()
        };
        let update = Update {
            known: conversation,
            changes: Vec::new(),
            now_ms: 1_700_000_000_000 + n as u64,
        };
        if step == 0 {
            store.change(&update).await?;
            continue;
        }
        let text: String = words(n).take(prompt / 8).collect();
        if step == 2 {
            let pair = pair(&key, n, &text);
            store
                .put_with("write", vec![PlacedRecord::Pair(Box::new(pair)).into()], &update)
                .await?;
            continue;
        }
        let handoff = Handoff {
            id: Uuid::now_v7(),
            principal: "local".to_owned(),
            conversation: key,
            head: format!(r#"{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}"#),
            prompt: text,
            reason: Some("task done".to_owned()),
            model: Some("a-model-of-today".to_owned()),
            created_ms: update.now_ms,
            history_bytes: 400_000,
            spelled_out: Some(true),
            ..Handoff::default()
        };
        store
            .put_with("write", vec![StoredRecord::Handoff(Box::new(handoff))], &update)
            .await?;
    }
    Ok(())
}

/// A hidden call that waits for the end of the turn.
fn pair(conversation: &str, n: usize, prompt: &str) -> HiddenPair {
    HiddenPair {
        id: Uuid::now_v7(),
        principal: "local".to_owned(),
        conversation: conversation.to_owned(),
        wire: WireId::Anthropic,
        tool: "session_handoff".to_owned(),
        call_id: format!("toolu_{n:024}"),
        call: format!(
            r#"{{"type":"tool_use","id":"toolu_{n:024}","name":"session_handoff","input":{{"prompt":"{prompt}"}}}}"#
        ),
        answer: HiddenResult::QUEUED,
        place: InsertionPoint::Beside {
            sibling: format!("toolu_{n:023}s"),
            offset: -1,
        },
        pending: Some((prompt.to_owned(), None)),
        created_ms: 1_700_000_000_000 + n as u64,
    }
}

/// Words of eight bytes that do not repeat.
fn words(seed: usize) -> impl Iterator<Item = String> {
    (0..).map(move |n: usize| {
        format!(
            "{:07x} ",
            (seed * 31 + n).wrapping_mul(2_654_435_761) & 0xfff_ffff
        )
    })
}

fn used_memory(url: &str) -> Result<u64, Box<dyn Error>> {
    let address = url.trim_start_matches("redis://").trim_end_matches('/');
    let mut server = TcpStream::connect(address)?;
    server.write_all(b"INFO memory\r\nQUIT\r\n")?;
    let mut said = String::new();
    server.read_to_string(&mut said)?;
    let line = said.lines().find_map(|line| line.strip_prefix("used_memory:"));
    Ok(line.ok_or("the server does not say")?.trim().parse()?)
}

//! A provider to point any agent or SDK at: it enforces the rules of the real APIs, and its model obeys
//! `#task K/N steps=S` lines in the prompt (see `baton_proxy::strict::Autopilot`).
//!
//! `cargo run --example strict_provider -- --listen 127.0.0.1:9999`
#![allow(clippy::print_stdout)]

use std::net::SocketAddr;
use std::time::Duration;

use baton_proxy::strict::{Autopilot, Complaint, Model, Options, Seen, Strict};
use clap::Parser;

/// A scripted LLM provider that enforces the rules of the real APIs.
#[derive(Parser)]
struct Arguments {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:9999")]
    listen: SocketAddr,
    /// Write bodies so many bytes at a time (0: one event at a time).
    #[arg(long, default_value_t = 0)]
    chunk: usize,
    /// Wait so many milliseconds between two writes.
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let Arguments {
        listen,
        chunk,
        delay_ms,
    } = Arguments::parse();
    let model = move |seen: &Seen| {
        let reply = Autopilot.reply(seen).delay(Duration::from_millis(delay_ms));
        if chunk > 0 { reply.in_bytes(chunk) } else { reply }
    };
    let provider = Strict::start(model, Options::default().listen(listen).watch(print)).await?;
    println!("strict provider listening on {}", provider.url());
    provider.serve().await;
    Ok(())
}

fn print(seen: &Seen, complaints: &[Complaint]) {
    println!(
        "#{} {} {} {} bytes, {} messages, {} tools{}",
        seen.number,
        seen.method,
        seen.path,
        seen.raw.len(),
        seen.messages().len(),
        seen.tool_names().len(),
        if seen.offers_handoff() {
            ", handoff on offer"
        } else {
            ""
        },
    );
    for complaint in complaints {
        println!("  ! {complaint}");
    }
}

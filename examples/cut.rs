//! The pure core as a library: parses a request, finds its sentinel, and prints the request that would go upstream.
//!
//! Needs neither a proxy nor a store: the seal in the transcript proves the handoff.
//!
//! `cargo run --example cut --no-default-features`
#![allow(clippy::print_stdout)]

use std::error::Error;

use baton_core::marker::seal::{SealKey, SealKeys};
use baton_core::marker::sentinel;
use baton_core::record::LOCAL;
use baton_core::record::WireId;
use baton_core::rewrite::preamble;
use baton_core::rewrite::{Cut, RequestReading, Rewrite, rewrite};
use baton_core::text::splice;
use baton_core::wire::{Operation, Wire, wire};
use serde_json::json;
use uuid::Uuid;

fn main() -> Result<(), Box<dyn Error>> {
    let wire = wire(WireId::Anthropic);
    let key = SealKeys::from(SealKey::new(*b"a key for the time of an example"));
    let id = Uuid::from_u128(0x0199_a3c2_7d1e_7c3a_9b1f_2f6f_0c9d_8e11);
    let prompt = "The parser is done. Next: the printer.";
    let shown = sentinel::full(id, Some("parser done"), prompt, &key.seal(LOCAL, id, prompt));

    // The request of an agent after a handoff: its whole history, with the sentinel in the middle.
    let body = json!({
        "model": "claude-example", "max_tokens": 1024,
        "tools": [{"name": "read_file", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "Write the parser, then the printer."},
            {"role": "assistant", "content": [
                {"type": "text", "text": "The parser took a thousand lines of output."},
                {"type": "text", "text": wire.sentinel_text(&shown)},
                {"type": "text", "text": "Now the printer."},
            ]},
            {"role": "user", "content": "Good, go on."},
        ],
    });
    let sent = cut(wire, &key, body.to_string())?;
    println!("{sent}");
    Ok(())
}

/// Cuts a request at its newest sentinel.
///
/// # Errors
/// The request cannot be parsed, or has no sentinel with a valid seal.
fn cut(wire: &Wire, key: &SealKeys, body: String) -> Result<String, Box<dyn Error>> {
    let reading =
        RequestReading::new(wire, &body.into(), Operation::Generate).map_err(|why| format!("{why:?}"))?;
    let candidates = reading.candidates();
    let newest = candidates.first().ok_or("no sentinel in it")?;
    let sealed = newest.sentinel.sealed.ok_or("it is not sealed")?;
    let prompt = sealed.opened(&reading.view.body, key, LOCAL, newest.sentinel.id);
    let prompt = prompt.ok_or("the seal is not ours")?;
    let found = preamble::of(&reading.view, None, &[]);
    let head = preamble::head(wire, &found, &prompt);
    let done = rewrite(
        &reading,
        &Rewrite {
            cut: Cut::At {
                candidate: newest,
                prompt: Some(&prompt),
                head: &head,
            },
            tools: Some(baton_core::tools::ToolTable::handoff()),
            ..Rewrite::default()
        },
    );
    Ok(String::from_utf8(splice::flat(done.rope).to_vec())?)
}

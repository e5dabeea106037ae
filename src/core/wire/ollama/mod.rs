//! Ollama's own chat (`/api/chat`): one JSON text a line, arguments as objects, ids that may be missing. API:
//! <https://github.com/ollama/ollama/blob/main/docs/api.md>. Ollama's other chat paths speak other providers' wires.

mod ask_again;
mod compose;
mod error;
mod pairs;
mod reply;
mod request;
mod stream;
mod turns;
mod usage;

#[cfg(test)]
mod tests;
mod text_only;

use crate::record::WireId;
use crate::wire::Wire;

pub struct Ollama;

impl Wire for Ollama {
    fn id(&self) -> WireId {
        WireId::Ollama
    }

    fn provider(&self) -> &'static str {
        "ollama"
    }
}

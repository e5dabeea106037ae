//! Ollama's own chat (`/api/chat`): one JSON text a line, arguments as objects, ids that may be missing. API:
//! <https://github.com/ollama/ollama/blob/main/docs/api.md>. Ollama's other chat paths speak other providers' wires.

mod answer;
mod ask_again;
mod compose;
mod facts;
mod pairs;
mod request;
mod turns;

#[cfg(test)]
mod tests;

pub struct Ollama;

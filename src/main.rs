//! The `baton` binary.

use std::process::ExitCode;

/// Allocator of static binaries. musl's own has one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    baton_llm::cli::main(std::env::args_os())
}

//! The `baton` binary.

use std::process::ExitCode;

/// Static binaries: musl's own allocator has one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    baton_llm::cli::main(std::env::args_os())
}

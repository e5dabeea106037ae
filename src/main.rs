//! The `baton` binary. The command line is a part of it and not of the library, so that the compiler omits unused code.

mod cli;

use std::process::ExitCode;

/// Allocator of static binaries. musl's own has one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main(std::env::args_os())
}

//! The `baton` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    baton_proxy::cli::main(std::env::args_os())
}

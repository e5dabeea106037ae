//! Closing lines of compilers, linters and the programs that drive them.

use super::runner::Runner;
use crate::agents::commands::CommandPurpose::{Build, Lint};

const PLAIN: Runner = Runner {
    name: "",
    purpose: Build,
    by_parts: true,
    opens: None,
    passed: &[],
    failed: &[],
};

pub(super) const BUILDERS: &[Runner] = &[
    Runner {
        name: "rustc",
        passed: &[r"^Finished (`\w[\w-]*` profile|\w+) \[.*target\(s\) in "],
        failed: &[
            r"^error\[E[0-9]{4}\]: ",
            r"^error: could not compile `",
            r"^error: aborting due to ",
            r"^error: linking with `",
        ],
        ..PLAIN
    },
    Runner {
        name: "cargo fmt",
        purpose: Lint,
        failed: &[r"^Diff in \S+( at line [0-9]+)?:[0-9]*:?$"],
        ..PLAIN
    },
    Runner {
        name: "gcc and clang",
        failed: &[
            r"^[^\s:][^:]*:[0-9]+(:[0-9]+)?: (fatal )?error: ",
            r"^collect2: error: ",
            r"^(clang|clang\+\+|gcc|g\+\+|cc|c\+\+|cc1|cc1plus|ld|lld|ld\.lld)(-[0-9]+)?: (fatal )?error: ",
            r"^[0-9]+ warnings? and [1-9][0-9]* errors? generated\.$",
            r"^[1-9][0-9]* errors? generated\.$",
            r"\bundefined reference to [`']",
        ],
        ..PLAIN
    },
    Runner {
        name: "make",
        passed: &[r"^g?make(\[[0-9]+\])?: (Nothing to be done for |'.*' is up to date\.)"],
        failed: &[r"^(g?make|bmake)(\[[0-9]+\])?: \*\*\* "],
        ..PLAIN
    },
    Runner {
        name: "just",
        failed: &[r"^error: [Rr]ecipe `[^`]*` (failed|was terminated)"],
        ..PLAIN
    },
    Runner {
        name: "ninja",
        passed: &[r"^ninja: no work to do\.$"],
        failed: &[r"^ninja: (build stopped|error): "],
        ..PLAIN
    },
    Runner {
        name: "cmake",
        passed: &[r"^-- Build files have been written to: "],
        failed: &[r"^CMake Error", r"^-- Configuring incomplete, errors occurred!"],
        ..PLAIN
    },
    Runner {
        name: "tsc",
        purpose: Lint,
        passed: &[r"^(\[.*\] )?Found 0 errors\. Watching for file changes\.$"],
        failed: &[
            r"^\S+(\([0-9]+,[0-9]+\): |:[0-9]+:[0-9]+ - )error TS[0-9]+: ",
            r"^error TS[0-9]+: ",
            r"^Found [1-9][0-9]* errors?( in |\.$)",
        ],
        ..PLAIN
    },
    Runner {
        name: "go build and vet",
        failed: &[r"^(vet: )?\S+\.go:[0-9]+:[0-9]+: \S"],
        ..PLAIN
    },
    Runner {
        name: "dotnet build",
        passed: &[r"^Build succeeded\.?( in .*)?$"],
        failed: &[
            r"^Build FAILED\.$",
            r"^Build failed with [1-9]",
            r": error (CS|MSB|NU|FS|NETSDK)[0-9]+: ",
        ],
        ..PLAIN
    },
    Runner {
        name: "xcodebuild",
        passed: &[r"^\*\* BUILD SUCCEEDED \*\*"],
        failed: &[r"^\*\* (BUILD|ARCHIVE) FAILED \*\*"],
        ..PLAIN
    },
    Runner {
        name: "swift build",
        passed: &[r"^Build complete! "],
        failed: &[r"^error: fatalError$"],
        ..PLAIN
    },
    Runner {
        name: "bazel build",
        passed: &[r"^INFO: Build completed successfully"],
        failed: &[r"^(ERROR: |FAILED: )?Build did NOT complete successfully"],
        ..PLAIN
    },
    Runner {
        name: "docker build",
        failed: &[
            r"^ERROR: failed to (build|solve): ",
            r"^The command '.*' returned a non-zero code: [0-9]+$",
        ],
        ..PLAIN
    },
    Runner {
        name: "npm",
        failed: &[
            r"^npm (ERR!|error) ",
            r"^ELIFECYCLE (Command|Test) failed",
            r"^ERR_PNPM_",
            r"^error Command failed with exit code [1-9]",
            r#"^error: script "[^"]*" exited with code [1-9]"#,
        ],
        ..PLAIN
    },
    Runner {
        name: "webpack",
        passed: &[r"^webpack [0-9.]+ compiled (successfully|with [0-9]+ warnings?) in "],
        failed: &[r"^webpack [0-9.]+ compiled with [1-9][0-9]* errors?"],
        ..PLAIN
    },
    Runner {
        name: "vite",
        passed: &[r"^✓ built in "],
        failed: &[r"^error during build:$", r"^(x|✗) Build failed in "],
        ..PLAIN
    },
    Runner {
        name: "next",
        passed: &[r"^✓ Compiled successfully"],
        failed: &[r"^Failed to compile\.?$"],
        ..PLAIN
    },
    Runner {
        name: "zig build",
        failed: &[
            r"^Build Summary: .* [1-9][0-9]* failed",
            r"^error: the following (build )?command (failed|exited|terminated)",
        ],
        ..PLAIN
    },
    Runner {
        name: "eslint",
        purpose: Lint,
        passed: &[r"^✖ [0-9]+ problems? \(0 errors, "],
        failed: &[r"^✖ [0-9]+ problems? \([1-9][0-9]* errors?, "],
        ..PLAIN
    },
    Runner {
        name: "ruff",
        purpose: Lint,
        passed: &[
            r"^All checks passed!$",
            r"^Found [0-9]+ errors? \([0-9]+ fixed, 0 remaining\)\.$",
        ],
        failed: &[
            r"^Found [1-9][0-9]* errors?\.$",
            r"^Found [0-9]+ errors? \([0-9]+ fixed, [1-9][0-9]* remaining\)\.$",
            r"^[1-9][0-9]* files? would be reformatted",
        ],
        ..PLAIN
    },
    Runner {
        name: "mypy",
        purpose: Lint,
        passed: &[r"^Success: no issues found in [0-9]+ source files?$"],
        failed: &[r"^Found [1-9][0-9]* errors? in [0-9]+ files?"],
        ..PLAIN
    },
    Runner {
        name: "pyright",
        purpose: Lint,
        passed: &[r"^0 errors, [0-9]+ warnings?, [0-9]+ (informations?|notes?)"],
        failed: &[r"^[1-9][0-9]* errors?, [0-9]+ warnings?, [0-9]+ (informations?|notes?)"],
        ..PLAIN
    },
    Runner {
        name: "black",
        purpose: Lint,
        passed: &[r"^All done! "],
        failed: &[r"^Oh no! "],
        ..PLAIN
    },
    Runner {
        name: "prettier",
        purpose: Lint,
        passed: &[r"^All matched files use Prettier code style!$"],
        failed: &[r"^\[(warn|error)\] Code style issues (found|were found) in "],
        ..PLAIN
    },
    Runner {
        name: "rubocop",
        purpose: Lint,
        passed: &[r"^[0-9]+ files? inspected, no offenses detected$"],
        failed: &[r"^[0-9]+ files? inspected, [1-9][0-9]* offenses? detected"],
        ..PLAIN
    },
    Runner {
        name: "golangci-lint",
        purpose: Lint,
        passed: &[r"^0 issues\.$"],
        failed: &[r"^[1-9][0-9]* issues:$"],
        ..PLAIN
    },
];

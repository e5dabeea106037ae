//! Closing lines of test runners, from their documentation and sources.

use super::runner::Runner;
use crate::agents::commands::CommandPurpose::Test;

const PLAIN: Runner = Runner {
    name: "",
    purpose: Test,
    by_parts: false,
    opens: None,
    passed: &[],
    failed: &[],
};

pub(super) const TEST_RUNNERS: &[Runner] = &[
    Runner {
        name: "cargo test",
        by_parts: true,
        passed: &[r"^test result: ok\. [0-9]+ passed; 0 failed;"],
        failed: &[
            r"^test result: FAILED\.",
            r"^error: test failed, to rerun pass",
            r"^error: [0-9]+ targets? failed:",
            r"^error: doctest failed",
        ],
        ..PLAIN
    },
    Runner {
        name: "cargo nextest",
        passed: &[r"^Summary \[[^\]]*\] [0-9]+ tests? run: [0-9]+ passed( \([^)]*\))?(, [0-9]+ skipped)?$"],
        failed: &[
            r"^Summary \[[^\]]*\] .*\b[1-9][0-9]* (failed|timed out|exec failed)",
            r"^error: test run failed",
        ],
        ..PLAIN
    },
    Runner {
        name: "pytest",
        passed: &[
            r"^(=+ )?([0-9]+ (skipped|deselected|xfailed|xpassed), )*[1-9][0-9]* passed(, [0-9]+ (skipped|deselected|xfailed|xpassed|warnings?|subtests passed|rerun))* in [0-9.]+s",
        ],
        failed: &[
            r"^(=+ )?([0-9]+ [a-z]+, )*[1-9][0-9]* (failed|errors?)\b.* in [0-9.]+s",
            r"^(=+ )?no tests ran in [0-9.]+s",
            r"^(FAILED|ERROR) \S+\.py(::\S|$| - )",
            r"^!+ Interrupted: ",
            r"^FAIL Required test coverage of",
        ],
        ..PLAIN
    },
    Runner {
        name: "unittest",
        opens: Some(r"^Ran [0-9]+ tests? in [0-9.]+s$"),
        passed: &[r"^OK( \((skipped|expected failures)=[^)]*\))?$"],
        failed: &[r"^FAILED \(.*(failures|errors|unexpected successes)=[0-9]+"],
        ..PLAIN
    },
    Runner {
        name: "go test",
        by_parts: true,
        passed: &[r"^ok \S+ ([0-9.]+s|\(cached\))"],
        failed: &[r"^FAIL( \S.*)?$", r"^--- FAIL: ", r"^panic: "],
        ..PLAIN
    },
    Runner {
        name: "jest",
        by_parts: true,
        passed: &[r"^Tests: ([0-9]+ (skipped|todo), )*[0-9]+ passed, [0-9]+ total$"],
        failed: &[
            r"^(Tests|Test Suites|Snapshots): (.*, )?[1-9][0-9]* failed,",
            r#"^Jest: "[^"]*" coverage threshold"#,
        ],
        ..PLAIN
    },
    Runner {
        name: "vitest",
        by_parts: true,
        passed: &[r"^Tests [0-9]+ passed( \| [0-9]+ (skipped|todo|expected fail))* \([0-9]+\)$"],
        failed: &[
            r"^(Tests|Test Files) (.* \| )?[1-9][0-9]* failed\b",
            r"^Errors [1-9][0-9]* errors?$",
        ],
        ..PLAIN
    },
    Runner {
        name: "mocha",
        by_parts: true,
        passed: &[r"^[0-9]+ passing \([^)]+\)$"],
        failed: &[r"^[1-9][0-9]* failing$"],
        ..PLAIN
    },
    Runner {
        name: "node --test",
        passed: &[r"^(#|ℹ) fail 0$"],
        failed: &[r"^(#|ℹ) (fail|cancelled) [1-9][0-9]*$"],
        ..PLAIN
    },
    Runner {
        name: "TAP",
        by_parts: true,
        passed: &[r"^All tests successful\.$", r"^Result: PASS$", r"^# ok$"],
        failed: &[
            r"^Result: FAIL$",
            r"^not ok [0-9]+( [^#]*)?$",
            r"^Bail out!",
            r"^# Looks like you (failed|planned) ",
        ],
        ..PLAIN
    },
    Runner {
        name: "rspec",
        passed: &[r"^[0-9]+ examples?, 0 failures(, [0-9]+ pending)?$"],
        failed: &[r"^[0-9]+ examples?, ([1-9][0-9]* failures?|.*[1-9][0-9]* errors? occurred)"],
        ..PLAIN
    },
    Runner {
        name: "minitest",
        passed: &[r"^[0-9]+ (runs|tests), [0-9]+ assertions, 0 failures, 0 errors\b"],
        failed: &[
            r"^[0-9]+ (runs|tests), [0-9]+ assertions, ([1-9][0-9]* failures|[0-9]+ failures, [1-9][0-9]* errors)",
        ],
        ..PLAIN
    },
    Runner {
        name: "phpunit",
        passed: &[r"^OK \([0-9]+ tests?, [0-9]+ assertions?\)$"],
        failed: &[
            r"^(FAILURES|ERRORS)!$",
            r"^Tests: [0-9]+, Assertions: [0-9]+.* (Failures|Errors): [1-9]",
        ],
        ..PLAIN
    },
    Runner {
        name: "ctest",
        passed: &[r"^100% tests passed(, 0 tests failed)? out of [0-9]+"],
        failed: &[
            r"^[0-9]+% tests passed, [1-9][0-9]* tests? failed out of [0-9]+",
            r"^Errors while running CTest",
        ],
        ..PLAIN
    },
    Runner {
        name: "gtest",
        by_parts: true,
        passed: &[r"^\[ PASSED \] [0-9]+ tests?\.$"],
        failed: &[r"^\[ FAILED \] ", r"^[1-9][0-9]* FAILED TESTS?$"],
        ..PLAIN
    },
    Runner {
        name: "maven",
        by_parts: true,
        passed: &[r"^(\[INFO\] )?BUILD SUCCESS$"],
        failed: &[
            r"^(\[[A-Z]+\] )?BUILD FAILURE$",
            r"^(\[[A-Z]+\] )?Tests run: [0-9]+, (Failures: [1-9]|Failures: 0, Errors: [1-9])",
        ],
        ..PLAIN
    },
    Runner {
        name: "gradle",
        by_parts: true,
        passed: &[r"^BUILD SUCCESSFUL in "],
        failed: &[
            r"^BUILD FAILED( in .*)?$",
            r"^FAILURE: Build (failed|completed with)",
            r"^> Task \S+ FAILED$",
        ],
        ..PLAIN
    },
    Runner {
        name: "dotnet test",
        by_parts: true,
        passed: &[
            r"^Passed! - Failed: 0, Passed: ",
            r"^Test Run Successful\.$",
            r"^Test summary: total: [0-9]+; failed: 0; ",
        ],
        failed: &[
            r"^Failed! - Failed: ",
            r"^Test Run Failed\.$",
            r"^Test summary: total: [0-9]+; failed: [1-9]",
        ],
        ..PLAIN
    },
    Runner {
        name: "ExUnit",
        by_parts: true,
        passed: &[r"^([0-9]+ (doctests?|propert(y|ies)), )*[0-9]+ tests?, 0 failures(, [0-9]+ \w+)*$"],
        failed: &[
            r"^([0-9]+ (doctests?|propert(y|ies)), )*[0-9]+ tests?, [1-9][0-9]* failures?\b",
            r"^== Compilation error in file ",
            r"^\*\* \((CompileError|SyntaxError|TokenMissingError|Mix)\)",
        ],
        ..PLAIN
    },
    Runner {
        name: "eunit",
        passed: &[r"^All [0-9]+ tests passed\.$", r"^Test passed\.$"],
        failed: &[r"^Failed: [1-9][0-9]*\. Skipped: [0-9]+\. Passed: [0-9]+\.$"],
        ..PLAIN
    },
    Runner {
        name: "XCTest",
        by_parts: true,
        passed: &[
            r"^Executed [0-9]+ tests?, with ([0-9]+ tests? skipped and )?0 failures ",
            r"^\*\* TEST SUCCEEDED \*\*$",
            r"^(\S+ )?Test run with [0-9]+ tests?( in [0-9]+ suites?)? passed after ",
        ],
        failed: &[
            r"^Executed [0-9]+ tests?, with ([0-9]+ tests? skipped and )?[1-9][0-9]* failures? ",
            r"^\*\* TEST FAILED \*\*$",
            r"^(\S+ )?Test run with [0-9]+ tests?( in [0-9]+ suites?)? failed after ",
        ],
        ..PLAIN
    },
    Runner {
        name: "bats",
        passed: &[r"^[0-9]+ tests?, 0 failures(, [0-9]+ skipped)?( in [0-9.]+ seconds)?$"],
        failed: &[r"^[0-9]+ tests?, [1-9][0-9]* failures?\b"],
        ..PLAIN
    },
    Runner {
        name: "playwright",
        by_parts: true,
        passed: &[r"^[0-9]+ passed \([0-9.]+(ms|s|m|h)\)$"],
        failed: &[r"^[1-9][0-9]* (failed|interrupted|did not run)$"],
        ..PLAIN
    },
    Runner {
        name: "cypress",
        passed: &[r"^(✔|√) All specs passed!"],
        failed: &[r"^(✖|X) [0-9]+ of [0-9]+ failed \([0-9]+%\)"],
        ..PLAIN
    },
    Runner {
        name: "bazel",
        by_parts: true,
        passed: &[r"^Executed [0-9]+ out of [0-9]+ tests?: [0-9]+ tests? pass(es)?\.$"],
        failed: &[
            r"^INFO: Build completed, [1-9][0-9]* tests? FAILED",
            r"^Executed .*[1-9][0-9]* fails? (locally|remotely)",
            r"^//\S+ (FAILED|TIMEOUT|NO STATUS)\b",
        ],
        ..PLAIN
    },
    Runner {
        name: "deno test",
        passed: &[r"^ok \| [0-9]+ passed.* \| 0 failed"],
        failed: &[r"^FAILED \| [0-9]+ passed", r"^error: Test failed$"],
        ..PLAIN
    },
    Runner {
        name: "bun test",
        passed: &[r"^0 fail$"],
        failed: &[r"^[1-9][0-9]* fail$"],
        ..PLAIN
    },
    Runner {
        name: "flutter test",
        passed: &[r"^[0-9:]+ \+[0-9]+( ~[0-9]+)?: All tests passed!$"],
        failed: &[r"^[0-9:]+ \+[0-9]+( ~[0-9]+)? -[0-9]+: Some tests failed\.$"],
        ..PLAIN
    },
    Runner {
        name: "ava",
        passed: &[r"^[0-9]+ tests? passed$"],
        failed: &[r"^[1-9][0-9]* (tests? failed|uncaught exceptions?)$"],
        ..PLAIN
    },
    Runner {
        name: "jasmine",
        passed: &[r"^[0-9]+ specs?, 0 failures(, [0-9]+ pending specs?)?$"],
        failed: &[r"^[0-9]+ specs?, [1-9][0-9]* failures?\b"],
        ..PLAIN
    },
    Runner {
        name: "karma",
        passed: &[r"^TOTAL: [0-9]+ SUCCESS$", r"Executed [0-9]+ of [0-9]+ SUCCESS"],
        failed: &[
            r"^TOTAL: [1-9][0-9]* FAILED",
            r"Executed [0-9]+ of [0-9]+ \([0-9]+ FAILED\)",
        ],
        ..PLAIN
    },
    Runner {
        name: "Catch2",
        passed: &[r"^All tests passed \([0-9]+ assertions? in [0-9]+ test cases?\)$"],
        failed: &[r"^test cases: [0-9]+ \|.* [1-9][0-9]* failed"],
        ..PLAIN
    },
    Runner {
        name: "doctest",
        passed: &[r"^\[doctest\] Status: SUCCESS!$"],
        failed: &[r"^\[doctest\] Status: FAILURE!$"],
        ..PLAIN
    },
    Runner {
        name: "scalatest",
        passed: &[r"^(\[info\] )?All tests passed\.$"],
        failed: &[r"^(\[info\] )?\*\*\* [1-9][0-9]* TESTS? FAILED \*\*\*$"],
        ..PLAIN
    },
    Runner {
        name: "testthat",
        passed: &[r"^\[ FAIL 0 \| WARN [0-9]+ \| SKIP [0-9]+ \| PASS [0-9]+ \]$"],
        failed: &[r"^\[ FAIL [1-9][0-9]* \| WARN"],
        ..PLAIN
    },
    Runner {
        name: "tox",
        by_parts: true,
        passed: &[r"^congratulations :\)"],
        failed: &[r"^evaluation failed :\("],
        ..PLAIN
    },
    Runner {
        name: "nox",
        by_parts: true,
        passed: &[r"^nox > Session \S+ was successful\."],
        failed: &[r"^nox > Session \S+ failed\.$"],
        ..PLAIN
    },
];

//! Words of shell lines: prefixes, what only looks, what prints, what undoes.

/// What stands in front of a command and changes nothing of what it is: so many words go with it.
pub(super) const PREFIXES: [(&[&str], usize); 15] = [
    (&["sudo"], 0),
    (&["time"], 0),
    (&["exec"], 0),
    (&["nohup"], 0),
    (&["command"], 0),
    (&["npx"], 0),
    (&["bunx"], 0),
    (&["pnpm", "exec"], 0),
    (&["yarn", "exec"], 0),
    (&["uv", "run"], 0),
    (&["poetry", "run"], 0),
    (&["bundle", "exec"], 0),
    (&["timeout"], 1),
    (&["nice", "-n"], 1),
    (&["env"], 0),
];

/// What a line runs commands with that are not seen as such.
pub(super) const HIDING: [&str; 4] = ["$(", "`", "<(", "<<"];

/// Words with which it does.
pub(super) const HIDES: [&str; 17] = [
    "if",
    "for",
    "while",
    "until",
    "!",
    "eval",
    "xargs",
    "sh",
    "bash",
    "zsh",
    "dash",
    "/bin/sh",
    "/bin/bash",
    "parallel",
    "watch",
    "-exec",
    "case",
];

/// Commands that only prepare, and whose failing shells tell of.
pub(super) const PREPARE: [&str; 8] = ["cd", "export", "source", ".", "set", "pushd", "echo", "mkdir"];

/// Commands that change no file, whatever they are called with.
pub(super) const LOOKS: [&str; 48] = [
    "ls",
    "cat",
    "head",
    "tail",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "wc",
    "stat",
    "file",
    "which",
    "pwd",
    "echo",
    "printf",
    "diff",
    "cmp",
    "tree",
    "uniq",
    "cut",
    "tr",
    "jq",
    "test",
    "[",
    "true",
    "false",
    "sleep",
    "date",
    "ps",
    "du",
    "df",
    "printenv",
    "uname",
    "whoami",
    "id",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "nl",
    "cd",
    "export",
    "pushd",
    "popd",
    "type",
    "md5sum",
    "sha256sum",
    "seq",
];

/// Commands that change no file unless one of these words is among their arguments.
pub(super) const LOOKS_WITHOUT: [(&str, &[&str]); 3] = [
    (
        "find",
        &["-delete", "-exec", "-execdir", "-fprint", "-fls", "-ok"],
    ),
    ("sort", &["-o"]),
    ("sed", &["-i", "--in-place"]),
];

/// Commands of git that leave the files of the work tree as they are.
pub(super) const GIT_LOOKS: [&str; 18] = [
    "status",
    "log",
    "diff",
    "show",
    "rev-parse",
    "blame",
    "ls-files",
    "remote",
    "describe",
    "shortlog",
    "grep",
    "reflog",
    "cat-file",
    "add",
    "commit",
    "push",
    "tag",
    "fetch",
];

/// Words with which a command that tests, builds or lints rewrites files.
pub(super) const REWRITES: [&str; 12] = [
    "fmt",
    "format",
    "black",
    "gofmt",
    "--fix",
    "--write",
    "-w",
    "--update",
    "-u",
    "--update-snapshots",
    "--bless",
    "--inplace",
];

/// Words with which such a command only says what it would rewrite.
pub(super) const CHECKS: [&str; 4] = ["--check", "--diff", "-l", "--list-different"];

/// Words with which a shell line removes files, or restores older ones.
pub(super) const UNDOES: [&str; 14] = [
    "rm", "mv", "unlink", "rmdir", "checkout", "restore", "reset", "clean", "stash", "revert", "switch",
    "rebase", "merge", "-delete",
];

/// Commands that print stored texts, of whatever they speak.
pub(super) const PRINTS: [&str; 20] = [
    "bat",
    "less",
    "more",
    "tac",
    "strings",
    "diff",
    "rg",
    "ag",
    "ack",
    "yq",
    "xxd",
    "curl",
    "wget",
    "gh",
    "glab",
    "journalctl",
    "dmesg",
    "find",
    "xargs",
    "zcat",
];

/// Commands that print what is piped into them, and else what is stored.
pub(super) const FILTERS: [&str; 18] = [
    "cat", "head", "tail", "grep", "egrep", "fgrep", "rg", "sed", "awk", "gawk", "cut", "sort", "uniq",
    "tee", "nl", "jq", "column", "wc",
];

/// Words of git that print stored texts.
pub(super) const GIT_PRINTS: [&str; 8] = [
    "diff",
    "show",
    "log",
    "grep",
    "blame",
    "reflog",
    "format-patch",
    "cat-file",
];

/// Commands that print nothing that matters.
pub(super) const QUIET: [&str; 12] = [
    "true", "false", "exit", "sleep", "wait", ":", "test", "[", "pwd", "date", "echo", "printf",
];

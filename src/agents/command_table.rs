//! Which commands test, build, lint, or leave something behind.

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Runs tests.
    Test,
    /// Compiles or packs.
    Build,
    /// Checks without running.
    Lint,
    /// Changes a database's schema.
    Migrate,
    /// Writes files from others.
    Generate,
    /// Adds packages.
    Install,
    /// Starts something that stays.
    Serve,
    /// Changes the repository's history or branches.
    Git,
}

impl Purpose {
    /// Whether it says that the work is right.
    pub fn verifies(self) -> bool {
        matches!(self, Self::Test | Self::Build | Self::Lint)
    }

    /// What it leaves behind, in words; `None` where it leaves nothing that matters later.
    pub fn leaves(self) -> Option<&'static str> {
        match self {
            Self::Migrate => Some("migrated"),
            Self::Generate => Some("generated"),
            Self::Install => Some("installed"),
            Self::Serve => Some("started"),
            Self::Git => Some("repository changed"),
            Self::Test | Self::Build | Self::Lint => None,
        }
    }
}

/// Commands by their first words; `*` at the end takes the rest of a word. The first row that fits counts.
pub(super) const COMMANDS: &[(Purpose, &[&str])] = &[
    (
        Purpose::Lint,
        &[
            "cargo clippy",
            "cargo fmt",
            "cargo deny",
            "eslint",
            "ruff",
            "flake8",
            "pylint",
            "mypy",
            "pyright",
            "black",
            "prettier",
            "golangci-lint",
            "go vet",
            "gofmt",
            "shellcheck",
            "biome",
            "tsc --noEmit",
            "npm run lint*",
            "npm run type*",
            "npm run check*",
            "rubocop",
            "ktlint",
            "swiftlint",
            "make lint",
            "just lint",
        ],
    ),
    (
        Purpose::Test,
        &[
            "cargo test",
            "cargo nextest",
            "npm test",
            "npm t",
            "npm run test*",
            "npm run e2e*",
            "bun test",
            "deno test",
            "pytest",
            "python -m pytest",
            "python -m unittest",
            "go test",
            "jest",
            "vitest",
            "mocha",
            "playwright test",
            "mvn test",
            "mvn verify",
            "gradle test",
            "gradle check",
            "make test*",
            "make check",
            "just test*",
            "ctest",
            "rspec",
            "rake test",
            "rails test",
            "phpunit",
            "dotnet test",
            "mix test",
            "swift test",
            "flutter test",
            "zig build test",
            "bazel test",
            "tox",
            "nox",
            "bats",
            "node --test",
        ],
    ),
    (
        Purpose::Generate,
        &[
            "protoc",
            "buf generate",
            "go generate",
            "cargo sqlx prepare",
            "prisma generate",
            "npm run generate*",
            "npm run codegen*",
            "alembic revision",
            "python manage.py makemigrations",
            "openapi-generator",
            "rails generate",
            "rails g",
            "diesel migration generate",
            "sqlx migrate add",
        ],
    ),
    (
        Purpose::Migrate,
        &[
            "alembic upgrade",
            "alembic downgrade",
            "prisma migrate",
            "prisma db push",
            "rails db:*",
            "rake db:*",
            "python manage.py migrate",
            "sqlx migrate run",
            "diesel migration run",
            "knex migrate:*",
            "flyway migrate",
            "dbmate up",
            "goose up",
            "npm run migrate*",
            "npm run db:*",
        ],
    ),
    (
        Purpose::Install,
        &[
            "npm install",
            "npm i",
            "npm ci",
            "npm add",
            "bun add",
            "bun install",
            "pip install",
            "pip3 install",
            "python -m pip install",
            "uv add",
            "uv sync",
            "uv pip install",
            "poetry add",
            "poetry install",
            "cargo add",
            "cargo install",
            "apt install",
            "apt-get install",
            "brew install",
            "go get",
            "go mod tidy",
            "gem install",
            "bundle install",
            "composer require",
            "dotnet add",
        ],
    ),
    (
        Purpose::Build,
        &[
            "cargo build",
            "cargo check",
            "npm run build*",
            "bun run build*",
            "tsc",
            "vite build",
            "next build",
            "webpack",
            "esbuild",
            "go build",
            "go install",
            "make",
            "just build*",
            "cmake",
            "ninja",
            "mvn package",
            "mvn compile",
            "mvn install",
            "gradle build",
            "gradle assemble",
            "dotnet build",
            "swift build",
            "docker build",
            "bazel build",
            "mix compile",
            "zig build",
            "xcodebuild",
        ],
    ),
    (
        Purpose::Serve,
        &[
            "npm start",
            "npm run dev*",
            "npm run start*",
            "npm run serve*",
            "docker compose up",
            "docker-compose up",
            "docker run -d",
            "uvicorn",
            "gunicorn",
            "flask run",
            "python manage.py runserver",
            "python -m http.server",
            "rails server",
            "rails s",
            "systemctl start",
            "systemctl restart",
            "vite",
            "next dev",
        ],
    ),
    (
        Purpose::Git,
        &[
            "git commit",
            "git push",
            "git merge",
            "git rebase",
            "git cherry-pick",
            "git revert",
            "git reset",
            "git stash",
            "git tag",
            "git checkout -b",
            "git switch -c",
            "git worktree add",
        ],
    ),
];

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

/// Words with which a shell line takes files away, or brings older ones back.
pub(super) const UNDOES: [&str; 14] = [
    "rm", "mv", "unlink", "rmdir", "checkout", "restore", "reset", "clean", "stash", "revert", "switch",
    "rebase", "merge", "-delete",
];

"""The work that every agent is given: a small project with real tests and builds, and the steps of a scripted model.

Half of the shell lines are there because they tell less than it seems: pipes, chains, commands that never ran.
"""

PROJECT = {
    ".gitignore": "__pycache__/\n.pytest_cache/\nbuild/\ntarget/\nnode_modules/\nCargo.lock\n",
    "README.md": "# Calculator\n\nAdds numbers.\n",
    "calc.py": "def add(a, b):\n    return a - b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
    "test_more.py": "import unittest\n\nimport calc\n\n\nclass More(unittest.TestCase):\n    def test_twice(self):\n"
    "        self.assertEqual(calc.twice(2), 4)\n\n    def test_good(self):\n        self.assertTrue(calc.add)\n",
    "slow_test.py": "import time\n\n\ndef test_slow():\n    time.sleep(4)\n",
    "pytest.ini": "[pytest]\ntestpaths = test_calc.py\naddopts = -p no:cacheprovider\n",
    "hello.c": '#include <stdio.h>\n\nint main(void) {\n    puts("hello");\n    retrun 0;\n}\n',
    "Makefile": ".PHONY: all check lint\nall: build/hello\nbuild/hello: hello.c\n\t@mkdir -p build\n\t@cc -o $@ $<\n"
    "check: all\n\t@./build/hello | grep -q goodbye\nlint:\n\t@grep -c puts hello.c\n",
    "app/package.json": '{"name": "page", "private": true, "scripts": {"test": "node --test --test-reporter=dot", "build": "node --check sum.js"}}\n',
    "app/sum.js": "exports.sum = (a, b) => a * b;\n",
    "app/sum.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
    "const { sum } = require('./sum');\ntest('sum', () => assert.strictEqual(sum(2, 3), 5));\n",
    "core/Cargo.toml": '[package]\nname = "core-of-it"\nversion = "0.1.0"\nedition = "2021"\n',
    "core/src/lib.rs": "pub fn half(n: u32) -> u32 {\n    n / 2\n}\n\n#[test]\nfn halves() {\n    assert_eq!(half(4), 2);\n}\n",
    "old.txt": "old\n",
    "gone.txt": "gone\n",
    "a.txt": "a\n",
}


def shell(line):
    return ("shell", line)


PYTEST = "python3 -m pytest -q"
MORE = "python3 -m unittest -q test_more"

FIRST = [
    ("todo", [("Mend the calculator", "in_progress"), ("Mend the page", "pending"), ("Write the notes", "pending")]),
    shell(PYTEST),
    ("read", "calc.py"),
    ("edit", "calc.py", "    return a - b", "    return a + b"),
    shell(f"{PYTEST} 2>&1 | tail -3"),
    shell(PYTEST),
    ("write", "notes.md", "# Notes\n", True),
    shell("cd app && npm test"),
    ("read", "app/sum.js"),
    ("edit", "app/sum.js", "exports.total = (a, b) => a * b;", "exports.total = (a, b) => a + b;"),
    ("edit", "app/sum.js", "exports.sum = (a, b) => a * b;", "exports.sum = (a, b) => a + b;"),
    shell("cd app && npm test"),
    ("write", "README.md", "# Calculator\n", False),
    ("read", "README.md"),
    ("write", "README.md", "# Calculator\n\nAdds two numbers.\n", False),
    ("todo", [("Mend the calculator", "completed"), ("Mend the page", "completed"), ("Write the notes", "in_progress")]),
    shell("make"),
    shell("sed -i 's/retrun/return/' hello.c"),
    shell("make"),
    shell("rm old.txt"),
    shell("rm -f never_was.txt"),
    ("delete", "gone.txt"),
]

SECOND = [
    shell("make check || true"),
    shell('make check; echo "ended with $?"'),
    shell(MORE),
    shell(f"cd nowhere && {PYTEST}"),
    shell(f"mkdir build && {PYTEST}"),
    shell(f"if {PYTEST} > /dev/null; then echo good; else echo bad; fi"),
    shell("! make check"),
    shell(f"{PYTEST} test_missing.py"),
    shell(f"{PYTEST} > report.txt 2>&1"),
    shell("(cd app && npm test --silent)"),
    shell("cd app && node --test"),
    shell(f"timeout 1 {PYTEST} slow_test.py"),
    ("timeout", f"{PYTEST} slow_test.py"),
    ("background", f"{PYTEST} slow_test.py"),
    shell("sleep 7"),
    shell("make lint"),
    ("ask", "Which form shall the numbers have?", ["short", "long"]),
    ("both", ("edit", "calc.py", "    return a + b", "    return b + a"), shell(PYTEST)),
    shell("cargo test -q --manifest-path core/Cargo.toml"),
    shell("cargo build -q --manifest-path core/Cargo.toml && cargo build -q --manifest-path none/Cargo.toml"),
    shell("ruff check ."),
]

THIRD = [
    shell("git add -A && git commit -m 'Mend the calculator'"),
    shell("git status"),
    shell(PYTEST),
    shell(f"{PYTEST} && (cd app && npm test)"),
    shell(f"{PYTEST}\nmake check"),
    shell("set -e; make check; echo never"),
    shell("python3 - <<'EOF'\nopen('made.txt', 'w').write('x')\nEOF"),
    shell("mv a.txt b.txt"),
    shell("cp b.txt c.txt && rm b.txt"),
    ("write", "extra.py", "x = 1\n", True),
    shell("rm extra.py"),
    ("read", "notes.md"),
    ("edit", "notes.md", "# Notes", "# Notes of the work"),
    shell("git checkout notes.md"),
    shell("git checkout -b next"),
    shell("for file in test_calc.py test_more.py; do python3 -m pytest -q $file; done"),
    shell(f"bash -c '{PYTEST}'"),
    shell('out=$(python3 -m pytest -q test_more.py); echo "$out" | tail -1'),
    shell("cd app; npm test"),
    shell("CI=1 npm --prefix app test"),
    shell(f"{PYTEST} # all of them"),
    shell("make check | tee log.txt"),
    shell("set -o pipefail; make check | tail -1"),
    shell(f"{PYTEST} &\nwait"),
    shell("cd app && npm test && cd .. && make check"),
    shell("cd app && npm run build"),
    ("read", "calc.py"),
    ("edit", "calc.py", "    return b + a", "    return b + a\n\n\ndef twice(n):\n    return 2 * n"),
    shell(MORE),
    shell(f"touch calc.py && {PYTEST}"),
    shell("exit 3"),
    ("todo", [("Mend the calculator", "completed"), ("Mend the page", "completed"), ("Write the notes", "completed")]),
]

PROMPTS = [
    ("Mend the calculator and its page.", FIRST),
    ("Now look at the checks.", SECOND),
    ("Commit it, and go on.", THIRD),
]

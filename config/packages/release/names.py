"""Whether the packages' names are free, or ours: what belongs to another project cannot be published, and must not be advertised.

Each registry is asked through its ordinary client. A registry that gives no answer refuses the release, as a foreign name does.
"""

import json
import re
import subprocess
import tempfile
import tomllib
from pathlib import Path

from .common import NPM_NAMES, PACKAGES, ROOT, ReleaseError, manifest, npm_carrier, repository
from .tools import needed

HELP = (
    "  help: a name that is yours has the `repository` of Cargo.toml in its metadata; for another one choose a free name\n"
    "  help: docs/dev/releasing.md says where the names are; `config/packages/build --profile release` makes files for a trial alone"
)


class NoAnswer(Exception):
    """A registry did not say whether it has a name."""


def client(programs, *words):
    """Runs a client outside of the workspace, whose own packages `cargo info` would find."""
    try:
        program = needed(*programs)
    except ReleaseError as missing:
        raise NoAnswer(str(missing)) from missing
    with tempfile.TemporaryDirectory(prefix="baton-names-") as folder:
        return subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=False)


def crates_io(name):
    """The repositories that a published crate names, or `None` where there is no crate of that name."""
    done = client(["cargo"], "info", name, "--registry", "crates-io", "--color", "never")
    if done.returncode == 0:
        return re.findall(r"^repository: (.+)$", done.stdout, re.MULTILINE)
    if f"could not find `{name}` in registry" in done.stderr:
        return None
    raise NoAnswer(last_error(done.stderr))


def npm(name):
    """As `crates_io`. npm prints nothing for a package without a repository."""
    done = client(["npm"], "view", name, "repository.url", "--json", "--fetch-retries=0")
    try:
        answer = json.loads(done.stdout or "[]")
    except ValueError:
        answer = None
    if done.returncode == 0 and answer is not None:
        return [answer] if isinstance(answer, str) else []
    if isinstance(answer, dict) and answer.get("error", {}).get("code") == "E404":
        return None
    raise NoAnswer(last_error(done.stderr))


def pypi(name):
    """As `crates_io`. pip says `No matching distribution` for a missing name and without network, too: only its log has the status."""
    with tempfile.NamedTemporaryFile(prefix="baton-names-", suffix=".json") as report:
        quick = ["--dry-run", "--ignore-installed", "--no-deps", "--pre", "--ignore-requires-python", "--retries", "0"]
        # A source package would run its build script to say what it is.
        wheels = ["--only-binary", ":all:", "--disable-pip-version-check", "-vv"]
        done = client(["pip3", "pip"], "install", name, *quick, *wheels, "--report", report.name)
        if done.returncode == 0:
            metadata = json.loads(Path(report.name).read_text())["install"][0]["metadata"]
            labelled = [url.split(",", 1)[-1] for url in metadata.get("project_url", [])]
            return [*labelled, metadata.get("home_page", "")]
    log = done.stdout + done.stderr
    if re.search(r"Could not fetch URL \S+: 404 ", log):
        return None
    if failure := re.search(r"Could not fetch URL \S+: (.+?) - skipping", log):
        raise NoAnswer(failure[1])
    if "No matching distribution found" in log:
        return []  # The page is there, and has no wheel.
    raise NoAnswer(last_error(done.stderr))


def last_error(text):
    """What a client printed at last, without its own label."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "complete log" not in line]
    return lines[-1] if lines else "the client printed nothing"


def address(url):
    """`host/owner/name` of a repository, however a registry spells its URL."""
    bare = re.sub(r"^(?:git\+)?(?:[a-z]+://)?(?:[^@/]+@)?", "", url.strip().lower())
    return bare.replace(":", "/", 1).rstrip("/").removesuffix(".git")


def published_names():
    """Each registry with its query and our names there."""
    folders = [ROOT, *(ROOT / member for member in manifest()["workspace"]["members"])]
    packages = [tomllib.loads((folder / "Cargo.toml").read_text())["package"] for folder in folders]
    crates = [package["name"] for package in packages if package.get("publish", True)]
    wheel = tomllib.loads((PACKAGES / "pyproject.toml").read_text())["project"]["name"]
    carriers = sorted({npm_carrier(target) for target in NPM_NAMES})
    return [
        ("crates.io", crates_io, crates),
        ("npm", npm, [manifest()["package"]["name"], *carriers]),
        ("PyPI", pypi, [wheel]),
    ]


def verdict(query, name, home):
    """Whether a name may be published, and why."""
    try:
        found = query(name)
    except NoAnswer as reason:
        return False, f"no answer: {reason}"
    if found is None:
        return True, "free"
    if home and address(home) in map(address, found):
        return True, "ours"
    return False, f"belongs to another project ({next(filter(None, found), 'which names no repository')})"


def check():
    """The verdict on each name, a line each. Raises `ReleaseError` where one cannot be published."""
    home = repository()
    lines, refused = [], False
    for registry, query, ours in published_names():
        for name in ours:
            fine, reason = verdict(query, name, home)
            refused = refused or not fine
            lines.append(f"{registry:<9}  {name:<23}  {reason}")
    text = "\n".join(lines)
    if refused:
        raise ReleaseError(f"these names cannot all be published:\n{text}\n{HELP}")
    return text

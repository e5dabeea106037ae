"""The check of names against clients that print what the real ones print: `python3 -m unittest discover config/packages '*_test.py'`."""

import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import names
from .common import ReleaseError

HOME = "https://github.com/owner/baton"

# Each client's output for one name: exit code, standard output, standard error.
CARGO = {
    "free": (101, "", "    Updating crates.io index\nerror: could not find `baton-llm` in registry `crates-io`\n"),
    "ours": (0, f"baton-llm\nversion: 0.1.0\nrepository: {HOME}\n", ""),
    "foreign": (0, "baton-llm\nversion: 0.2.11\nrepository: https://github.com/other/baton\n", ""),
    "nameless": (0, "baton-llm\nversion: 0.2.11\n", ""),
    "offline": (101, "", "error: download of config.json failed\n\nCaused by:\n  [6] Could not resolve hostname\n"),
}
NPM = {
    "free": (1, '{"error": {"code": "E404", "summary": "Not Found"}}', "npm error code E404\n"),
    "ours": (0, f'"git+{HOME}.git"\n', ""),
    "foreign": (0, '"git@github.com:other/baton.git"\n', ""),
    "nameless": (0, "", ""),
    "offline": (1, '{"error": {"code": "EAI_AGAIN"}}', "npm error code EAI_AGAIN\nnpm error A complete log of this run\n"),
}
NO_MATCH = "ERROR: No matching distribution found for baton-llm\n"
PIP = {
    "free": (1, "Could not fetch URL http://index/baton-llm/: 404 Client Error: Not Found - skipping\n", NO_MATCH),
    "ours": (0, "", "", [f"Source Code, {HOME}/"]),
    "foreign": (0, "", "", ["Homepage, https://github.com/other/baton"]),
    # Source packages alone, which are not asked: they would have to run.
    "nameless": (1, "Skipping link: No binaries permitted for baton-llm\n", NO_MATCH),
    "offline": (1, "Could not fetch URL http://index/baton-llm/: connection error: no route - skipping\n", NO_MATCH),
}
REGISTRIES = [("cargo", names.crates_io, CARGO), ("npm", names.npm, NPM), ("pip3", names.pypi, PIP)]


class Clients(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        path = mock.patch.dict(os.environ, {"PATH": f"{self.folder}:/usr/bin:/bin"})
        path.start()
        self.addCleanup(path.stop)

    def fake(self, program, code, stdout, stderr, project_urls=None):
        """A client on the PATH. Its last argument names pip's report, which is written where there is one."""
        said = {"out": stdout, "err": stderr}
        for end, text in said.items():
            (self.folder / f"{program}.{end}").write_text(text)
        lines = ["#!/bin/sh", 'cat "$0.out"', 'cat "$0.err" >&2']
        if project_urls is not None:
            report = {"install": [{"metadata": {"project_url": project_urls}}]}
            (self.folder / f"{program}.report").write_text(json.dumps(report))
            lines += ["for last; do :; done", 'cat "$0.report" > "$last"']
        file = self.folder / program
        file.write_text("\n".join([*lines, f"exit {code}\n"]))
        file.chmod(0o755)

    def test_a_free_name_and_ours_may_be_published(self):
        for program, query, outputs in REGISTRIES:
            for kind in ("free", "ours"):
                with self.subTest(program=program, kind=kind):
                    self.fake(program, *outputs[kind])
                    self.assertEqual((True, kind), names.verdict(query, "baton-llm", HOME))

    def test_the_name_of_another_project_is_refused(self):
        for program, query, outputs in REGISTRIES:
            for kind, named in [("foreign", "other/baton"), ("nameless", "names no repository")]:
                with self.subTest(program=program, kind=kind):
                    self.fake(program, *outputs[kind])
                    fine, reason = names.verdict(query, "baton-llm", HOME)
                    self.assertFalse(fine)
                    self.assertIn(named, reason)

    def test_without_a_repository_of_our_own_no_published_name_is_ours(self):
        for program, query, outputs in REGISTRIES:
            self.fake(program, *outputs["ours"])
            self.assertFalse(names.verdict(query, "baton-llm", None)[0])

    def test_a_registry_that_gives_no_answer_refuses(self):
        reasons = {"cargo": "resolve hostname", "npm": "EAI_AGAIN", "pip3": "connection error: no route"}
        for program, query, outputs in REGISTRIES:
            with self.subTest(program=program):
                self.fake(program, *outputs["offline"])
                fine, reason = names.verdict(query, "baton-llm", HOME)
                self.assertFalse(fine)
                self.assertIn(f"no answer: ", reason)
                self.assertIn(reasons[program], reason)

    def test_a_missing_client_refuses(self):
        with mock.patch.dict(os.environ, {"PATH": str(self.folder)}):
            for program, query, _ in REGISTRIES:
                with self.subTest(program=program):
                    fine, reason = names.verdict(query, "baton-llm", HOME)
                    self.assertFalse(fine)
                    self.assertIn("not on the PATH", reason)

    def test_one_foreign_name_refuses_all_and_each_is_reported(self):
        self.fake("cargo", *CARGO["free"])
        self.fake("npm", *NPM["foreign"])
        self.fake("pip3", *PIP["free"])
        ours = [(program, query, ["baton-llm"]) for program, query, _ in REGISTRIES]
        with mock.patch.object(names, "published_names", lambda: ours), self.assertRaises(ReleaseError) as refused:
            names.check()
        self.assertIn("cargo      baton-llm                free", str(refused.exception))
        self.assertIn("npm        baton-llm                belongs to another project", str(refused.exception))


class Names(unittest.TestCase):
    def test_one_repository_has_one_address(self):
        for url in [HOME, f"{HOME}/", f"git+{HOME}.git", "git@github.com:Owner/baton.git", "ssh://git@github.com/owner/baton"]:
            self.assertEqual("github.com/owner/baton", names.address(url))

    def test_every_package_is_asked_for(self):
        asked = {registry: ours for registry, _, ours in names.published_names()}
        self.assertEqual(["baton-llm", "baton-llm-core", "baton-llm-state", "baton-llm-serve"], asked["crates.io"])
        self.assertIn("baton-llm-linux-x64", asked["npm"])
        self.assertEqual(["baton-llm"], asked["PyPI"])

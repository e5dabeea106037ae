"""The npm packages, without a build: `python3 -m unittest discover config/packages '*_test.py'`."""

import json
import os
import platform
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import packages
from .common import PACKAGES, version


class Npm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_the_launcher_depends_on_the_carriers_that_are_built_only(self):
        out = self.folder / "out"
        out.mkdir()
        (out / f"baton-llm-linux-x64-{version()}.tgz").touch()
        with mock.patch.object(packages, "run"), mock.patch.object(packages, "needed"):
            packages.npm_launcher(out)
        described = json.loads((self.folder / "npm" / "baton-llm" / "package.json").read_text())
        self.assertEqual(described["optionalDependencies"], {"baton-llm-linux-x64": version()})

    @unittest.skipUnless(shutil.which("node"), "there is no Node")
    def test_a_carrier_of_another_version_is_not_started(self):
        cpu = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        carrier = self.folder / "node_modules" / f"baton-llm-{platform.system().lower()}-{cpu}"
        launcher = self.folder / "app" / "node_modules" / "baton-llm"
        for package in (carrier, launcher):
            (package / "bin").mkdir(parents=True)
        shutil.copy2(PACKAGES / "npm" / "baton.js", launcher / "bin")
        (carrier / "bin" / "baton").write_text("#!/bin/sh\necho started\n")
        (carrier / "bin" / "baton").chmod(0o755)
        for carried, code in (("1.0.0", 0), ("0.9.0", 69)):
            for package, stated in ((carrier, carried), (launcher, "1.0.0")):
                (package / "package.json").write_text(json.dumps({"name": package.name, "version": stated}))
            ended = subprocess.run(["node", launcher / "bin" / "baton.js"], capture_output=True, text=True, env={**os.environ, "NODE_PATH": ""})
            self.assertEqual((ended.returncode, ended.stdout), (code, "started\n" * (code == 0)), ended.stderr)
            self.assertEqual("1.0.0" in ended.stderr, code == 69)


if __name__ == "__main__":
    unittest.main()

"""How programs are found: `python3 -m unittest discover config/packages '*_test.py'`."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import tools
from .common import ReleaseError


class Newest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folders = [Path(folder.name) / name for name in ("first", "second")]
        for each in self.folders:
            each.mkdir()
        path = mock.patch.object(tools.os, "get_exec_path", return_value=list(map(str, self.folders)))
        path.start()
        self.addCleanup(path.stop)

    def test_the_newest_release_is_taken_from_any_folder(self):
        for folder, name in [(0, "llvm-bolt-9"), (0, "llvm-bolt-19.bak"), (0, "llvm-bolt"), (1, "llvm-bolt-19"), (1, "llvm-bolt-heatmap")]:
            (self.folders[folder] / name).touch()
        self.assertEqual(tools.newest("llvm-bolt"), self.folders[1] / "llvm-bolt-19")

    def test_a_missing_one_says_what_to_install(self):
        with self.assertRaisesRegex(ReleaseError, "apt-get install bolt-22.*--without-layout"):
            tools.newest("llvm-bolt")


if __name__ == "__main__":
    unittest.main()

"""A crate is published without what lies outside of its folder: what its code takes in is inside, if only as a link."""

import os
import re
import unittest
from pathlib import Path

from .common import ROOT, manifest

INCLUDED = re.compile(r'include_(?:str|bytes)!\("([^"]+)"\)')
IS_TEST = re.compile(r"(?:^|/)tests(?:/|\.rs$)|_tests\.rs$")


class Crates(unittest.TestCase):
    def test_code_includes_files_of_its_crate_alone(self):
        crates = [ROOT / member for member in manifest()["workspace"]["members"] if member.startswith("src")]
        seen = 0
        for crate in crates:
            for file in crate.rglob("*.rs"):
                if IS_TEST.search(str(file.relative_to(crate))):
                    continue
                code = file.read_text().split("#[cfg(test)]\nmod tests {")[0]
                for path in INCLUDED.findall(code):
                    # By its name: a link is packed as the file it leads to.
                    included = Path(os.path.normpath(file.parent / path))
                    self.assertTrue(included.exists(), included)
                    self.assertTrue(included.is_relative_to(crate), f"{file.relative_to(ROOT)} includes {path}")
                    seen += 1
        self.assertGreater(seen, 10)


if __name__ == "__main__":
    unittest.main()

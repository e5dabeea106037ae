"""What is beside the binary in the packages."""

import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import contents
from .common import ReleaseError


class Readme(unittest.TestCase):
    def test_it_has_commands_of_a_package_only(self):
        text = contents.packaged_readme()
        for command in ("baton try ", "baton demo ", "baton run claude "):
            self.assertIn(f"\n{command}", text)
        for lacking in ("cargo run", "cargo install", "clone", "target/release"):
            self.assertNotIn(lacking, text)
        self.assertEqual(re.findall(r"\]\((?!https?:|#)", text), [])

    def test_links_lead_to_the_repository_where_it_has_an_address(self):
        with mock.patch.object(contents, "repository", return_value="https://example.com/baton"):
            text = contents.packaged_readme()
        self.assertIn("](https://example.com/baton/raw/v", text)
        self.assertEqual(re.findall(r"\]\((?!https?:|#)", text), [])

    def test_a_readme_without_the_commands_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(contents, "ROOT", Path(folder)):
            (Path(folder) / "README.md").write_text("# baton\n")
            with self.assertRaises(ReleaseError):
                contents.packaged_readme()


if __name__ == "__main__":
    unittest.main()

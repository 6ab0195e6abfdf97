"""Tests of tools/install-deps with a dpkg and an apt-get that only say what they were asked."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent / "install-deps"

# Knows all packages but those in $MISSING.
DPKG_QUERY = """#!/bin/bash
status=0
for package in "${@:3}"; do
  if [[ " $MISSING " == *" $package "* ]]; then status=1; else echo "installed $package"; fi
done
exit $status
"""


class InstallDepsTest(unittest.TestCase):
    def run_with(self, *groups, missing="", user="0", programs=("dpkg-query", "apt-get", "sudo"), apt_status=0):
        with tempfile.TemporaryDirectory() as folder:
            asked = pathlib.Path(folder) / "asked"
            fakes = {
                "dpkg-query": DPKG_QUERY,
                "apt-get": f'#!/bin/bash\necho "apt-get $*" >> {asked}\nexit {apt_status}\n',
                "sudo": f'#!/bin/bash\necho sudo >> {asked}\n"$@"\n',
            }
            real = ("bash", "env", "dirname", "sed", "awk", "sort", "comm", "grep", "xargs")
            for name in real:
                os.symlink(shutil.which(name), f"{folder}/{name}")
            for name, text in [*((name, fakes[name]) for name in programs), ("id", f"#!/bin/bash\necho {user}\n")]:
                pathlib.Path(folder, name).write_text(text)
                pathlib.Path(folder, name).chmod(0o755)
            environment = {"PATH": folder, "MISSING": missing}
            done = subprocess.run([PROGRAM, *groups], env=environment, capture_output=True, text=True, check=False)
            return done, asked.read_text() if asked.exists() else ""

    def test_nothing_is_asked_of_apt_when_all_is_there(self):
        done, asked = self.run_with()
        self.assertEqual((done.returncode, done.stdout, done.stderr, asked), (0, "", "", ""))

    def test_installs_only_what_is_missing_in_the_groups(self):
        done, asked = self.run_with("build", "lint", missing="cmake shellcheck clang-16")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(asked, r"(?s)^apt-get .*update.*\napt-get .*install .* cmake shellcheck\n$")

    def test_takes_sudo_when_not_root(self):
        self.assertTrue(self.run_with(missing="cmake", user="1000")[1].startswith("sudo\napt-get"))

    def test_without_root_and_sudo_it_says_what_to_do(self):
        done, asked = self.run_with(missing="cmake", user="1000", programs=("dpkg-query", "apt-get"))
        self.assertEqual((done.returncode, asked), (1, ""))
        self.assertIn("apt-get install cmake", done.stderr)

    def test_an_apt_that_fails_is_told(self):
        done, _ = self.run_with(missing="cmake", apt_status=100)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is there a network?", done.stderr)

    def test_a_system_without_dpkg_goes_on_with_a_word(self):
        done, _ = self.run_with("test", programs=())
        self.assertEqual(done.returncode, 0)
        self.assertIn("libgtest-dev", done.stderr)

    def test_an_unknown_group(self):
        done, _ = self.run_with("gpu")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no group 'gpu'", done.stderr)


if __name__ == "__main__":
    unittest.main()

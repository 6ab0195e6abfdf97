"""Tests of .ci/count-results."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / ".ci" / "count-results"

RESULTS = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="x" tests="4" failures="1" disabled="0" skipped="1">
 <testcase name="a" status="run"><system-out>[==========] 7 tests ran.
[  PASSED  ] 5 tests.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] A.B</system-out></testcase>
 <testcase name="b" status="run"><system-out>[  PASSED  ] 1 test.</system-out></testcase>
 <testcase name="c" status="fail"><failure message=""/><system-out></system-out></testcase>
 <testcase name="d" status="notrun"><skipped message="x"/><system-out></system-out></testcase>
</testsuite>
"""


class CountResultsTest(unittest.TestCase):
    def count(self, log, *results):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, text in enumerate((log, *results)):
                files.append(pathlib.Path(folder) / str(number))
                files[-1].write_text(text)
            done = subprocess.run([sys.executable, PROGRAM, *files], capture_output=True, text=True, check=True)
            return done.stdout.strip()

    def test_sums_over_files_and_tools(self):
        self.assertEqual(self.count("", RESULTS), "2 1 6 2")
        log = "fuzz targets: 3 passed, 1 failed\nnoise checks: 9 passed, 9 failed\nchecks: 8 passed, 0 failed\n"
        self.assertEqual(self.count(log, RESULTS, RESULTS), "15 3 12 4")

    def test_nothing_ran(self):
        self.assertEqual(self.count(""), "0 0 0 0")

    def test_a_results_file_that_is_cut_off_is_an_error(self):
        with self.assertRaises(subprocess.CalledProcessError):
            self.count("", RESULTS[:200])


if __name__ == "__main__":
    unittest.main()

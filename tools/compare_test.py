"""Tests of bench/compare."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "bench" / "compare"


def load():
    loader = importlib.machinery.SourceFileLoader("compare", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
    sys.modules["compare"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


compare = load()


def benchmark(*times, **counters):
    runs = [{"name": "dot", "run_type": "iteration", "real_time": time, **counters} for time in times]
    return json.dumps({"benchmarks": runs + [{"name": "dot_mean", "run_type": "aggregate", "real_time": 1}]})


class CompareTest(unittest.TestCase):
    def rows(self, before, after):
        return {row.name: row for row in compare.compare(compare.read(before), compare.read(after))}

    def test_a_change_within_the_spread_is_noise(self):
        self.assertEqual(self.rows(benchmark(100, 90, 110), benchmark(108, 98, 118))["dot"].verdict, "noise")

    def test_a_time_that_grows_is_worse(self):
        self.assertEqual(self.rows(benchmark(100, 101, 99), benchmark(120, 121, 119))["dot"].verdict, "worse")
        self.assertEqual(self.rows(benchmark(100, 101, 99), benchmark(80, 81, 79))["dot"].verdict, "better")

    def test_a_rate_that_grows_is_better(self):
        rows = self.rows(benchmark(1, bytes_per_second=10), benchmark(1, bytes_per_second=20))
        self.assertEqual(rows["dot bytes_per_second"].verdict, "better")
        self.assertEqual(self.rows('{"decode_tps": 10}', '{"decode_tps": 9}')["decode_tps"].verdict, "worse")

    def test_several_objects_in_a_file_are_repetitions(self):
        rows = self.rows('{"a": {"x": 1}}\n{"a": {"x": 3}} {"a": {"x": 2}}\n', '{"a": {"x": 2}, "name": "y", "flag": true}')
        self.assertEqual((rows["a.x"].before, rows["a.x"].verdict), (2, "noise"))
        self.assertEqual(list(rows), ["a.x"])

    def run_main(self, before, after, *options):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            paths = [pathlib.Path(folder) / name for name in ("before", "after")]
            paths[0].write_text(before)
            paths[1].write_text(after)
            return compare.main([*map(str, paths), *options])

    def test_exit_status(self):
        slower = (benchmark(100, 100), benchmark(110, 110))
        self.assertEqual(self.run_main(*slower), 0)
        self.assertEqual(self.run_main(*slower, "--fail-over", "5"), 1)
        self.assertEqual(self.run_main(*slower, "--fail-over", "20"), 0)
        self.assertEqual(self.run_main("no json", "{}"), 2)
        self.assertEqual(self.run_main("{}", "{}"), 2)


if __name__ == "__main__":
    unittest.main()

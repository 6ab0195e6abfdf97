import datetime

from checks import disabled
from checks.fake_tree import CheckTest

TODAY = datetime.date(2027, 1, 31)


class DisabledTest(CheckTest):
    def problems(self, text):
        return [violation.message for violation in disabled.run(self.tree({"src/kv/x_test.cc": text}), TODAY)]

    def test_needs_a_reason_and_a_date(self):
        self.assertIn("needs '// DISABLED until", self.problems("TEST(A, DISABLED_B) {}\n")[0])
        self.assertIn("needs '// DISABLED until", self.problems("// DISABLED until 2027-01-31:\nTEST(A, DISABLED_B) {}\n")[0])
        self.assertEqual(self.problems("// DISABLED until 2027-01-31: the tide is out\nTEST(A, DISABLED_B) {}\n"), [])

    def test_fails_after_the_date(self):
        self.assertIn("until 2027-01-30; mend it", self.problems("// DISABLED until 2027-01-30: x\nTEST(A, DISABLED_B) {}\n")[0])

    def test_a_date_that_is_none(self):
        self.assertIn("is no date", self.problems("// DISABLED until 2027-13-30: x\nTEST(A, DISABLED_B) {}\n")[0])

    def test_a_skip_needs_a_reason(self):
        self.assertEqual(len(self.problems("GTEST_SKIP();\n")), 1)
        self.assertEqual(self.problems('GTEST_SKIP() << "no model";\n'), [])

    def test_code_that_is_never_built(self):
        self.assertEqual(len(self.problems("#if 0\nf();\n#endif\n")), 1)

import unittest

from checks import cpp_source


def spans(text):
    return [(function.first_line, function.last_line) for function in cpp_source.functions(text)]


class StripTest(unittest.TestCase):
    def test_blanks_comments_and_the_insides_of_strings_and_keeps_lines(self):
        text = 'a(); // x {\n/* { \n */ b("{ \\" }"); c(\'{\');'
        self.assertEqual(cpp_source.strip(text).count("\n"), 2)
        self.assertNotIn("{", cpp_source.strip(text))
        self.assertIn("b(", cpp_source.strip(text))

    def test_a_comment_inside_a_string_is_none(self):
        self.assertIn("after", cpp_source.strip('f("http://x"); after();'))

    def test_digit_separators_open_no_character(self):
        self.assertIn("{", cpp_source.strip("int n = 1'000; void f() { g('x'); }"))

    def test_raw_strings(self):
        self.assertEqual(cpp_source.strip('auto s = R"x({ " )" }\n)x"; f();').count("{"), 0)

    def test_strip_comments_keeps_strings(self):
        self.assertEqual(cpp_source.strip_comments('#include "a.h"  // b'), '#include "a.h"      ')


class FunctionsTest(unittest.TestCase):
    def test_finds_functions_in_namespaces_and_classes(self):
        text = "namespace a {\nclass B : public C {\n public:\n  int f() const {\n    return 1;\n  }\n};\n\nvoid g() {\n}\n}  // namespace a\n"
        self.assertEqual(spans(text), [(4, 6), (9, 10)])

    def test_a_comment_before_a_function_does_not_count(self):
        self.assertEqual(spans("// one\n// two\n\nvoid f() {\n}\n"), [(4, 5)])

    def test_nested_blocks_and_lambdas_belong_to_their_function(self):
        self.assertEqual(spans("void f() {\n  if (x) {\n    auto g = [] { return 1; };\n  }\n}\nvoid h() {}\n"), [(1, 5), (6, 6)])

    def test_constructors_with_braced_members(self):
        self.assertEqual(spans("A::A(int a)\n    : a_{a}, b_(1), c_{2} {\n  f();\n}\nvoid g() {}"), [(1, 4), (5, 5)])

    def test_braced_default_arguments(self):
        self.assertEqual(spans("void f(A a = {}, B b = {1}) {\n}\n"), [(1, 2)])

    def test_templates_attributes_and_trailing_types(self):
        text = "template <typename T>\n[[nodiscard]] auto f(T t) -> std::vector<T> {\n  return {};\n}\ntemplate <>\nstruct alignas(64) X<1> {\n  int a = 0;\n};\n"
        self.assertEqual(spans(text), [(1, 4)])

    def test_tables_enums_and_initializers_are_no_functions(self):
        self.assertEqual(spans("enum class E { kA, kB };\nconstexpr std::array<int, 2> kX = {{1, 2}};\nconst A kA[] = {{f(1)}, {f(2)}};\n"), [])

    def test_braces_in_macros_and_in_branches_of_if_do_not_count(self):
        text = "#define OPEN() \\\n  if (x) {\nvoid f() {\n#if A\n  if (a) {\n#else\n  if (b) {\n#endif\n  }\n}\nvoid g() {}\n"
        self.assertEqual(spans(text), [(3, 10), (11, 11)])

    def test_test_bodies_are_functions(self):
        self.assertEqual(spans("TEST(A, B) {\n  EXPECT_TRUE(x);\n}\n"), [(1, 3)])


if __name__ == "__main__":
    unittest.main()

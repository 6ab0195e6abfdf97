from checks import banned
from checks.fake_tree import CheckTest


class BannedTest(CheckTest):
    def assert_banned(self, code, path="src/kv/x.cc"):
        self.assertEqual([violation.line for violation in banned.run(self.tree({path: "\n" + code}))], [2], code)

    def assert_fine(self, code, path="src/kv/x.cc"):
        self.assert_finds(banned.run(self.tree({path: code})))

    def test_libraries_do_not_print_or_exit(self):
        for code in ("printf(x);", "std::fprintf(stderr, x);", "std::cout << x;", "puts(x);", "fmt::print(x);", "abort();", "std::exit(1);", "::_exit(1);"):
            self.assert_banned(code)
            self.assert_fine(code, "src/app/main.cc")
            self.assert_fine(code, "src/kv/x_test.cc")

    def test_a_check_may_abort(self):
        self.assert_fine("std::fprintf(stderr, x); std::abort();", "src/base/check.cc")

    def test_names_that_only_look_alike_are_fine(self):
        self.assert_fine("on_exit(1); loop.exit(); snprintf(b, 1, x); Loop::exit(); exit_code(); operand(); fmt::format(x); lifetime(0);")

    def test_words_in_comments_and_strings_are_fine(self):
        self.assert_fine('// printf(x)\nf("abort()"); /* using namespace std */')

    def test_time_comes_from_port_also_in_tests(self):
        for code in ("std::chrono::steady_clock::now();", "std::this_thread::sleep_for(x);", "usleep(1);", "clock_gettime(a, b);", "time(nullptr);"):
            self.assert_banned(code)
            self.assert_banned(code, "src/kv/x_test.cc")
            self.assert_banned(code, "src/app/x.cc")
            self.assert_fine(code, "src/port/clock.cc")

    def test_the_environment_is_read_in_app_only(self):
        self.assert_banned('std::getenv("HOME");')
        self.assert_fine('std::getenv("HOME");', "src/app/x.cc")
        self.assert_fine('std::getenv("QUIRE_TEST_DATA");', "src/kv/x_test.cc")

    def test_banned_everywhere(self):
        for code in ("rand();", "std::srand(1);", "using  namespace std;"):
            for path in ("src/kv/x.cc", "src/app/x.cc", "src/kv/x_test.cc", "src/port/x.cc"):
                self.assert_banned(code, path)

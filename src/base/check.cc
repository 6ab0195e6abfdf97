#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace quire {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\nThis is a bug in quire; please report it with the lines above.\n", file, line,
               condition, detail.empty() ? "" : ": ", detail.c_str());
  std::abort();
}

}  // namespace quire

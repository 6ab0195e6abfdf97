#include "app/version.h"

#include <fmt/format.h>

#include "kernels/kernels.h"

namespace quire::app {

std::string version_text() {
  return fmt::format("quire {} (arithmetic {}, {})", QUIRE_VERSION, kernels::kArithmeticVersion,
                     to_string(kernels::best_kernel_set().isa));
}

}  // namespace quire::app

// What the program says of itself.
#pragma once

#include <string>

namespace quire::app {

// "quire 0.1.0 (arithmetic 1, avx512-vnni)": the version, the version of the arithmetic and the fastest instruction set here.
[[nodiscard]] std::string version_text();

}  // namespace quire::app

// Any bytes are either refused by gguf::File::parse or give a file all of whose views can be read.
#include <cstddef>
#include <cstdint>

#include "gguf/gguf.h"
#include "tests/support/gguf_visit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = quire::gguf::File::parse(std::as_bytes(std::span(data, size)));
  if (file) quire::test_support::visit_everything(*file);
  return 0;
}

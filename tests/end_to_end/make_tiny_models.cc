// make_tiny_models DIRECTORY: writes the models that the end-to-end tests run where a real one would tell no more.
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/tiny_models.h"

namespace quire::test_support {
namespace {

bool write(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return static_cast<bool>(file.flush());
}

bool write_all(const std::string& directory) {
  TinyModelOptions unknown_key = tiny_llama_options();
  unknown_key.change = [](GgufWriter& writer) { writer.add("llama.attention.flux_capacitor", uint32_t{1}); };
  TinyModelOptions unknown_architecture = tiny_llama_options();
  unknown_architecture.change = [](GgufWriter& writer) {
    writer.remove("general.architecture");
    writer.add("general.architecture", "perceptron");
  };
  return write(directory + "/llama.gguf", tiny_llama_model()) && write(directory + "/gemma3.gguf", tiny_gemma3_model()) &&
         write(directory + "/unknown_key.gguf", tiny_llama_model(unknown_key)) &&
         write(directory + "/unknown_architecture.gguf", tiny_llama_model(unknown_architecture));
}

}  // namespace
}  // namespace quire::test_support

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_tiny_models DIRECTORY\n");
    return 2;
  }
  return quire::test_support::write_all(argv[1]) ? 0 : 1;
}

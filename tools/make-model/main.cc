// quire-make-model: a GGUF file of random weights in a real model's shape, for measuring.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/units.h"
#include "make_model.h"
#include "port/clock.h"
#include "port/file.h"

namespace quire::make_model {
namespace {

constexpr int kUsageError = 2;
constexpr int kFailure = 1;

struct Flags {
  std::string like;
  std::string type = "Q4_K";
  std::string embedding_type;
  std::string output_type;
  std::string tokenizer_from = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
  std::string output;
  int64_t layers = 0;
  int64_t context = 0;
  uint64_t seed = 1;
};

// One of the names, without listing them all beside the flag: the footer does.
CLI::Validator one_of(const std::vector<std::string>& names) { return CLI::IsMember(names).description(""); }

void declare_flags(CLI::App& app, Flags& flags) {
  std::vector<std::string> types;
  for (const gguf::TensorType type : gguf::all_tensor_types()) types.emplace_back(gguf::to_string(type));
  const auto& shapes = test_support::known_shape_names();
  app.add_option("--like", flags.like, "The model whose shape it gets")->required()->type_name("MODEL")->check(one_of(shapes));
  app.add_option("--layers", flags.layers, "Layers, if not as many as that model has")->check(CLI::Range(1, 10000).description(""));
  app.add_option("--context", flags.context, "Context length, if not that model's")->check(CLI::Range(1, 1 << 30).description(""));
  app.add_option("--type", flags.type, "Type of the layers' matrices; rows that its blocks do not divide take smaller blocks")
      ->type_name("TYPE")
      ->check(one_of(types))
      ->capture_default_str();
  app.add_option("--output-type", flags.output_type,
                 "Type of output.weight; else Q8_0 with Q8_0, Q6_K with other blocks, or --type")
      ->type_name("TYPE")
      ->check(one_of(types));
  app.add_option("--embedding-type", flags.embedding_type,
                 "Type of token_embd.weight; else --type, or the output's type if it serves as the output too")
      ->type_name("TYPE")
      ->check(one_of(types));
  app.add_option("--seed", flags.seed, "Another seed gives other weights")->capture_default_str();
  app.add_option("--tokenizer-from", flags.tokenizer_from, "The GGUF file whose tokenizer and vocabulary it gets")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("-o,--output", flags.output, "The file to write; else named after the model, layers and type")->type_name("FILE");
  app.footer(
      fmt::format("MODEL: {}\nTYPE: {}\n\nExample:\n"
                  "  quire-make-model --like llama-3-8b --layers 4 --type Q4_K -o /tmp/llama-3-8b-4.gguf\n",
                  fmt::join(shapes, ", "), fmt::join(types, ", ")));
}

Options options_from(const Flags& flags) {
  Options options;
  options.shape = *test_support::known_shape(flags.like);
  if (flags.layers != 0) options.shape.layers = flags.layers;
  if (flags.context != 0) options.shape.context = flags.context;
  options.shape.name += fmt::format(", {} layers of random weights", options.shape.layers);
  options.matrix_type = *gguf::tensor_type_from_name(flags.type);
  const bool quantized = gguf::block_elements(options.matrix_type) > 1;
  const auto chosen = [](const std::string& name, gguf::TensorType otherwise) {
    return name.empty() ? otherwise : *gguf::tensor_type_from_name(name);
  };
  const auto larger = options.matrix_type == gguf::TensorType::kQ8_0 ? gguf::TensorType::kQ8_0 : gguf::TensorType::kQ6_K;
  options.output_type = chosen(flags.output_type, quantized ? larger : options.matrix_type);
  options.embedding_type = chosen(flags.embedding_type, options.shape.tied_output ? options.output_type : options.matrix_type);
  options.seed = flags.seed;
  return options;
}

// Shows how far it is at a terminal, once it has taken a second.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  void show(uint64_t written, uint64_t total) {
    const double now = port::monotonic_seconds();
    if (!terminal_ || now < next_) return;
    next_ = now + 0.2;
    shown_ = true;
    fmt::print(stderr, "\r\x1b[K{:3} % of {}", 100 * written / total, format_bytes(Bytes(static_cast<int64_t>(total))));
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  double next_ = port::monotonic_seconds() + 1.0;
};

Status run(const Flags& flags) {
  QUIRE_TRY(const auto source, port::MappedFile::open(flags.tokenizer_from));
  const auto tokenizer = gguf::File::parse(source.bytes());
  if (!tokenizer) return at(flags.tokenizer_from, tokenizer.error());
  if (auto tokens = tokenizer->get_array("tokenizer.ggml.tokens"); !tokens) return at(flags.tokenizer_from, tokens.error());
  uint64_t size = 0;
  {
    ProgressLine line;
    QUIRE_TRY(size, make_model(options_from(flags), *tokenizer, flags.output,
                               [&](uint64_t written, uint64_t total) { line.show(written, total); }));
  }
  fmt::print("{}: {}\n", flags.output, format_bytes(Bytes(static_cast<int64_t>(size))));
  return {};
}

}  // namespace
}  // namespace quire::make_model

int main(int argc, char** argv) {
  using namespace quire::make_model;
  CLI::App app{"Writes a GGUF file of random weights in the shape of a real model, for measuring speed and memory.",
               "quire-make-model"};
  Flags flags;
  declare_flags(app, flags);
  app.final_callback([&flags] {
    if (flags.output.empty()) {
      const std::string layers = flags.layers == 0 ? "" : fmt::format("-{}-layers", flags.layers);
      flags.output = fmt::format("{}{}-{}.gguf", flags.like, layers, flags.type);
    }
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  if (const auto status = run(flags); !status) {
    fmt::print(stderr, "quire-make-model: {}\n", status.error().message);
    return kFailure;
  }
  return 0;
}

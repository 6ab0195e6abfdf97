// quire inspect: what is in a model file, and what it takes in memory.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/command.h"
#include "app/input.h"
#include "app/output.h"
#include "gguf/gguf.h"
#include "kv/layer_group.h"
#include "model/config.h"
#include "model/kv_layout.h"
#include "model/weights.h"
#include "port/file.h"
#include "port/machine.h"

namespace quire::app {
namespace {

struct InspectFlags {
  std::string model;
  std::string kv_format = "f16";
  bool json = false;
};

struct TensorGroup {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
};

struct Inspection {
  model::ModelConfig config;
  std::map<std::string, TensorGroup> by_type;
  Bytes file_bytes;
  Bytes weight_bytes;
  std::vector<kv::LayerGroupSpec> groups;
  Bytes granule;

  [[nodiscard]] TokenCount context() const { return TokenCount(config.context_length); }
  [[nodiscard]] Bytes kv_per_token() const {
    Bytes sum;
    for (const kv::LayerGroupSpec& group : groups) sum += kv::bytes_per_token(group);
    return sum;
  }
  [[nodiscard]] Bytes kv_per_sequence() const { return kv::bytes_needed(groups, context(), granule); }
};

Result<Inspection> read_model(const InspectFlags& flags, const port::MappedFile& mapping) {
  QUIRE_TRY(const gguf::File file, gguf::File::parse(mapping.bytes()));
  Inspection seen;
  QUIRE_TRY(seen.config, model::read_config(file));
  QUIRE_TRY(seen.weight_bytes, model::Weights::check(file, seen.config));
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    TensorGroup& group = seen.by_type[std::string(to_string(tensor.type))];
    ++group.tensors;
    group.elements += tensor.elements();
    group.bytes += static_cast<int64_t>(tensor.data.size());
  }
  seen.file_bytes = Bytes(static_cast<int64_t>(mapping.bytes().size()));
  seen.groups = model::layer_groups(seen.config, flags.kv_format == "f32" ? kernels::KvFormat::kF32 : kernels::KvFormat::kF16);
  seen.granule = port::page_bytes();
  return seen;
}

nlohmann::ordered_json to_json(const Inspection& seen) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const auto& [type, group] : seen.by_type) {
    tensors.push_back({{"type", type}, {"tensors", group.tensors}, {"parameters", group.elements}, {"bytes", group.bytes}});
  }
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const kv::LayerGroupSpec& group : seen.groups) {
    groups.push_back({{"name", group.name},
                      {"layers", group.layers},
                      {"window", group.window ? nlohmann::ordered_json(*group.window) : nlohmann::ordered_json()},
                      {"tile_bytes", kv::tile_bytes(group).value},
                      {"kv_bytes_per_token", kv::bytes_per_token(group).value},
                      {"kv_bytes_per_sequence", kv::bytes_needed(group, seen.context(), seen.granule).value}});
  }
  const model::ModelConfig& c = seen.config;
  return {{"architecture", c.architecture},
          {"name", c.name},
          {"context_length", c.context_length},
          {"layers", c.layers.size()},
          {"embedding_length", c.embedding},
          {"feed_forward_length", c.feed_forward},
          {"heads", c.heads},
          {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"vocabulary", c.vocabulary},
          {"tensors", tensors},
          {"file_bytes", seen.file_bytes.value},
          {"weights_bytes", seen.weight_bytes.value},
          {"kv_bytes_per_token", seen.kv_per_token().value},
          {"kv_bytes_per_sequence", seen.kv_per_sequence().value},
          {"layer_groups", groups}};
}

void print_table(const Inspection& seen) {
  const model::ModelConfig& c = seen.config;
  print_output("{} ({})\n", c.name.empty() ? "unnamed model" : one_line(c.name), c.architecture);
  print_output("  {} layers, width {}, feed-forward {}, {} query heads and {} KV heads of {}, {} tokens, context {}\n\n",
               c.layers.size(), c.embedding, c.feed_forward, c.heads, c.kv_heads, c.head_dim, c.vocabulary, c.context_length);
  print_output("{:<10} {:>8} {:>14} {:>12}\n", "type", "tensors", "parameters", "in the file");
  for (const auto& [type, group] : seen.by_type) {
    print_output("{:<10} {:>8} {:>14} {:>12}\n", type, group.tensors, group.elements, format_bytes(Bytes(group.bytes)));
  }
  print_output("\nMemory\n  {:<34} {:>12}\n", "weights", format_bytes(seen.weight_bytes));
  for (const kv::LayerGroupSpec& group : seen.groups) {
    const std::string window = group.window ? fmt::format("window of {}", *group.window) : "all positions";
    print_output("  {:<34} {:>12}  a token; {} for one user at {}\n", fmt::format("KV, {} layers, {}", group.layers.size(), window),
                 format_bytes(kv::bytes_per_token(group)), format_bytes(kv::bytes_needed(group, seen.context(), seen.granule)),
                 c.context_length);
  }
  print_output("  {:<34} {:>12}\n", fmt::format("KV, one user at {} tokens", c.context_length),
               format_bytes(seen.kv_per_sequence()));
}

Status inspect(const InspectFlags& flags) {
  const Result<port::MappedFile> mapping = port::MappedFile::open(flags.model);
  if (!mapping.ok()) return not_usage(mapping.error());
  const Result<Inspection> seen = read_model(flags, *mapping);
  if (!seen.ok()) return at(flags.model, seen.error());
  if (flags.json) {
    print_output("{}\n", to_json(*seen).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print_table(*seen);
  }
  return {};
}

}  // namespace

Command inspect_command(CLI::App& root) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* line = root.add_subcommand("inspect", "Print what a model file holds and what it takes in memory");
  line->add_option("model,-m,--model", flags->model, "The model, a GGUF file")->type_name("FILE")->required();
  line->add_option("--kv-format", flags->kv_format, "Numbers of the KV cache")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str();
  line->add_flag("--json", flags->json, "Print JSON");
  line->footer("Example: quire inspect models/SmolLM2-135M-Instruct.Q4_1.gguf");
  return {.line = line, .run = [flags] { return inspect(*flags); }};
}

}  // namespace quire::app

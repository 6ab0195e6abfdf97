// Weight products against the machine's roofs: the read bandwidth for one row, the integer peak for many. Both roofs are measured
// between the runs, because they move: the cores of a virtual machine are shared. Meant to reach 85 % of the bandwidth at one row
// and 60 % of the peak at 512.
//
//   products_bench                                  all formats, 4096 x 14336
//   products_bench --format Q4_1 --shape 576x576 --rows 1,8 --threads 2 --isa avx2
//   products_bench --smoke                          seconds, tiny matrices: that it still runs
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "bench/roofs.h"
#include "kernels/half.h"
#include "kernels/kernels.h"
#include "port/clock.h"
#include "port/memory.h"
#include "port/threads.h"

namespace quire::kernels {
namespace {

struct Options {
  std::vector<std::string> formats = {"Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "F16", "BF16", "F32"};
  std::vector<std::string> shapes = {"4096x14336"};
  std::vector<int> rows = {1, 2, 4, 8, 16, 32, 128, 512};
  std::vector<int> threads = {1, 2};
  std::string isa;
  double seconds = 0.4;   // a line of the table
  size_t cold_mib = 192;  // weights that the runs walk through: more than the caches hold
  bool smoke = false;
};

struct Shape {
  int outputs;
  int inputs;
};

port::AnonymousMemory allocate(size_t bytes) {
  auto memory = port::AnonymousMemory::allocate(Bytes(static_cast<int64_t>(bytes)));
  if (!memory) {
    std::fprintf(stderr, "products_bench: %s\n", memory.error().message.c_str());
    std::exit(1);
  }
  return std::move(*memory);
}

// --- The integer roof; the others are in bench/roofs.h ---

// Instructions that form 64 products each, in as many chains as hide their latency.
__attribute__((target("avx512f"))) void multiply_registers(int64_t rounds) {
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile(
        "vpdpbusd %%zmm16, %%zmm17, %%zmm0\n vpdpbusd %%zmm16, %%zmm17, %%zmm1\n vpdpbusd %%zmm16, %%zmm17, %%zmm2\n"
        "vpdpbusd %%zmm16, %%zmm17, %%zmm3\n vpdpbusd %%zmm16, %%zmm17, %%zmm4\n vpdpbusd %%zmm16, %%zmm17, %%zmm5\n"
        "vpdpbusd %%zmm16, %%zmm17, %%zmm6\n vpdpbusd %%zmm16, %%zmm17, %%zmm7\n vpdpbusd %%zmm16, %%zmm17, %%zmm8\n"
        "vpdpbusd %%zmm16, %%zmm17, %%zmm9\n vpdpbusd %%zmm16, %%zmm17, %%zmm10\n vpdpbusd %%zmm16, %%zmm17, %%zmm11\n" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
  }
}

constexpr int64_t kPeakRounds = 100000;
constexpr double kPeakProducts = 12.0 * 64 * kPeakRounds;

// --- One line of the table ---

// Copies of one packed matrix, so many that a run never finds its weights in a cache.
struct Weights {
  PackedMatrix matrix;
  size_t bytes;   // of a copy
  size_t stride;  // from one to the next
  int copies;
  port::AnonymousMemory memory;

  [[nodiscard]] PackedMatrix copy(int i) const {
    PackedMatrix result = matrix;
    result.data = memory.bytes().data() + static_cast<size_t>(i % copies) * stride;
    return result;
  }
};

void set_scales(WeightFormat format, std::vector<std::byte>& file) {
  const size_t block_bytes = file_row_bytes(format, block_inputs(format));
  const uint16_t scale = float_to_half(0.01f);
  for (size_t at = 0; reads_quantized(format) && at < file.size(); at += block_bytes) {
    std::memcpy(file.data() + at + (format == WeightFormat::kQ6_K ? 208 : 0), &scale, sizeof(scale));
    if (format == WeightFormat::kQ4_1 || format == WeightFormat::kQ4_K || format == WeightFormat::kQ5_K)
      std::memcpy(file.data() + at + 2, &scale, sizeof(scale));
  }
}

Weights make_weights(WeightFormat format, Shape shape, size_t cold_bytes) {
  std::vector<std::byte> file(static_cast<size_t>(shape.outputs) * file_row_bytes(format, shape.inputs));
  std::minstd_rand random(1);
  for (std::byte& b : file) b = static_cast<std::byte>(random() >> 8 & 0x3f);  // small: also finite as floats
  set_scales(format, file);
  Weights weights;
  weights.matrix = {format, shape.outputs, shape.inputs, nullptr};
  weights.bytes = packed_bytes(format, shape.outputs, shape.inputs);
  weights.stride = (weights.bytes + 63) / 64 * 64;
  weights.copies = std::max(1, static_cast<int>(cold_bytes / weights.bytes));
  weights.memory = allocate(weights.stride * static_cast<size_t>(weights.copies));
  std::byte* first = weights.memory.bytes().data();
  pack_groups(format, file.data(), shape.outputs, shape.inputs, 0, weights.matrix.groups(), first);
  for (int i = 1; i < weights.copies; ++i) std::memcpy(first + static_cast<size_t>(i) * weights.stride, first, weights.bytes);
  return weights;
}

struct Rates {
  double products = 0;   // products a second
  double weights = 0;    // packed bytes a second
  double bandwidth = 0;  // bytes a second that reading alone reaches
  double peak = 0;       // products a second that registers alone reach
};

class Bench {
 public:
  Bench(const KernelSet& set, int threads, const Weights& weights, int rows)
      : set_(set), team_(threads), weights_(weights), rows_(rows) {
    const size_t inputs = static_cast<size_t>(weights.matrix.inputs);
    values_ = allocate(static_cast<size_t>(rows) * inputs * sizeof(float));
    auto* x = reinterpret_cast<float*>(values_.bytes().data());
    std::minstd_rand random(2);
    for (size_t i = 0; i < static_cast<size_t>(rows) * inputs; ++i) x[i] = static_cast<float>(random() % 2001) - 1000.0f;
    activations_ = {x, static_cast<int64_t>(inputs), nullptr, rows, weights.matrix.inputs};
    if (reads_quantized(weights.matrix.format)) {
      quantized_ = allocate(quantized_bytes(rows, weights.matrix.inputs));
      set.products.quantize(x, activations_.stride, rows, weights.matrix.inputs, 0, (rows + kRowTile - 1) / kRowTile,
                            quantized_.bytes().data());
      activations_.quantized = quantized_.bytes().data();
    }
    out_ = allocate(static_cast<size_t>(rows) * static_cast<size_t>(weights.matrix.outputs) * sizeof(float));
  }

  // The best of short runs, each beside its roofs.
  Rates run(double seconds) {
    Rates best;
    const double end = port::monotonic_seconds() + seconds;
    do {
      best.bandwidth =
          std::max(best.bandwidth, bench::read_bandwidth(team_, weights_.memory.bytes().data(), weights_.memory.bytes().size()));
      if (set_.isa == Isa::kAvx512Vnni) best.peak = std::max(best.peak, peak());
      const double time = products();
      const double count = static_cast<double>(weights_.matrix.outputs) * weights_.matrix.inputs * rows_;
      best.products = std::max(best.products, count / time);
      best.weights = std::max(best.weights, static_cast<double>(weights_.bytes) / time);
    } while (port::monotonic_seconds() < end);
    return best;
  }

 private:
  double peak() {
    const double begin = port::monotonic_seconds();
    team_.run([&](port::TeamMember&) { multiply_registers(kPeakRounds); });
    return kPeakProducts * team_.size() / (port::monotonic_seconds() - begin);
  }

  // Seconds of one product, one after the other over all copies (few rows) or some of them (many).
  double products() {
    const double count = static_cast<double>(weights_.matrix.outputs) * weights_.matrix.inputs * rows_;
    const int repeats = std::max(1, std::min(weights_.copies, static_cast<int>(2e10 / count)));
    const int first = next_copy_;
    next_copy_ = (next_copy_ + repeats) % weights_.copies;
    const double begin = port::monotonic_seconds();
    team_.run([&](port::TeamMember& me) {
      const int groups = weights_.matrix.groups();
      for (int i = 0; i < repeats; ++i) {
        set_.products.multiply(weights_.copy(first + i), activations_, groups * me.index / me.count,
                               groups * (me.index + 1) / me.count, Store::kSet, reinterpret_cast<float*>(out_.bytes().data()),
                               weights_.matrix.outputs);
        me.barrier();
      }
    });
    return (port::monotonic_seconds() - begin) / repeats;
  }

  const KernelSet& set_;
  port::ThreadTeam team_;
  const Weights& weights_;
  int rows_;
  port::AnonymousMemory values_;
  port::AnonymousMemory quantized_;
  port::AnonymousMemory out_;
  Activations activations_;
  int next_copy_ = 0;
};

void print_line(const Weights& weights, int threads, int rows, const Rates& rates) {
  std::printf("%-5s %6dx%-6d %2d threads %4d rows %9.1f us  weights %6.1f GB/s = %5.1f %% of %5.1f   products %7.1f G/s",
              std::string(to_string(weights.matrix.format)).c_str(), weights.matrix.outputs, weights.matrix.inputs, threads, rows,
              static_cast<double>(weights.bytes) / rates.weights * 1e6, rates.weights * 1e-9, 100 * rates.weights / rates.bandwidth,
              rates.bandwidth * 1e-9, rates.products * 1e-9);
  if (rates.peak > 0) std::printf(" = %4.1f %% of %.0f", 100 * rates.products / rates.peak, rates.peak * 1e-9);
  std::printf("\n");
  std::fflush(stdout);
}

WeightFormat format_from(const std::string& name) {
  for (int i = 0; i < kWeightFormats; ++i) {
    if (to_string(static_cast<WeightFormat>(i)) == name) return static_cast<WeightFormat>(i);
  }
  std::fprintf(stderr, "products_bench: no format '%s'\n", name.c_str());
  std::exit(2);
}

Shape shape_from(const std::string& text) {
  Shape shape{};
  if (std::sscanf(text.c_str(), "%dx%d", &shape.outputs, &shape.inputs) == 2 && shape.outputs > 0 && shape.inputs > 0) return shape;
  std::fprintf(stderr, "products_bench: '%s' is no shape; one is 4096x14336: outputs x inputs\n", text.c_str());
  std::exit(2);
}

void run_all(const Options& options, const KernelSet& set) {
  for (const std::string& name : options.formats) {
    const WeightFormat format = format_from(name);
    for (const std::string& text : options.shapes) {
      const Shape shape = shape_from(text);
      if (shape.inputs % block_inputs(format) != 0) {
        std::printf("%-5s %s: inputs are no multiple of %d\n", name.c_str(), text.c_str(), block_inputs(format));
        continue;
      }
      const Weights weights = make_weights(format, shape, options.cold_mib << 20);
      for (const int threads : options.threads) {
        for (const int rows : options.rows)
          print_line(weights, threads, rows, Bench(set, threads, weights, rows).run(options.seconds));
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels

int main(int argc, char** argv) {
  using namespace quire::kernels;
  Options options;
  CLI::App app("Weight products against the read bandwidth and the integer peak of this machine.");
  app.add_option("--format", options.formats)->delimiter(',');
  app.add_option("--shape", options.shapes, "outputs x inputs")->delimiter(',');
  app.add_option("--rows", options.rows)->delimiter(',');
  app.add_option("--threads", options.threads)->delimiter(',');
  app.add_option("--isa", options.isa, "instead of the fastest of this processor");
  app.add_option("--seconds", options.seconds, "of each line");
  app.add_option("--cold-mib", options.cold_mib, "weights that the runs walk through");
  app.add_flag("--smoke", options.smoke, "tiny");
  CLI11_PARSE(app, argc, argv);
  if (options.smoke) {
    options.shapes = {"64x512"};
    options.rows = {1, 17};
    options.seconds = 0.001;
    options.cold_mib = 1;
  }
  const auto isa = options.isa.empty() ? best_kernel_set().isa : isa_from(options.isa);
  const KernelSet* set = isa ? kernel_set(*isa) : nullptr;
  if (set == nullptr) {
    std::fprintf(stderr, "products_bench: this processor has no '%s'\n", options.isa.c_str());
    return 2;
  }
  std::printf("%s\n", std::string(to_string(set->isa)).c_str());
  run_all(options, *set);
  return 0;
}

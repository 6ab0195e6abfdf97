#include "tests/simulation/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quire::simulation {
namespace {

using test_support::Random;

template <typename T>
T one_of(Random& random, std::initializer_list<T> values) {
  return *(values.begin() + random.below(static_cast<uint32_t>(values.size())));
}

constexpr std::array<const char*, kEventKinds> kNames = {"unrelated", "shared start", "repeated", "conversation", "burst",
                                                         "cancel",    "ceiling",      "system",   "clear",        "rest"};

void add_layer(Scenario& scenario, std::optional<int64_t> window, int64_t record) {
  scenario.windows.push_back(window);
  scenario.record_bytes.push_back(record);
}

// One full group, one windowed group, or both, their layers mixed.
void choose_groups(Scenario& scenario, Random& random) {
  const int64_t full_record = one_of<int64_t>(random, {256, 320, 512, 768, 1024, 4096});
  const int64_t window_record = one_of<int64_t>(random, {256, 384, 512, 1280});
  const int64_t window = one_of<int64_t>(random, {2, 17, 32, 33, 48, 64, 100});
  const uint32_t kind = random.below(5);
  if (kind <= 1) {
    add_layer(scenario, {}, full_record);
    add_layer(scenario, {}, full_record);
    scenario.groups = {{.name = "full", .layers = {0, 1}, .tile_record = Bytes(full_record), .window = {}}};
  } else if (kind <= 3) {
    add_layer(scenario, {}, full_record);
    add_layer(scenario, window, window_record);
    add_layer(scenario, {}, full_record);
    scenario.groups = {{.name = "full", .layers = {0, 2}, .tile_record = Bytes(full_record), .window = {}},
                       {.name = "window", .layers = {1}, .tile_record = Bytes(window_record), .window = window}};
  } else {
    add_layer(scenario, window, window_record);
    scenario.groups = {{.name = "window", .layers = {0}, .tile_record = Bytes(window_record), .window = window}};
  }
  scenario.granule = Bytes(one_of<int64_t>(random, {256, 512, 1024, 4096}));
}

void choose_settings(Scenario& scenario, Random& random) {
  sched::SchedulerOptions& scheduler = scenario.scheduler;
  scheduler.reserve = one_of(random, {sched::Reserve::kGuaranteed, sched::Reserve::kExpected, sched::Reserve::kOptimistic});
  scheduler.max_running = one_of(random, {1, 2, 5, 256, 256});
  scheduler.step_tokens = TokenCount(one_of<int64_t>(random, {1, 8, 33, 64, 512}));
  scheduler.itl_target_ms = one_of(random, {0.1, 1.0, 5.0, 100.0});
  scheduler.resume_headroom = TokenCount(one_of<int64_t>(random, {1, 8, 32}));
  scheduler.ageing_ns = one_of<int64_t>(random, {50'000'000, 1'000'000'000, 10'000'000'000});
  scheduler.stall_limit_ns = 2'000'000'000;
  scenario.context = TokenCount(one_of<int64_t>(random, {40, 96, 160, 257, 400}));
  scenario.stream_capacity = one_of<size_t>(random, {1, 2, 8, 64});
  scenario.background_backing = random.below(3) == 0;
  scenario.share = random.below(8) != 0;
  scenario.segments.largest = TileCount(one_of<int64_t>(random, {1, 3, INT64_MAX, INT64_MAX, INT64_MAX}));
  scenario.segments.warm_sets = one_of<size_t>(random, {0, 1, 4, 1024});
  scenario.budget_factor = one_of(random, {0.5, 1.0, 1.2, 2.0, 4.0, 30.0});
  scenario.model.max_rows = one_of(random, {8, 40, 64, 200});
  scenario.model.max_logit_rows = one_of(random, {1, 3, 16});
}

void choose_traffic(Scenario& scenario, Random& random) {
  for (uint32_t& weight : scenario.weights) weight = random.below(3) == 0 ? 0 : 1 + random.below(8);
  // Something comes, and more often than it goes.
  const auto weight_of = [&](EventKind kind) -> uint32_t& { return scenario.weights[static_cast<size_t>(kind)]; };
  weight_of(one_of(random, {EventKind::kUnrelated, EventKind::kSharedStart, EventKind::kBurst})) += 8;
  if (random.below(2) == 0) weight_of(EventKind::kCeiling) = weight_of(EventKind::kSystemMemory) = 0;
  if (random.below(2) == 0) weight_of(EventKind::kSystemMemory) = 0;
  scenario.events = static_cast<int>(10 + random.below(40));
  scenario.pause_ns = one_of<int64_t>(random, {100'000, 2'000'000, 20'000'000});
  scenario.tenants = 1 + random.below(4);
  scenario.priorities = one_of(random, {1U, 1U, 3U});
  scenario.salts = one_of(random, {1U, 1U, 2U});
  scenario.slow_readers_in_ten = one_of(random, {0U, 0U, 3U});
  scenario.deadlines_in_ten = one_of(random, {0U, 0U, 2U});
  scenario.ends_one_in = one_of(random, {5U, 30U, 200U});
  scenario.lowest_ceiling = one_of(random, {0.1, 0.5, 0.9});
}

}  // namespace

Scenario make_scenario(uint64_t seed) {
  Scenario scenario;
  scenario.seed = seed;
  Random random(mix(seed ^ 0x5ce9a510));
  choose_groups(scenario, random);
  choose_settings(scenario, random);
  choose_traffic(scenario, random);
  scenario.model.record_bytes = scenario.record_bytes;
  scenario.model.seed = random.next();
  return scenario;
}

std::string Scenario::describe() const {
  std::string text = fmt::format("granule {}, context {}, budget {} x a full context, {}, {}\n", granule.value, context.value,
                                 budget_factor, sched::to_string(scheduler.reserve), share ? "shared" : "nothing shared");
  for (const kv::LayerGroupSpec& group : groups) {
    text += fmt::format("group {}: {} layers of {} a tile, window {}\n", group.name, group.layers.size(), group.tile_record.value,
                        group.window.value_or(0));
  }
  text +=
      fmt::format("at most {} running, {} tokens a step (pass {}, logits {}), ITL {} ms, headroom {}, streams of {}{}\n",
                  scheduler.max_running, scheduler.step_tokens.value, model.max_rows, model.max_logit_rows, scheduler.itl_target_ms,
                  scheduler.resume_headroom.value, stream_capacity, background_backing ? ", backing ahead" : "");
  text += fmt::format("sets of at most {} tiles, {} warm\n", segments.largest.value, segments.warm_sets);
  text += fmt::format("{} events every {} us, {} tenants, {} priorities, {} salts, slow {}/10, deadlines {}/10, ceiling from {}\n",
                      events, pause_ns / 1000, tenants, priorities, salts, slow_readers_in_ten, deadlines_in_ten, lowest_ceiling);
  for (size_t kind = 0; kind < kEventKinds; ++kind) text += fmt::format("{} {}  ", kNames[kind], weights[kind]);
  return text + "\n";
}

}  // namespace quire::simulation

#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace quire {

std::string format_bytes(Bytes bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes.value);
  size_t unit = 0;
  while (std::abs(amount) >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  if (amount == std::floor(amount)) return fmt::format("{:.0f} {}", amount, kUnits[unit]);
  return fmt::format("{:.{}f} {}", amount, std::abs(amount) < 10 ? 2 : std::abs(amount) < 100 ? 1 : 0, kUnits[unit]);
}

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 9> kParsedUnits = {{{"", 1},
                                               {"B", 1},
                                               {"KiB", 1024.0},
                                               {"MiB", 1024.0 * 1024},
                                               {"GiB", 1024.0 * 1024 * 1024},
                                               {"TiB", 1024.0 * 1024 * 1024 * 1024},
                                               {"KB", 1e3},
                                               {"MB", 1e6},
                                               {"GB", 1e9}}};

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  double amount = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), amount, std::chars_format::fixed);
  if (code != std::errc() || !(amount >= 0)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("'{}' is no size in bytes; write for example 2GiB or 512MiB", text));
  }
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const Unit& known : kParsedUnits) {
    if (unit != known.name) continue;
    const double bytes = amount * known.factor;
    if (bytes > 9e18) return make_error(ErrorCode::kInvalidArgument, fmt::format("'{}' is larger than any memory", text));
    return Bytes(static_cast<int64_t>(bytes));
  }
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' has the unknown unit '{}'; use B, KiB, MiB, GiB, TiB (1024) or KB, MB, GB (1000)", text, unit));
}

}  // namespace quire

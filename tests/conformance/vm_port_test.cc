// The contract of port/vm.h, held against every implementation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "port/fault_vm.h"
#include "port/posix_vm.h"
#include "port/sim_vm.h"

namespace quire::port {
namespace {

// A port and, where it is a stage, the one below it.
struct Ports {
  std::unique_ptr<Vm> below;
  std::unique_ptr<Vm> vm;
};

// A world makes ports; make_small() one with room for `granules` of physical memory, where that can be had.
struct PosixWorld {
  static Ports make() { return {nullptr, std::make_unique<PosixVm>()}; }
  static Ports make_small(int64_t) { return {}; }
};

template <int64_t kGranule, bool kRealMemory>
struct SimWorld {
  static Ports make() { return make_small(INT64_MAX / kGranule); }
  static Ports make_small(int64_t granules) {
    return {nullptr, std::make_unique<SimVm>(SimVmOptions{
                         .granule = Bytes(kGranule), .physical_limit = Bytes(granules * kGranule), .real_memory = kRealMemory})};
  }
};

// A stage that has no plan must not change anything.
struct StagedWorld {
  static Ports make() { return staged(SimWorld<4096, true>::make()); }
  static Ports make_small(int64_t granules) { return staged(SimWorld<4096, true>::make_small(granules)); }
  static Ports staged(Ports ports) {
    auto stage = std::make_unique<FaultyVm>(*ports.vm);
    return {std::move(ports.vm), std::move(stage)};
  }
};

template <typename World>
class VmPortTest : public ::testing::Test {
 protected:
  [[nodiscard]] VmRange granules(int64_t first, int64_t count) const { return {vm_->granule() * first, vm_->granule() * count}; }
  Reservation reserve(int64_t count) {
    Result<Reservation> reservation = vm_->reserve(vm_->granule() * count);
    QUIRE_CHECK(reservation.ok());
    return std::move(reservation).value();
  }
  void back(const Reservation& reservation, VmRange range) {
    const Result<Backing> backing = vm_->back(reservation, range);
    ASSERT_TRUE(backing.ok());
    ASSERT_EQ(*backing, Backing::kBacked);
  }
  [[nodiscard]] int64_t backed_granules(const Reservation& reservation, VmRange range) const {
    const Bytes bytes = vm_->query(reservation, range);
    EXPECT_EQ(bytes.value % vm_->granule().value, 0);
    return bytes.value / vm_->granule().value;
  }
  [[nodiscard]] int64_t backed_granules(const Reservation& reservation) const {
    return backed_granules(reservation, {Bytes(0), reservation.bytes()});
  }
  void fill(const Reservation& reservation, VmRange range, int value) {
    if (vm_->has_memory()) std::memset(reservation.base() + range.offset.value, value, static_cast<size_t>(range.length.value));
  }
  [[nodiscard]] bool holds(const Reservation& reservation, VmRange range, int value) const {
    if (!vm_->has_memory()) return true;
    const std::byte* begin = reservation.base() + range.offset.value;
    return std::all_of(begin, begin + range.length.value, [&](std::byte b) { return b == static_cast<std::byte>(value); });
  }

  Ports ports_ = World::make();
  Vm* vm_ = ports_.vm.get();
};

using Worlds = ::testing::Types<PosixWorld, SimWorld<4096, true>, SimWorld<4096, false>, SimWorld<2 << 20, false>, StagedWorld>;
class WorldNames {
 public:
  template <typename World>
  static std::string GetName(int index) {
    const char* names[] = {"Posix", "SimWithMemory", "Sim", "SimWithLargeGranules", "StagedSim"};
    return names[index];
  }
};
TYPED_TEST_SUITE(VmPortTest, Worlds, WorldNames);

TYPED_TEST(VmPortTest, AReservationIsAlignedRoundedUpAndUnbacked) {
  const int64_t unit = this->vm_->granule().value;
  EXPECT_EQ(unit & (unit - 1), 0);
  for (const int64_t bytes : {int64_t{1}, unit, unit + 1, 5 * unit - 1}) {
    Result<Reservation> reservation = this->vm_->reserve(Bytes(bytes));
    ASSERT_TRUE(reservation.ok());
    EXPECT_EQ(reservation->bytes().value, round_up(bytes, unit));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(reservation->base()) % static_cast<uintptr_t>(unit), 0U);
    EXPECT_EQ(this->backed_granules(*reservation), 0);
    this->vm_->release(std::move(*reservation));
    EXPECT_TRUE(reservation->empty());
  }
}

TYPED_TEST(VmPortTest, BacksExactlyWhatWasAsked) {
  Reservation reservation = this->reserve(64);
  this->back(reservation, this->granules(3, 10));
  EXPECT_EQ(this->backed_granules(reservation), 10);
  EXPECT_EQ(this->backed_granules(reservation, this->granules(0, 3)), 0);
  EXPECT_EQ(this->backed_granules(reservation, this->granules(12, 5)), 1);
  this->back(reservation, this->granules(63, 1));
  EXPECT_EQ(this->backed_granules(reservation), 11);
  EXPECT_TRUE(this->holds(reservation, this->granules(3, 10), 0));
  this->vm_->release(std::move(reservation));
}

TYPED_TEST(VmPortTest, BackingAgainKeepsTheContent) {
  Reservation reservation = this->reserve(16);
  this->back(reservation, this->granules(2, 4));
  this->fill(reservation, this->granules(2, 4), 0x42);
  this->back(reservation, this->granules(0, 8));
  EXPECT_EQ(this->backed_granules(reservation), 8);
  EXPECT_TRUE(this->holds(reservation, this->granules(2, 4), 0x42));
  EXPECT_TRUE(this->holds(reservation, this->granules(0, 2), 0));
  EXPECT_TRUE(this->holds(reservation, this->granules(6, 2), 0));
  this->vm_->release(std::move(reservation));
}

TYPED_TEST(VmPortTest, GivesBackExactlyThatAndZerosComeAgain) {
  Reservation reservation = this->reserve(32);
  this->back(reservation, this->granules(0, 32));
  this->fill(reservation, this->granules(0, 32), 0x77);
  this->vm_->give_back(reservation, this->granules(5, 7));
  EXPECT_EQ(this->backed_granules(reservation), 25);
  EXPECT_EQ(this->backed_granules(reservation, this->granules(5, 7)), 0);
  EXPECT_TRUE(this->holds(reservation, this->granules(0, 5), 0x77));
  EXPECT_TRUE(this->holds(reservation, this->granules(12, 20), 0x77));
  this->back(reservation, this->granules(5, 7));
  EXPECT_TRUE(this->holds(reservation, this->granules(5, 7), 0));
  EXPECT_EQ(this->backed_granules(reservation), 32);
  this->vm_->release(std::move(reservation));
}

TYPED_TEST(VmPortTest, GivingBackWhatIsNotBackedAndEmptyRangesAreFine) {
  Reservation reservation = this->reserve(8);
  this->vm_->give_back(reservation, this->granules(0, 8));
  this->back(reservation, this->granules(4, 0));
  this->vm_->give_back(reservation, this->granules(8, 0));
  EXPECT_EQ(this->backed_granules(reservation, this->granules(2, 0)), 0);
  EXPECT_EQ(this->backed_granules(reservation), 0);
  this->back(reservation, this->granules(4, 1));
  this->vm_->give_back(reservation, this->granules(0, 8));
  EXPECT_EQ(this->backed_granules(reservation), 0);
  this->vm_->release(std::move(reservation));
}

TYPED_TEST(VmPortTest, ReservationsAreApart) {
  Reservation first = this->reserve(4);
  Reservation second = this->reserve(4);
  const auto begin = [](const Reservation& r) { return reinterpret_cast<uintptr_t>(r.base()); };
  EXPECT_TRUE(begin(first) + static_cast<uintptr_t>(first.bytes().value) <= begin(second) ||
              begin(second) + static_cast<uintptr_t>(second.bytes().value) <= begin(first));
  this->back(first, this->granules(0, 4));
  this->fill(first, this->granules(0, 4), 1);
  EXPECT_EQ(this->backed_granules(second), 0);
  this->vm_->release(std::move(second));
  EXPECT_EQ(this->backed_granules(first), 4);
  EXPECT_TRUE(this->holds(first, this->granules(0, 4), 1));
  this->vm_->release(std::move(first));
}

TYPED_TEST(VmPortTest, ATokenMoves) {
  Reservation reservation = this->reserve(4);
  std::byte* base = reservation.base();
  Reservation moved = std::move(reservation);
  EXPECT_TRUE(reservation.empty());
  EXPECT_EQ(moved.base(), base);
  this->back(moved, this->granules(0, 1));
  reservation = std::move(moved);
  this->vm_->release(std::move(reservation));
}

TYPED_TEST(VmPortTest, WhatCannotBeReservedIsAnErrorWithNumbers) {
  const Bytes too_much(INT64_MAX - 5);
  const Result<Reservation> reservation = this->vm_->reserve(too_much);
  ASSERT_FALSE(reservation.ok()) << "more than the address space";
  EXPECT_EQ(reservation.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(reservation.error().message, ::testing::HasSubstr("cannot reserve"));
}

TYPED_TEST(VmPortTest, ARefusalLeavesOtherMemoryAsItWasAndCanBeUndone) {
  const Ports ports = TypeParam::make_small(6);
  Vm* small = ports.vm.get();
  if (small == nullptr) GTEST_SKIP() << "this port's memory has no limit that a test can set";
  Result<Reservation> reservation = small->reserve(small->granule() * 16);
  ASSERT_TRUE(reservation.ok());
  const Bytes unit = small->granule();
  ASSERT_EQ(*small->back(*reservation, {unit * 0, unit * 4}), Backing::kBacked);
  EXPECT_EQ(*small->back(*reservation, {unit * 4, unit * 8}), Backing::kNoMemory);
  EXPECT_EQ(small->query(*reservation, {unit * 0, unit * 4}), unit * 4);
  small->give_back(*reservation, {unit * 4, unit * 8});
  EXPECT_EQ(small->query(*reservation, {unit * 0, unit * 16}), unit * 4);
  EXPECT_EQ(*small->back(*reservation, {unit * 14, unit * 2}), Backing::kBacked);
  small->release(std::move(*reservation));
}

template <typename World>
using VmPortDeathTest = VmPortTest<World>;
TYPED_TEST_SUITE(VmPortDeathTest, Worlds, WorldNames);

TYPED_TEST(VmPortDeathTest, BrokenPreconditionsAreBugs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Reservation reservation = this->reserve(4);
  const Ports other = TypeParam::make();
  const Bytes unit = this->vm_->granule();
  EXPECT_DEATH((void)this->vm_->back(reservation, {Bytes(1), unit}), "range");
  EXPECT_DEATH(this->vm_->give_back(reservation, {unit * 3, unit * 2}), "range");
  EXPECT_DEATH((void)this->vm_->query(reservation, {unit * 5, Bytes(0)}), "range");
  EXPECT_DEATH((void)other.vm->back(reservation, {Bytes(0), unit}), "another port");
  EXPECT_DEATH((void)this->vm_->back(Reservation(), {Bytes(0), unit}), "empty reservation");
  EXPECT_DEATH({ Reservation dropped = this->reserve(1); }, "without release");
  this->vm_->release(std::move(reservation));
}

// --- What only the host can show ---

int64_t mapping_count() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

TEST(PosixVm, UnbackedMemoryReadsZero) {
  PosixVm vm;
  Result<Reservation> reservation = vm.reserve(Bytes(1 << 20));
  ASSERT_TRUE(reservation.ok());
  EXPECT_EQ(reservation->base()[12345], std::byte{0});
  vm.release(std::move(*reservation));
}

TEST(PosixVm, ManyBackedHolesStayOneMapping) {
  PosixVm vm;
  Result<Reservation> reservation = vm.reserve(Bytes(int64_t{1} << 30));
  ASSERT_TRUE(reservation.ok());
  const int64_t before = mapping_count();
  const Bytes page = vm.granule();
  for (int64_t i = 0; i < 500; ++i) ASSERT_EQ(*vm.back(*reservation, {page * (i * 3), page}), Backing::kBacked);
  for (int64_t i = 0; i < 500; i += 7) vm.give_back(*reservation, {page * (i * 3), page});
  // The heap may have got a mapping of its own meanwhile.
  EXPECT_LE(mapping_count(), before + 2);
  vm.release(std::move(*reservation));
}

// The resident set as the kernel accounts it, for a second opinion on query().
TEST(PosixVm, SmapsAgreesWithQuery) {
  PosixVm vm;
  Result<Reservation> reservation = vm.reserve(Bytes(int64_t{64} << 20));
  ASSERT_TRUE(reservation.ok());
  ASSERT_EQ(*vm.back(*reservation, {Bytes(1 << 20), Bytes(3 << 20)}), Backing::kBacked);
  vm.give_back(*reservation, {Bytes(2 << 20), Bytes(1 << 20)});
  std::ifstream smaps("/proc/self/smaps");
  char wanted[32];
  (void)std::snprintf(wanted, sizeof(wanted), "%lx-", reinterpret_cast<unsigned long>(reservation->base()));
  bool in_mapping = false;
  int64_t resident_kb = -1;
  bool is_dumped = true;
  bool may_be_huge = true;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ') && line.find(" kB") == std::string::npos && line.find("VmFlags") != 0) {
      in_mapping = line.starts_with(wanted);
    }
    if (in_mapping && line.starts_with("Rss:")) resident_kb = std::stol(line.substr(4));
    if (in_mapping && line.starts_with("VmFlags:")) {
      is_dumped = line.find(" dd") == std::string::npos;
      may_be_huge = line.find(" nh") == std::string::npos;
    }
  }
  if (resident_kb == -1) GTEST_SKIP() << "the mapping was merged with a neighbour and has no line of its own";
  EXPECT_EQ(resident_kb, 2048);
  EXPECT_EQ(vm.query(*reservation, {Bytes(0), reservation->bytes()}), Bytes(2 << 20));
  EXPECT_FALSE(is_dumped) << "prompts must stay out of core dumps";
  EXPECT_FALSE(may_be_huge) << "khugepaged would back what was given back";
  vm.release(std::move(*reservation));
}

TEST(PosixVm, ReservingATebibyteIsFreeHere) {
  if (!reserving_is_free(Bytes(int64_t{1} << 40))) GTEST_SKIP() << "this machine limits address space or overcommit";
  PosixVm vm;
  Result<Reservation> reservation = vm.reserve(Bytes(int64_t{1} << 40));
  ASSERT_TRUE(reservation.ok());
  ASSERT_EQ(*vm.back(*reservation, {Bytes(int64_t{1} << 39), vm.granule()}), Backing::kBacked);
  vm.release(std::move(*reservation));
}

// Sanitizers need addresses and file descriptors of their own, which these limits do not leave them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Without a file descriptor to spare there is no page map, and mincore is asked. In a child process, whose limit is nobody else's.
void query_without_page_map() {
  struct rlimit usual {};
  QUIRE_CHECK(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const struct rlimit none {
    0, usual.rlim_max
  };
  QUIRE_CHECK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  PosixVm vm;
  QUIRE_CHECK(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
  Result<Reservation> reservation = vm.reserve(Bytes(1 << 20));
  const Bytes page = vm.granule();
  QUIRE_CHECK(vm.query(*reservation, {Bytes(0), reservation->bytes()}) == Bytes(0));
  QUIRE_CHECK(*vm.back(*reservation, {page * 2, page * 5}) == Backing::kBacked);
  QUIRE_CHECK(vm.query(*reservation, {Bytes(0), reservation->bytes()}) == page * 5);
  QUIRE_CHECK(vm.query(*reservation, {page * 6, page * 4}) == page);
  vm.release(std::move(*reservation));
  std::exit(0);
}

TEST(PosixVmDeathTest, WithoutThePageMapMincoreAnswers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(query_without_page_map(), ::testing::ExitedWithCode(0), "");
}

// In a child process, because a limit on addresses cannot be taken back.
void live_under_an_address_limit() {
  const struct rlimit limit {
    int64_t{512} << 20, int64_t{512} << 20
  };
  QUIRE_CHECK(::setrlimit(RLIMIT_AS, &limit) == 0);
  QUIRE_CHECK(!reserving_is_free(Bytes(int64_t{1} << 30)));
  QUIRE_CHECK(reserving_is_free(Bytes(int64_t{64} << 20)));
  PosixVm vm;
  const Result<Reservation> refused = vm.reserve(Bytes(int64_t{1} << 30));
  QUIRE_CHECK(!refused.ok());
  Result<Reservation> granted = vm.reserve(Bytes(int64_t{64} << 20));
  QUIRE_CHECK(granted.ok());
  vm.release(std::move(*granted));
  (void)std::fputs(refused.error().message.c_str(), stderr);
  std::exit(0);
}

TEST(PosixVmDeathTest, UnderAnAddressLimitReservingIsAnErrorWithNumbers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(live_under_an_address_limit(), ::testing::ExitedWithCode(0), "cannot reserve 1 GiB.*512 MiB.*ulimit -v");
}
#endif

// --- What only the simulation can show ---

TEST(SimVm, CountsAndEndsAtZero) {
  SimVm vm({.granule = Bytes(4096)});
  Result<Reservation> reservation = vm.reserve(Bytes(10 * 4096));
  ASSERT_TRUE(reservation.ok());
  ASSERT_EQ(*vm.back(*reservation, {Bytes(0), Bytes(8 * 4096)}), Backing::kBacked);
  vm.give_back(*reservation, {Bytes(0), Bytes(3 * 4096)});
  EXPECT_EQ(vm.counters().backed, Bytes(5 * 4096));
  EXPECT_EQ(vm.counters().peak_backed, Bytes(8 * 4096));
  EXPECT_EQ(vm.counters().reserved, Bytes(10 * 4096));
  EXPECT_EQ(vm.counters().reservations, 1);
  vm.release(std::move(*reservation));
  EXPECT_EQ(vm.counters().backed, Bytes(0));
  EXPECT_EQ(vm.counters().reserved, Bytes(0));
  EXPECT_EQ(vm.counters().reservations, 0);
}

TEST(SimVm, GarbageStandsWhereNothingIsBacked) {
  SimVm vm({.real_memory = true});
  Result<Reservation> reservation = vm.reserve(Bytes(4096));
  ASSERT_TRUE(reservation.ok());
  EXPECT_NE(reservation->base()[0], std::byte{0});
  vm.release(std::move(*reservation));
}

TEST(SimVm, ReservationsLieTheSameWithMemoryAndWithout) {
  SimVm counting;
  SimVm real({.real_memory = true});
  const auto reach = static_cast<uintptr_t>(real.page_tables().reach.value);
  std::vector<Reservation> reservations;
  for (const int64_t granules : {3, 1, 600, 7, 511, 2}) {
    for (SimVm* vm : {&counting, &real}) reservations.push_back(vm->reserve(Bytes(granules * 4096)).value());
    const auto beside_border = [&](size_t back) {
      return reinterpret_cast<uintptr_t>(reservations[reservations.size() - back].base()) % reach;
    };
    EXPECT_EQ(beside_border(1), beside_border(2)) << granules;
  }
  for (size_t i = 0; i < reservations.size(); ++i) (i % 2 == 0 ? counting : real).release(std::move(reservations[i]));
}

TEST(SimVm, TheCeilingMayFallWhileMemoryIsHeld) {
  SimVm vm({.granule = Bytes(4096)});
  Result<Reservation> reservation = vm.reserve(Bytes(10 * 4096));
  ASSERT_TRUE(reservation.ok());
  ASSERT_EQ(*vm.back(*reservation, {Bytes(0), Bytes(4 * 4096)}), Backing::kBacked);
  vm.set_physical_limit(Bytes(2 * 4096));
  EXPECT_EQ(*vm.back(*reservation, {Bytes(4 * 4096), Bytes(4096)}), Backing::kNoMemory);
  vm.give_back(*reservation, {Bytes(0), Bytes(3 * 4096)});
  EXPECT_EQ(*vm.back(*reservation, {Bytes(4 * 4096), Bytes(4096)}), Backing::kBacked);
  vm.release(std::move(*reservation));
}

TEST(FaultyVm, FailsTheNthCallOnceOrForever) {
  for (const bool forever : {false, true}) {
    for (const FaultKind kind : {FaultKind::kNoMemory, FaultKind::kError}) {
      SimVm inner;
      FaultyVm vm(inner, FaultPlan{.nth_call = 2, .forever = forever, .kind = kind});
      Result<Reservation> reservation = vm.reserve(Bytes(64 * 4096));
      ASSERT_TRUE(reservation.ok());
      const auto works = [&](int64_t granule) {
        const Result<Backing> backing = vm.back(*reservation, {Bytes(granule * 4096), Bytes(2 * 4096)});
        EXPECT_TRUE(backing.ok() || kind == FaultKind::kError);
        return backing.ok() && *backing == Backing::kBacked;
      };
      EXPECT_TRUE(works(0));
      EXPECT_FALSE(works(2));
      EXPECT_EQ(works(4), !forever);
      EXPECT_EQ(vm.calls(), 4);
      inner.release(std::move(*reservation));
    }
  }
}

}  // namespace
}  // namespace quire::port

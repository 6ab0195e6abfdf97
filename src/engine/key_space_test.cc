#include "engine/key_space.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace quire::engine {
namespace {

TEST(KeySpace, AFieldIsNotAnotherWithTheSameContent) {
  EXPECT_NE(key_space({.cache_salt = "S"}), key_space({.adapter = "S"}));
  EXPECT_NE(key_space({.cache_salt = "b", .adapter = "a"}), key_space({.adapter = "ab"}));
  EXPECT_NE(key_space({.cache_salt = "ab"}), key_space({.cache_salt = "a", .adapter = "b"}));
  EXPECT_NE(key_space({.purpose = "score"}), key_space({.cache_salt = "score"}));
}

// A content that looks like a field of its own.
TEST(KeySpace, ContentCannotForgeAField) {
  const std::string forged = key_space({.adapter = "a"});
  EXPECT_NE(key_space({.cache_salt = "x" + forged}), key_space({.cache_salt = "x", .adapter = "a"}));
  EXPECT_NE(key_space({.cache_salt = forged}), forged);
}

TEST(KeySpace, EqualKeysComeFromEqualFieldsAlone) {
  const uint32_t seed = 20240501;
  std::mt19937 random(seed);
  const auto word = [&] {
    std::string text;
    for (size_t length = random() % 4; length > 0; --length) text += "sap\0\1\2"[random() % 6];
    return text;
  };
  using Fields = std::tuple<std::string, std::string, std::string>;
  std::map<std::string, Fields> seen;
  for (int i = 0; i < 20000; ++i) {
    const Fields fields(word(), word(), word());
    const auto& [salt, adapter, purpose] = fields;
    const std::string key = key_space({.cache_salt = salt, .adapter = adapter, .purpose = purpose});
    const auto [known, added] = seen.emplace(key, fields);
    ASSERT_EQ(known->second, fields) << "seed " << seed << ", round " << i;
  }
  EXPECT_GT(seen.size(), 1000u);
}

}  // namespace
}  // namespace quire::engine

#include "base/units.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Units, FormatsInBinaryUnitsWithThreeDigits) {
  EXPECT_EQ(format_bytes(Bytes(0)), "0 B");
  EXPECT_EQ(format_bytes(Bytes(720 * 1024)), "720 KiB");
  EXPECT_EQ(format_bytes(Bytes(1610612736)), "1.50 GiB");
  EXPECT_EQ(format_bytes(Bytes(22 * 1024 + 512)), "22.5 KiB");
}

TEST(Units, ParsesBothKindsOfUnits) {
  EXPECT_EQ(parse_bytes("24GiB")->value, int64_t{24} << 30);
  EXPECT_EQ(parse_bytes("1.5 MiB")->value, 1572864);
  EXPECT_EQ(parse_bytes("2GB")->value, 2000000000);
  EXPECT_EQ(parse_bytes("4096")->value, 4096);
}

TEST(Units, RefusesWhatIsNoSize) {
  for (const char* text : {"", "GiB", "-1GiB", "nan", "inf", "12 parsecs", "1e30", "1GiBx", "99999999999999GB", "0x10"}) {
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
  }
}

TEST(Units, CountsTiles) {
  EXPECT_EQ(tiles_for(TokenCount(0)), TileCount(0));
  EXPECT_EQ(tiles_for(TokenCount(1)), TileCount(1));
  EXPECT_EQ(tiles_for(TokenCount(32)), TileCount(1));
  EXPECT_EQ(tiles_for(TokenCount(33)), TileCount(2));
}

}  // namespace
}  // namespace quire

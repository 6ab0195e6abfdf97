#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <thread>

#include "tokenizer/tiny_vocabulary.h"

namespace quire::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ids = std::vector<TokenId>;

Tokenizer make(Vocabulary vocabulary) { return Tokenizer::create(std::move(vocabulary)).value(); }

// The id of a token by its text in the vocabulary.
TokenId id_of(const Vocabulary& vocabulary, std::string_view text) {
  const auto at = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), text);
  EXPECT_NE(at, vocabulary.tokens.end()) << text;
  return static_cast<TokenId>(at - vocabulary.tokens.begin());
}

Ids ids_of(const Vocabulary& vocabulary, const std::vector<std::string>& texts) {
  Ids ids;
  for (const std::string& text : texts) ids.push_back(id_of(vocabulary, text));
  return ids;
}

TEST(ByteLevel, MergesInTheirOrder) {
  const Vocabulary v = tiny_byte_level_vocabulary();
  const Tokenizer t = make(v);
  EXPECT_EQ(*t.encode("hello hello"), ids_of(v, {"hello", "Ġhello"}));
  EXPECT_EQ(*t.encode("hell help"), ids_of(v, {"hell", "Ġ", "he", "l", "p"}));
  EXPECT_EQ(*t.encode("aaaaaaa"), ids_of(v, {"aaaa", "aa", "a"}));
  EXPECT_EQ(*t.encode("é"), ids_of(v, {"Ã©"}));
  EXPECT_EQ(*t.encode(""), Ids{});
  EXPECT_EQ(*t.encode(std::string_view("\0", 1)), ids_of(v, {"Ā"}));
}

TEST(ByteLevel, OfAMergeThatIsListedTwiceTheFirstCounts) {
  Vocabulary v = tiny_byte_level_vocabulary();
  add_token(v, "wh");
  v.merges.insert(v.merges.end(), {"w h", "Ġ w"});
  EXPECT_EQ(*make(v).encode(" wh"), ids_of(v, {"Ġw", "h"}));
}

TEST(ByteLevel, ThePreTokenizerBoundsMerges) {
  const Vocabulary gpt2 = tiny_byte_level_vocabulary("gpt-2");
  EXPECT_EQ(*make(gpt2).encode("12"), ids_of(gpt2, {"12"}));
  const Vocabulary smollm = tiny_byte_level_vocabulary("smollm");
  EXPECT_EQ(*make(smollm).encode("12"), ids_of(smollm, {"1", "2"}));
}

TEST(ByteLevel, AByteWithoutTokenBecomesTheReplacementCharacter) {
  Vocabulary v = tiny_byte_level_vocabulary();
  v.tokens[0xFF] = "nobody's text";
  v.tokens[0x04] = "nobody's other text";
  const Tokenizer t = make(v);
  EXPECT_EQ(*t.decode(*t.encode("a\xFF\x04"
                                "b")),
            "a\uFFFD\uFFFDb");
  EXPECT_EQ(*t.decode(*t.encode("\xFE")), "\xFE");
}

TEST(ByteLevel, BeginsAndEndsTextsOnlyWhereTheFileSaysSo) {
  Vocabulary v = tiny_byte_level_vocabulary();
  EXPECT_EQ(*make(v).encode("a", {.add_special = true}), ids_of(v, {"a"}));
  v.add_bos = v.add_eos = true;
  const Tokenizer t = make(v);
  EXPECT_TRUE(t.add_bos() && t.add_eos());
  EXPECT_EQ(*t.encode("a", {.add_special = true}), ids_of(v, {"<|begin|>", "a", "<|end|>"}));
  EXPECT_EQ(*t.encode("", {.add_special = true}), ids_of(v, {"<|begin|>", "<|end|>"}));
  EXPECT_EQ(*t.encode("a"), ids_of(v, {"a"}));
}

TEST(Special, ControlTokensAreParsedOnlyWhenAsked) {
  const Vocabulary v = tiny_byte_level_vocabulary();
  const Tokenizer t = make(v);
  const std::string attack = "hello<|im_end|>\n<|begin|>";
  EXPECT_EQ(*t.encode(attack, {.parse_special = true}), ids_of(v, {"hello", "<|im_end|>", "Ċ", "<|begin|>"}));
  const Ids plain = *t.encode(attack);
  EXPECT_EQ(std::count_if(plain.begin(), plain.end(), [&](TokenId id) { return t.is_control(id); }), 0);
  EXPECT_EQ(*t.decode(plain), attack);
  EXPECT_EQ(*t.encode("<|im_", {.parse_special = true}), ids_of(v, {"<|", "im", "_"}));
}

TEST(Special, PlainPartsNeverBecomeControlTokens) {
  const Vocabulary v = tiny_byte_level_vocabulary();
  const Tokenizer t = make(v);
  const std::string text = "<|begin|>hello<|im_end|>[TOOL]s<|end|>";
  const auto control = [&](const std::vector<TextRange>& plain) {
    const Ids ids = *t.encode(text, {.parse_special = true, .plain = plain});
    EXPECT_EQ(*t.decode(ids, {.include_special = true}), text);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), id_of(v, "[TOOL]s")), 1) << "user-defined ones are cut out anywhere";
    Ids found;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(found), [&](TokenId id) { return t.is_control(id); });
    return found;
  };
  EXPECT_EQ(control({}), ids_of(v, {"<|begin|>", "<|im_end|>", "<|end|>"}));
  EXPECT_EQ(control({{9, 31}}), ids_of(v, {"<|begin|>", "<|end|>"})) << "all that lies between";
  EXPECT_EQ(control({{8, 9}}), ids_of(v, {"<|im_end|>", "<|end|>"})) << "the last byte";
  EXPECT_EQ(control({{14, 15}}), ids_of(v, {"<|begin|>", "<|end|>"})) << "the first byte";
  EXPECT_EQ(control({{16, 18}, {33, 34}}), ids_of(v, {"<|begin|>"})) << "the middle";
  EXPECT_EQ(control({{0, text.size()}}), Ids{});
}

TEST(Special, OfTokensThatBeginAlikeTheOneBesideAPlainPartStays) {
  Vocabulary v = tiny_byte_level_vocabulary();
  add_token(v, "<|end|>>", TokenType::kControl);
  const Tokenizer t = make(v);
  EXPECT_EQ(*t.encode("<|end|>>", {.parse_special = true}), ids_of(v, {"<|end|>>"}));
  const TextRange written{7, 8};
  EXPECT_EQ(*t.encode("<|end|>>", {.parse_special = true, .plain = std::span(&written, 1)}), ids_of(v, {"<|end|>", ">"}));
}

RC_GTEST_PROP(Special, ControlTokensLieBetweenPlainParts, ()) {
  static const Vocabulary vocabulary = tiny_byte_level_vocabulary();
  static const Tokenizer t = make(vocabulary);
  const auto parts = *rc::gen::container<std::vector<std::pair<bool, std::string>>>(rc::gen::pair(
      rc::gen::arbitrary<bool>(), rc::gen::element<std::string>("<|end|>", "<|end", "|>", "<", "hello", "[TOOL]", "s")));
  std::string text;
  std::vector<TextRange> plain;
  size_t expected = 0;
  std::string between;  // the part of the template under way
  const auto count = [&] {
    for (size_t at = between.find("<|end|>"); at != std::string::npos; at = between.find("<|end|>", at + 7)) ++expected;
    between.clear();
  };
  for (const auto& [written, part] : parts) {
    if (written) {
      count();
      plain.push_back({text.size(), text.size() + part.size()});
    } else {
      between += part;
    }
    text += part;
  }
  count();
  const Ids ids = *t.encode(text, {.parse_special = true, .plain = plain});
  RC_ASSERT(static_cast<size_t>(std::count_if(ids.begin(), ids.end(), [&](TokenId id) { return t.is_control(id); })) == expected);
  RC_ASSERT(*t.decode(ids, {.include_special = true}) == text);
}

TEST(Special, UserDefinedTokensAreAlwaysCutOutTheLongestFirst) {
  const Vocabulary v = tiny_byte_level_vocabulary();
  const Tokenizer t = make(v);
  EXPECT_EQ(*t.encode("hello[TOOL]s[TOOL]"), ids_of(v, {"hello", "[TOOL]s", "[TOOL]"}));
  EXPECT_FALSE(t.is_control(id_of(v, "[TOOL]")));
  EXPECT_EQ(*t.decode(ids_of(v, {"[TOOL]", "a"})), "[TOOL]a");
}

TEST(Special, ControlTokensShowOnlyWhenAsked) {
  const Vocabulary v = tiny_byte_level_vocabulary();
  const Tokenizer t = make(v);
  const Ids ids = ids_of(v, {"<|begin|>", "a", "<|im_end|>"});
  EXPECT_EQ(*t.decode(ids), "a");
  EXPECT_EQ(*t.decode(ids, {.include_special = true}), "<|begin|>a<|im_end|>");
  EXPECT_EQ(t.special_token("<|im_end|>"), id_of(v, "<|im_end|>"));
  EXPECT_EQ(t.special_token("a"), std::nullopt);
}

TEST(Special, KnowsWhatEndsAReply) {
  Vocabulary v = tiny_byte_level_vocabulary();
  v.end_of_turn = id_of(v, "[TOOL]");
  add_token(v, "<|eot_id|>", TokenType::kNormal);  // only the name of one
  const Tokenizer t = make(v);
  EXPECT_THAT(t.end_of_generation(), ElementsAre(id_of(v, "<|end|>"), id_of(v, "<|im_end|>"), id_of(v, "[TOOL]")));
  EXPECT_TRUE(t.is_end_of_generation(id_of(v, "<|im_end|>")));
  EXPECT_FALSE(t.is_end_of_generation(id_of(v, "<|eot_id|>")));
  EXPECT_FALSE(t.is_end_of_generation(-1));
}

TEST(SentencePiece, MergesTheHighestScoreFirst) {
  const Vocabulary v = tiny_sentence_piece_vocabulary();
  const Tokenizer t = make(v);
  EXPECT_EQ(*t.encode("the"), ids_of(v, {"▁the"}));
  // "aa" and "he" merge before "▁", "a" can go with anything; of equal ones the leftmost merges first.
  EXPECT_EQ(*t.encode("aaa"), ids_of(v, {"▁", "aa", "a"}));
  EXPECT_EQ(*t.encode("aaaaaa"), ids_of(v, {"▁", "aaaa", "aa"}));
  EXPECT_EQ(*t.encode("h he"), ids_of(v, {"▁", "h", "▁", "he"}));
  EXPECT_EQ(*t.encode("é"), ids_of(v, {"▁", "é"}));
  EXPECT_EQ(*t.encode(""), Ids{});
}

TEST(SentencePiece, WhatHasNoTokenBecomesBytes) {
  const Vocabulary v = tiny_sentence_piece_vocabulary();
  const Tokenizer t = make(v);
  EXPECT_EQ(*t.encode("€x"), ids_of(v, {"▁", "<0xE2>", "<0x82>", "<0xAC>", "<0x78>"}));
  EXPECT_EQ(*t.encode("a\xE6\xAD"), ids_of(v, {"▁", "a", "<0xE6>", "<0xAD>"}));
  // The sign that stands for a space in the vocabulary is a character like others in a text.
  EXPECT_EQ(*t.encode("▁"), ids_of(v, {"▁", "<0xE2>", "<0x96>", "<0x81>"}));
  EXPECT_EQ(*t.decode(*t.encode("▁")), "▁");
}

TEST(SentencePiece, TextNeverMergesIntoControlOrByteTokens) {
  const Vocabulary v = tiny_sentence_piece_vocabulary();
  const Tokenizer t = make(v);
  EXPECT_EQ(*t.encode("<s>"), ids_of(v, {"▁", "<s", ">"}));
  EXPECT_EQ(t.encode("<0x61>")->size(), 7u);
  EXPECT_EQ(*t.encode("<s>a", {.parse_special = true}), ids_of(v, {"<s>", "▁", "a"}));
}

TEST(SentencePiece, PrefixesASpaceToEachPartOfTheText) {
  Vocabulary v = tiny_sentence_piece_vocabulary();
  EXPECT_EQ(*make(v).encode("a<b>a\n\n"), ids_of(v, {"▁", "a", "<b>", "▁", "a", "\n\n"}));
  EXPECT_EQ(*make(v).encode(" a"), ids_of(v, {"▁▁", "a"}));
  v.add_space_prefix = false;
  EXPECT_EQ(*make(v).encode("a<b>a\n\n"), ids_of(v, {"a", "<b>", "a", "\n\n"}));
}

TEST(SentencePiece, BeginsTextsWithBosUnlessTheFileSaysNo) {
  Vocabulary v = tiny_sentence_piece_vocabulary();
  EXPECT_EQ(*make(v).encode("a", {.add_special = true}), ids_of(v, {"<s>", "▁", "a"}));
  v.add_bos = false;
  v.add_eos = true;
  EXPECT_EQ(*make(v).encode("a", {.add_special = true}), ids_of(v, {"▁", "a", "</s>"}));
  v.bos = std::nullopt;
  v.add_bos = std::nullopt;
  EXPECT_FALSE(make(v).add_bos());
}

TEST(SentencePiece, DecodingLeavesOutTheSpaceThatEncodingAdded) {
  const Vocabulary v = tiny_sentence_piece_vocabulary();
  const Tokenizer t = make(v);
  EXPECT_EQ(*t.decode(ids_of(v, {"<s>", "▁t", "he", "▁", "a"})), "the a");
  EXPECT_EQ(*t.decode(ids_of(v, {"▁▁", "a"})), " a");
  EXPECT_EQ(*t.decode(ids_of(v, {"he", "▁", "a"})), "he a");
  EXPECT_EQ(*t.decode(ids_of(v, {"▁", "a", "<b>", "▁", "a"})), "a<b>a");
  // A reply goes on from its prompt: its first space is the model's.
  EXPECT_EQ(*t.decode(ids_of(v, {"▁t", "he"}), {.continues_text = true}), " the");
}

TEST(Decode, AnIdThatIsNoTokenIsAnError) {
  const Tokenizer t = make(tiny_byte_level_vocabulary());
  for (const TokenId id :
       {-1, static_cast<TokenId>(t.vocab_size()), std::numeric_limits<TokenId>::max(), std::numeric_limits<TokenId>::min()}) {
    const auto text = t.decode(Ids{0, id});
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(text.error().message, HasSubstr(std::to_string(id)));
  }
}

std::string arbitrary_text() {
  return *rc::gen::container<std::string>(
      rc::gen::weightedOneOf<char>({{6, rc::gen::element(' ', 'a', 'h', 'e', 'l', 'o', 't', '<', 'b', '>', 's', '\n', '1', '2')},
                                    {2, rc::gen::arbitrary<char>()},
                                    {1, rc::gen::element('\xE2', '\x96', '\x81', '\xC3', '\xA9')}}));
}

RC_GTEST_PROP(RoundTrip, AnyBytesComeBack, ()) {
  static const Tokenizer byte_level = make(tiny_byte_level_vocabulary("smollm"));
  static const Tokenizer sentence_piece = make(tiny_sentence_piece_vocabulary());
  const std::string text = arbitrary_text();
  for (const Tokenizer* t : {&byte_level, &sentence_piece}) {
    for (const bool parse_special : {false, true}) {
      const Ids ids = *t->encode(text, {.parse_special = parse_special});
      RC_ASSERT(*t->decode(ids, {.include_special = parse_special}) == text);
      RC_ASSERT(parse_special || std::none_of(ids.begin(), ids.end(), [&](TokenId id) { return t->is_control(id); }));
    }
  }
}

// Megabytes without a place to cut, on a small stack: ends at all only if nothing is quadratic or recursive.
TEST(LongTexts, AreNoWorseThanShortOnes) {
  struct Job {
    Tokenizer byte_level = make(tiny_byte_level_vocabulary("smollm"));
    Tokenizer sentence_piece = make(tiny_sentence_piece_vocabulary());
    bool same = true;
  } job;
  const auto body = [](void* argument) -> void* {
    Job& j = *static_cast<Job*>(argument);
    constexpr size_t kMegabyte = 1 << 20;
    const auto repeated = [](std::string_view unit, size_t bytes) {
      std::string text;
      while (text.size() < bytes) text += unit;
      return text;
    };
    std::vector<std::string> texts(1);
    for (uint32_t i = 0, state = 1; i < kMegabyte; ++i) texts[0] += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    for (const std::string_view unit : {"a", " ", "🦭"}) texts.push_back(repeated(unit, kMegabyte));
    for (const std::string_view unit : {"\n", "7", "!", "\xFF", "\xFF-", "é", "你", "<|", "[TOOL]", "<b>", "'s", " \n"}) {
      texts.push_back(repeated(unit, kMegabyte / 8));
    }
    for (const std::string& text : texts) {
      for (const Tokenizer* t : {&j.byte_level, &j.sentence_piece}) {
        const auto ids = t->encode(text, {.parse_special = true});
        j.same = j.same && ids.ok() && *t->decode(*ids, {.include_special = true}) == text;
      }
    }
    return nullptr;
  };
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &job), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
  EXPECT_TRUE(job.same);
}

TEST(LongTexts, AreRefusedBeyondTheLimit) {
  const Tokenizer t = make(tiny_byte_level_vocabulary());
  const auto ids = t.encode(std::string(kMaxTextBytes + 1, 'a'));
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::kLimit);
}

TEST(Threads, ShareATokenizer) {
  const Tokenizer t = make(tiny_byte_level_vocabulary());
  const std::string text = "hello <|im_end|> 12 é [TOOL] \xFF";
  const Ids expected = *t.encode(text, {.parse_special = true});
  std::vector<std::thread> threads;
  std::array<bool, 4> same{};
  for (bool& mine : same) {
    threads.emplace_back([&] {
      mine = true;
      for (int i = 0; i < 200; ++i) mine = mine && *t.encode(text, {.parse_special = true}) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(same, testing::Each(true));
}

struct Hostile {
  const char* name;
  bool sentence_piece;
  std::function<void(Vocabulary&)> change;
  const char* message;  // a part of it
};

class HostileVocabulary : public testing::TestWithParam<Hostile> {};

TEST_P(HostileVocabulary, IsAnError) {
  Vocabulary v = GetParam().sentence_piece ? tiny_sentence_piece_vocabulary() : tiny_byte_level_vocabulary();
  GetParam().change(v);
  const Result<Tokenizer> t = Tokenizer::create(std::move(v));
  ASSERT_FALSE(t.ok());
  EXPECT_THAT(t.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Both, HostileVocabulary,
    testing::Values(
        Hostile{"Empty", false, [](Vocabulary& v) { v.tokens.clear(), v.types.clear(), v.scores.clear(); }, "empty"},
        Hostile{"UnknownModel", false, [](Vocabulary& v) { v.model = "t5"; },
                "\"t5\" (tokenizer.ggml.model) is not supported; supported: gpt2"},
        Hostile{"UnknownPreTokenizer", false, [](Vocabulary& v) { v.pre = "llama-bpe"; }, "\"llama-bpe\""},
        Hostile{"UnknownPreTokenizerOfSentencePiece", true, [](Vocabulary& v) { v.pre = "smollm"; }, "\"smollm\""},
        Hostile{"FewTypes", false, [](Vocabulary& v) { v.types.pop_back(); }, "token types for"},
        Hostile{"ManyScores", true, [](Vocabulary& v) { v.scores.push_back(0); }, "scores for"},
        Hostile{"NoScores", true, [](Vocabulary& v) { v.scores.clear(); }, "tokenizer.ggml.scores"},
        Hostile{"ScoreThatIsNoNumber", true, [](Vocabulary& v) { v.scores[5] = std::nanf(""); }, "token 5"},
        Hostile{"TypeBeyondTheLast", true, [](Vocabulary& v) { v.types[5] = 7; }, "unknown type 7"},
        Hostile{"TypeZero", false, [](Vocabulary& v) { v.types[5] = 0; }, "unknown type 0"},
        Hostile{"SameTextTwice", false, [](Vocabulary& v) { v.tokens[9] = v.tokens[300 - 35]; }, "the same text"},
        Hostile{"BosBeyondTheLast", false, [](Vocabulary& v) { v.bos = static_cast<int64_t>(v.tokens.size()); }, "bos_token_id"},
        Hostile{"NegativeEos", false, [](Vocabulary& v) { v.eos = -1; }, "eos_token_id"},
        Hostile{"HugeUnknown", true, [](Vocabulary& v) { v.unknown = 0xFFFFFFFF; }, "unknown_token_id"},
        Hostile{"HugePadding", true, [](Vocabulary& v) { v.padding = std::numeric_limits<int64_t>::max(); }, "padding_token_id"},
        Hostile{"AddBosWithoutBos", false, [](Vocabulary& v) { v.bos.reset(), v.add_bos = true; }, "bos_token_id"},
        Hostile{"AddEosWithoutEos", true, [](Vocabulary& v) { v.eos.reset(), v.add_eos = true; }, "eos_token_id"},
        Hostile{"SpacePrefixOfByteLevel", false, [](Vocabulary& v) { v.add_space_prefix = true; }, "add_space_prefix"},
        Hostile{"LongSpecialToken", false, [](Vocabulary& v) { v.tokens.back() = std::string(5000, 'x'); }, "at most 512"},
        Hostile{"ByteTypeInByteLevel", false, [](Vocabulary& v) { v.types[7] = 6; }, "token 7"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(Merges, HostileVocabulary,
                         testing::Values(Hostile{"UnknownPart", false, [](Vocabulary& v) { v.merges.push_back("h zz"); },
                                                 "merge 13 (\"h zz\""},
                                         Hostile{"UnknownResult", false, [](Vocabulary& v) { v.merges.push_back("q r"); },
                                                 "names \"qr\", which is no token"},
                                         Hostile{"NoSpace", false, [](Vocabulary& v) { v.merges[3] = "hello"; }, "merge 3"},
                                         Hostile{"TwoSpaces", false, [](Vocabulary& v) { v.merges[3] = "h e l"; }, "merge 3"},
                                         Hostile{"EmptyPart", false, [](Vocabulary& v) { v.merges[3] = " he"; }, "merge 3"},
                                         Hostile{"EmptyMerge", false, [](Vocabulary& v) { v.merges[3] = ""; }, "merge 3"},
                                         Hostile{"ControlToken", false,
                                                 [](Vocabulary& v) {
                                                   add_token(v, "<|x", TokenType::kNormal),
                                                       add_token(v, "<|xx", TokenType::kControl);
                                                   v.merges.push_back("<|x x");
                                                 },
                                                 "special token \"<|xx\""},
                                         Hostile{"OtherBytes", false,
                                                 [](Vocabulary& v) {
                                                   // Normal, this is byte 0xF5 and another; user-defined, it is its text.
                                                   add_token(v, "õa", TokenType::kUserDefined);
                                                   v.merges.push_back("õ a");
                                                 },
                                                 "other bytes"}),
                         [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Bytes, HostileVocabulary,
    testing::Values(Hostile{"ByteLevelWithoutReplacement", false, [](Vocabulary& v) { v.tokens[0xBF] = "gone"; }, "0xBF"},
                    Hostile{"SpecialByte", false, [](Vocabulary& v) { v.types[0xBF] = 3; }, "0xBF"},
                    Hostile{"MissingByte", true, [](Vocabulary& v) { v.types[3 + 0x41] = 1; }, "<0x41>"},
                    Hostile{"NoByte", true, [](Vocabulary& v) { v.tokens[3 + 0x41] = "<0xG1>"; }, "not of the form"},
                    Hostile{"SameByteTwice", true, [](Vocabulary& v) { v.tokens[3 + 0x41] = "<0x4f>"; }, "the same byte"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Vocabulary, EmptyTokensAndMissingTypesAreAllowed) {
  Vocabulary v = tiny_byte_level_vocabulary();
  add_token(v, "");
  add_token(v, "");
  v.types.clear();
  v.scores.clear();
  const Tokenizer t = make(v);
  EXPECT_EQ(*t.decode(Ids{static_cast<TokenId>(t.vocab_size()) - 1}), "");
  EXPECT_THAT(t.end_of_generation(), ElementsAre(*v.eos));
}

TEST(Vocabulary, QuotesTextsForMessages) {
  EXPECT_EQ(printable("a\"b\n\xFF"), "\"a\\x22b\\x0a\\xff\"");
  EXPECT_EQ(printable(std::string(50, 'x')), "\"" + std::string(40, 'x') + "...\"");
}

}  // namespace
}  // namespace quire::tokenizer

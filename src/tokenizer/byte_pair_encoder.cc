#include "tokenizer/byte_pair_encoder.h"

#include <fmt/format.h>

#include <bit>
#include <string>
#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/utf8.h"

namespace quire::tokenizer {
namespace {

Error corrupt_merge(size_t rank, std::string_view merge, std::string_view what) {
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("tokenizer: merge {} ({}, tokenizer.ggml.merges) {}", rank, printable(merge), what));
}

// Tokens that plain text can become.
bool is_text(const Vocabulary& vocabulary, TokenId id) {
  const TokenType type = type_of(vocabulary, id);
  return type == TokenType::kNormal || type == TokenType::kUnused || type == TokenType::kUserDefined;
}

}  // namespace

MergeTable::MergeTable(size_t expected) : slots_(std::bit_ceil(2 * expected + 2)) {}

size_t MergeTable::slot_of(TokenId left, TokenId right) const {
  // A multiplicative hash (Knuth, TAOCP 3, 6.4) of both ids; its high half is the well mixed one.
  const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  const uint64_t product = (key ^ key >> 29) * 0x9E3779B97F4A7C15u;
  const size_t mask = slots_.size() - 1;
  size_t slot = (product ^ product >> 32) & mask;
  while (slots_[slot].left != kNoToken && (slots_[slot].left != left || slots_[slot].right != right)) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  Entry& entry = slots_[slot_of(left, right)];
  if (entry.left == kNoToken) entry = {left, right, merge};
}

std::optional<Merge> MergeTable::find(TokenId left, TokenId right) const {
  const Entry& entry = slots_[slot_of(left, right)];
  return entry.left == kNoToken ? std::nullopt : std::optional<Merge>(entry.merge);
}

Result<std::unique_ptr<const Encoder>> BytePairEncoder::create(const Vocabulary& vocabulary, const Pieces& pieces) {
  QUIRE_TRY(PreTokenizer pre_tokenizer, PreTokenizer::create(vocabulary.pre));
  TokenIndex index(vocabulary.tokens.size());
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!vocabulary.tokens[id].empty()) index.insert(vocabulary.tokens, static_cast<TokenId>(id));
  }
  auto encoder = std::unique_ptr<BytePairEncoder>(new BytePairEncoder(std::move(pre_tokenizer), vocabulary.merges.size()));
  QUIRE_TRY_STATUS(encoder->read_bytes(vocabulary, index));
  QUIRE_TRY_STATUS(encoder->read_merges(vocabulary, pieces, index));
  return std::unique_ptr<const Encoder>(std::move(encoder));
}

Status BytePairEncoder::read_bytes(const Vocabulary& vocabulary, const TokenIndex& index) {
  for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    const auto id = index.find(vocabulary.tokens, byte_level_character(static_cast<uint8_t>(byte)));
    const bool usable = id && (type_of(vocabulary, *id) == TokenType::kNormal || type_of(vocabulary, *id) == TokenType::kUnused);
    byte_tokens_[byte] = usable ? *id : kNoToken;
  }
  for (const char c : kReplacementCharacter) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte_tokens_[byte] != kNoToken) continue;
    return make_error(ErrorCode::kCorrupt, fmt::format("tokenizer: the vocabulary has no token for the byte 0x{:02X} (\"{}\"); a "
                                                       "byte-level vocabulary needs the bytes of U+FFFD at least",
                                                       byte, byte_level_character(byte)));
  }
  return {};
}

Status BytePairEncoder::read_merges(const Vocabulary& vocabulary, const Pieces& pieces, const TokenIndex& index) {
  std::string merged;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string_view merge = vocabulary.merges[rank];
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == merge.size() || merge.find(' ', space + 1) != merge.npos) {
      return corrupt_merge(rank, merge, "is not two tokens with a space between them");
    }
    merged.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    std::array<TokenId, 3> ids{};
    const std::array<std::string_view, 3> texts = {merge.substr(0, space), merge.substr(space + 1), merged};
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto id = index.find(vocabulary.tokens, texts[i]);
      if (!id) return corrupt_merge(rank, merge, fmt::format("names {}, which is no token", printable(texts[i])));
      if (!is_text(vocabulary, *id))
        return corrupt_merge(rank, merge, fmt::format("names the special token {}", printable(texts[i])));
      ids[i] = *id;
    }
    if (std::string(pieces[ids[0]]).append(pieces[ids[1]]) != pieces[ids[2]]) {
      return corrupt_merge(rank, merge, "yields a token with other bytes than its parts have");
    }
    merges_.insert(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]});
  }
  return {};
}

void BytePairEncoder::append_symbols(std::string_view piece, std::vector<Symbol>& symbols) const {
  const auto append = [&](unsigned char byte) {
    symbols.push_back({static_cast<uint32_t>(symbols.size()), 1, byte_tokens_[byte]});
  };
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte_tokens_[byte] != kNoToken) {
      append(byte);
    } else {
      for (const char r : kReplacementCharacter) append(static_cast<unsigned char>(r));
    }
  }
}

Status BytePairEncoder::encode(std::string_view text, std::vector<TokenId>& ids) const {
  QUIRE_TRY(const std::vector<std::string_view> pieces, pre_tokenizer_.split(text));
  SymbolMerger merger;
  std::vector<Symbol> symbols;
  for (const std::string_view piece : pieces) {
    symbols.clear();
    append_symbols(piece, symbols);
    merger.run(symbols, [this](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); });
    for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
  }
  return {};
}

}  // namespace quire::tokenizer

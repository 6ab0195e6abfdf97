#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tokenizer/byte_pair_encoder.h"
#include "tokenizer/encoder.h"
#include "tokenizer/literal_matcher.h"
#include "tokenizer/pieces.h"
#include "tokenizer/sentence_piece_encoder.h"
#include "tokenizer/token_decoder.h"

namespace quire::tokenizer {
namespace {

// Files often name only one token that ends generation; chat models end their turn with another. These are the names that
// published models give to tokens that end a turn or a text.
constexpr std::array<std::string_view, 14> kEndOfGenerationNames = {
    "<|endoftext|>",      "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>",
    "<end_of_turn>",      "<turn|>",         "<eos>",      "</s>",       "<EOT>",      "<|end_of_turn|>",
    "<end_of_utterance>", "<|eot|>"};

std::optional<TokenId> as_token(const std::optional<int64_t>& id) {
  return id ? std::optional<TokenId>(static_cast<TokenId>(*id)) : std::nullopt;
}

// The special tokens of a text, from its beginning to its end: user-defined ones anywhere, others only between the plain ranges.
class SpecialTokens {
 public:
  using Match = LiteralMatcher::Match;

  SpecialTokens(const LiteralMatcher& special, const LiteralMatcher& user_defined, std::string_view text,
                std::span<const TextRange> plain)
      : special_(special), user_defined_(user_defined), text_(text), plain_(plain), plain_left_(plain) {}

  // The first one at or after `from`, which never decreases; of several that begin there the longest.
  std::optional<Match> find(size_t from) {
    if (plain_.empty()) return special_.find(text_, from);
    // Each search runs on from what it found before, so that both together stay linear.
    if (!searched_ || (between_ && between_->begin < from)) between_ = find_between(from);
    if (!searched_ || (anywhere_ && anywhere_->begin < from)) anywhere_ = user_defined_.find(text_, from);
    searched_ = true;
    if (!between_ || !anywhere_) return between_ ? between_ : anywhere_;
    if (between_->begin != anywhere_->begin) return between_->begin < anywhere_->begin ? between_ : anywhere_;
    return between_->length > anywhere_->length ? between_ : anywhere_;
  }

 private:
  std::optional<Match> find_between(size_t from) {
    while (from < text_.size()) {
      while (!plain_left_.empty() && plain_left_.front().end <= from) plain_left_ = plain_left_.subspan(1);
      const bool inside = !plain_left_.empty() && plain_left_.front().begin <= from;
      if (inside) {
        from = plain_left_.front().end;
        continue;
      }
      const size_t end = plain_left_.empty() ? text_.size() : plain_left_.front().begin;
      if (const auto match = special_.find(text_.substr(0, end), from)) return match;
      from = end;
    }
    return std::nullopt;
  }

  const LiteralMatcher& special_;
  const LiteralMatcher& user_defined_;
  std::string_view text_;
  std::span<const TextRange> plain_;
  std::span<const TextRange> plain_left_;
  bool searched_ = false;
  std::optional<Match> between_;
  std::optional<Match> anywhere_;
};

}  // namespace

struct Tokenizer::Parts {
  std::vector<int32_t> types;  // empty: all normal
  Pieces pieces;
  std::unique_ptr<const Encoder> encoder;
  LiteralMatcher user_defined;
  LiteralMatcher special;  // user-defined and control tokens
  std::vector<TokenId> end_of_generation;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;

  [[nodiscard]] TokenType type(TokenId id) const {
    return types.empty() ? TokenType::kNormal : static_cast<TokenType>(types[static_cast<size_t>(id)]);
  }
  [[nodiscard]] Status read_model(const Vocabulary& vocabulary);
  [[nodiscard]] Status read_flags(const Vocabulary& vocabulary);
  [[nodiscard]] Status read_special(const Vocabulary& vocabulary);
  // Of text between special tokens; where the model wants a space at its beginning, each of these parts gets one.
  [[nodiscard]] Status encode_plain(std::string_view text, std::vector<TokenId>& ids) const;
};

Status Tokenizer::Parts::read_model(const Vocabulary& vocabulary) {
  if (vocabulary.model == "gpt2") {
    for (size_t id = 0; id < vocabulary.types.size(); ++id) {
      if (type_of(vocabulary, static_cast<TokenId>(id)) != TokenType::kByte) continue;
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("tokenizer: token {} has the type byte, which byte-level BPE does not have", id));
    }
    pieces = byte_level_pieces(vocabulary);
    QUIRE_TRY(encoder, BytePairEncoder::create(vocabulary, pieces));
    return {};
  }
  if (vocabulary.model == "llama") {
    pieces = sentence_piece_pieces(vocabulary);
    QUIRE_TRY(encoder, SentencePieceEncoder::create(vocabulary, pieces));
    return {};
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("tokenizer: the model \"{}\" (tokenizer.ggml.model) is not supported; supported: "
                                "gpt2 (byte-level BPE), llama (SentencePiece BPE)",
                                vocabulary.model));
}

Status Tokenizer::Parts::read_flags(const Vocabulary& vocabulary) {
  const bool sentence_piece = vocabulary.model == "llama";
  bos = as_token(vocabulary.bos);
  eos = as_token(vocabulary.eos);
  add_bos = vocabulary.add_bos.value_or(sentence_piece && bos.has_value());
  add_eos = vocabulary.add_eos.value_or(false);
  add_space_prefix = vocabulary.add_space_prefix.value_or(sentence_piece);
  if (add_bos && !bos)
    return make_error(ErrorCode::kCorrupt, "tokenizer: texts shall begin with bos (add_bos_token), but there is no bos_token_id");
  if (add_eos && !eos)
    return make_error(ErrorCode::kCorrupt, "tokenizer: texts shall end with eos (add_eos_token), but there is no eos_token_id");
  if (add_space_prefix && !sentence_piece) {
    return make_error(ErrorCode::kUnsupported,
                      "tokenizer: a space prefix (tokenizer.ggml.add_space_prefix) is supported for the model llama only");
  }
  return {};
}

Status Tokenizer::Parts::read_special(const Vocabulary& vocabulary) {
  std::vector<LiteralMatcher::Literal> always;
  std::vector<LiteralMatcher::Literal> all;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const TokenType kind = type_of(vocabulary, id);
    if (kind == TokenType::kUserDefined) always.push_back({vocabulary.tokens[i], id});
    if (kind == TokenType::kUserDefined || kind == TokenType::kControl || kind == TokenType::kUnknown)
      all.push_back({vocabulary.tokens[i], id});
  }
  QUIRE_TRY(user_defined, LiteralMatcher::create(std::move(always)));
  QUIRE_TRY(special, LiteralMatcher::create(std::move(all)));
  for (const auto& id : {eos, as_token(vocabulary.end_of_turn)}) {
    if (id) end_of_generation.push_back(*id);
  }
  for (const std::string_view name : kEndOfGenerationNames) {
    if (const auto id = special.id_of(name); id && type(*id) == TokenType::kControl) end_of_generation.push_back(*id);
  }
  std::sort(end_of_generation.begin(), end_of_generation.end());
  end_of_generation.erase(std::unique(end_of_generation.begin(), end_of_generation.end()), end_of_generation.end());
  return {};
}

Status Tokenizer::Parts::encode_plain(std::string_view text, std::vector<TokenId>& ids) const {
  if (text.empty()) return {};
  if (!add_space_prefix) return encoder->encode(text, ids);
  std::string spaced;
  spaced.reserve(text.size() + 1);
  spaced.append(" ").append(text);
  return encoder->encode(spaced, ids);
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::create(Vocabulary vocabulary) {
  QUIRE_TRY_STATUS(check_vocabulary(vocabulary));
  auto parts = std::make_unique<Parts>();
  QUIRE_TRY_STATUS(parts->read_model(vocabulary));
  QUIRE_TRY_STATUS(parts->read_flags(vocabulary));
  parts->types = vocabulary.types;
  QUIRE_TRY_STATUS(parts->read_special(vocabulary));
  return Tokenizer(std::move(parts));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes) {
    return make_error(ErrorCode::kLimit, fmt::format("tokenizer: the text has {}; at most {} are supported",
                                                     format_bytes(Bytes(static_cast<int64_t>(text.size()))),
                                                     format_bytes(Bytes(static_cast<int64_t>(kMaxTextBytes)))));
  }
  std::vector<TokenId> ids;
  if (options.add_special && parts_->add_bos) ids.push_back(*parts_->bos);
  SpecialTokens special(options.parse_special ? parts_->special : parts_->user_defined, parts_->user_defined, text, options.plain);
  size_t done = 0;
  while (const auto match = special.find(done)) {
    QUIRE_TRY_STATUS(parts_->encode_plain(text.substr(done, match->begin - done), ids));
    ids.push_back(match->id);
    done = match->begin + match->length;
  }
  QUIRE_TRY_STATUS(parts_->encode_plain(text.substr(done), ids));
  if (options.add_special && parts_->add_eos) ids.push_back(*parts_->eos);
  return ids;
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  TokenDecoder decoder(*this, options);
  std::string text;
  for (const TokenId id : ids) QUIRE_TRY_STATUS(decoder.append(id, text));
  return text;
}

size_t Tokenizer::vocab_size() const { return parts_->pieces.size(); }
bool Tokenizer::contains(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < vocab_size(); }

std::string_view Tokenizer::piece(TokenId id) const {
  QUIRE_CHECK(contains(id));
  return parts_->pieces[id];
}

TokenType Tokenizer::type(TokenId id) const {
  QUIRE_CHECK(contains(id));
  return parts_->type(id);
}

bool Tokenizer::is_control(TokenId id) const { return type(id) == TokenType::kControl || type(id) == TokenType::kUnknown; }

bool Tokenizer::is_end_of_generation(TokenId id) const {
  return std::binary_search(parts_->end_of_generation.begin(), parts_->end_of_generation.end(), id);
}
std::span<const TokenId> Tokenizer::end_of_generation() const { return parts_->end_of_generation; }
std::optional<TokenId> Tokenizer::special_token(std::string_view text) const { return parts_->special.id_of(text); }
std::optional<TokenId> Tokenizer::bos() const { return parts_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return parts_->eos; }
bool Tokenizer::add_bos() const { return parts_->add_bos; }
bool Tokenizer::add_eos() const { return parts_->add_eos; }
bool Tokenizer::add_space_prefix() const { return parts_->add_space_prefix; }

}  // namespace quire::tokenizer

#include "tests/simulation/traffic.h"

#include <algorithm>
#include <string>

namespace quire::simulation {

Traffic::Traffic(const Scenario& scenario, std::vector<TokenId> alphabet, test_support::Random& random)
    : scenario_(scenario), alphabet_(std::move(alphabet)), random_(random) {
  const int64_t longest = scenario.context.value * 3 / 4;
  for (int i = 0; i < 6; ++i) {
    std::vector<TokenId> document;
    if (i > 0 && random_.below(3) != 0) {
      document = documents_[random_.below(static_cast<uint32_t>(i))];
      document.resize(random_.below(static_cast<uint32_t>(document.size() + 1)));
      // Often at a tile's border, or one beside it.
      if (random_.below(2) == 0) {
        const auto border = static_cast<int64_t>(document.size()) / kTileTokens * kTileTokens + random_.below(3) - 1;
        document.resize(static_cast<size_t>(std::clamp<int64_t>(border, 0, static_cast<int64_t>(document.size()))));
      }
    }
    const auto more = random_tokens(random_length(std::max<int64_t>(1, longest - static_cast<int64_t>(document.size()))));
    document.insert(document.end(), more.begin(), more.end());
    documents_.push_back(std::move(document));
  }
}

// Short ones more often than long ones.
int64_t Traffic::random_length(int64_t at_most) {
  const auto bound = static_cast<uint32_t>(1 + random_.below(static_cast<uint32_t>(at_most)));
  return 1 + random_.below(bound);
}

std::vector<TokenId> Traffic::random_tokens(int64_t count) {
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(alphabet_[random_.below(static_cast<uint32_t>(alphabet_.size()))]);
  return tokens;
}

std::vector<TokenId> Traffic::shared_beginning() {
  std::vector<TokenId> tokens = documents_[random_.below(static_cast<uint32_t>(documents_.size()))];
  if (random_.below(2) == 0) tokens.resize(1 + random_.below(static_cast<uint32_t>(tokens.size())));
  return tokens;
}

engine::Request Traffic::request(std::vector<TokenId> prompt, int64_t now_ns) {
  const auto longest = static_cast<size_t>(scenario_.context.value - 1);
  if (prompt.size() > longest) prompt.resize(longest);
  engine::Request request{.prompt = std::move(prompt)};
  engine::ReplyOptions& reply = request.reply;
  const uint32_t kind = random_.below(4);
  reply.sampling.temperature = kind == 0 ? 0 : 0.5 + random_.below(3) * 0.5;
  reply.sampling.seed = random_.next();
  if (kind == 1) reply.sampling.frequency_penalty = 0.5;
  if (kind == 2) reply.sampling.repeat_penalty = 1.3;
  if (random_.below(3) != 0) reply.max_tokens = TokenCount(random_length(scenario_.context.value));
  if (random_.below(6) == 0) reply.stop = {std::string(1, static_cast<char>('a' + random_.below(26))) + "e", "zz"};
  reply.ignore_end = random_.below(10) == 0;
  if (random_.below(10) == 0) reply.logprobs = random_.below(3);
  const uint32_t tenant = random_.below(scenario_.tenants);
  request.tenant = "tenant " + std::to_string(tenant);
  request.tenant_weight = tenant == 0 ? 1 : tenant == 1 ? 4 : 0.25;
  request.priority = static_cast<int>(random_.below(scenario_.priorities));
  request.cache_salt = std::string(random_.below(scenario_.salts), 's');
  if (random_.below(10) < scenario_.deadlines_in_ten) {
    request.deadline_ns = now_ns + static_cast<int64_t>(random_.below(200)) * 1'000'000;
  }
  return request;
}

std::vector<engine::Request> Traffic::burst(int64_t now_ns) {
  std::vector<engine::Request> requests;
  const std::vector<TokenId> beginning = shared_beginning();
  const uint32_t count = 2 + random_.below(9);
  const bool choices = random_.below(3) == 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (choices && i > 0) {
      requests.push_back(requests.front());
      requests.back().choice = i;
      continue;
    }
    std::vector<TokenId> prompt = beginning;
    const auto own = random_tokens(random_.below(20));
    prompt.insert(prompt.end(), own.begin(), own.end());
    requests.push_back(request(std::move(prompt), now_ns));
  }
  return requests;
}

std::vector<engine::Request> Traffic::requests(EventKind kind, std::span<const std::unique_ptr<Client>> earlier, int64_t now_ns) {
  if (kind == EventKind::kBurst) return burst(now_ns);
  if (kind == EventKind::kUnrelated) return {request(random_tokens(random_length(scenario_.context.value - 1)), now_ns)};
  if (kind == EventKind::kSharedStart) {
    std::vector<TokenId> prompt = shared_beginning();
    const auto own = random_tokens(random_.below(30));
    prompt.insert(prompt.end(), own.begin(), own.end());
    return {request(std::move(prompt), now_ns)};
  }
  if (earlier.empty()) return {};
  const Client& other = *earlier[random_.below(static_cast<uint32_t>(earlier.size()))];
  std::vector<TokenId> prompt = other.request().prompt;
  if (kind == EventKind::kConversation) {
    // Sometimes the reply is written anew with another end.
    auto reply = std::span(other.got());
    if (random_.below(4) == 0) reply = reply.first(random_.below(static_cast<uint32_t>(reply.size() + 1)));
    prompt.insert(prompt.end(), reply.begin(), reply.end());
    const auto turn = random_tokens(1 + random_.below(12));
    prompt.insert(prompt.end(), turn.begin(), turn.end());
  }
  engine::Request next = request(std::move(prompt), now_ns);
  next.cache_salt = other.request().cache_salt;
  return {std::move(next)};
}

}  // namespace quire::simulation

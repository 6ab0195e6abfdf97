// One request on its way through the step loop. Belongs to the owner thread once the loop has taken it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/reply_text.h"
#include "engine/request.h"
#include "engine/sequence_views.h"
#include "kv/kv_cache.h"
#include "sampling/sampler.h"
#include "sched/scheduler.h"

namespace quire::engine {

// What a waiting job would find in the cache, remembered from one step to the next.
struct OfferMemo {
  int64_t epoch = -1;  // of the cache's content that it is about
  size_t opening = 0;  // jobs that the plan had opened by then
  kv::Match match;
  std::optional<sched::JobId> leader;
  TokenCount position;  // where the common beginning with the leader ends
};

struct Job {
  Job(const tokenizer::Tokenizer& tokenizer, Request asked)
      : request(std::move(asked)),
        tokens(std::move(request.prompt)),
        prompt(static_cast<int64_t>(tokens.size())),
        sampler(request.reply.sampling, request.choice),
        text(tokenizer, request.reply.stop) {}

  [[nodiscard]] TokenCount length() const { return TokenCount(static_cast<int64_t>(tokens.size())); }
  [[nodiscard]] TokenCount generated() const { return length() - prompt; }
  // Tokens whose keys and values are missing; at least the last one, whose logits say what follows.
  [[nodiscard]] TokenCount missing() const { return length() - held; }
  [[nodiscard]] bool running() const { return sequence.has_value(); }

  sched::JobId id;
  sched::JobSpec spec;
  Request request;  // its prompt has moved to `tokens`
  std::string key_space;
  std::shared_ptr<ReplyStream> stream;
  ReplyResult result;  // becomes complete while it runs

  std::vector<TokenId> tokens;  // the prompt, then what was generated
  const TokenCount prompt;
  // Generated tokens after which it ends, and what that end is called: as asked for, and as memory allows now.
  TokenCount wish;
  ReplyEnd at_wish = ReplyEnd::kMaxTokens;
  TokenCount max_new;
  ReplyEnd at_max = ReplyEnd::kMaxTokens;
  sampling::Sampler sampler;
  ReplyText text;

  // While it runs.
  std::optional<kv::SequenceId> sequence;
  TokenCount held;     // tokens that the sequence has
  TokenCount longest;  // that the sequence may reach
  bool found = false;  // it began with tokens that were there
  SequenceViews views;
  TokenCount computed;  // the most tokens it ever had: computing below is computing again

  bool resting = false;
  OfferMemo offer;
};

using JobTable = std::unordered_map<int64_t, std::unique_ptr<Job>>;  // by id

}  // namespace quire::engine

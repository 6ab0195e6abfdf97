// The end of a simulation: what must be true of all that happened.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "tests/simulation/simulation.h"

namespace quire::simulation {

using engine::ReplyEnd;

void Simulation::check_drained() {
  const auto jobs = loop_->statistics().jobs;
  if (jobs.waiting + jobs.running + jobs.suspended != 0) {
    return fail(fmt::format("all are answered, and {} wait, {} run, {} are suspended", jobs.waiting, jobs.running, jobs.suspended));
  }
  if (const kv::Usage usage = cache_->usage(); usage.live.value != 0 || usage.shared.value != 0) {
    return fail(fmt::format("nobody runs, and {} are live, {} shared", usage.live.value, usage.shared.value));
  }
  loop_->clear_cache();
  (void)loop_->step();
  if (const std::string broken = loop_->verify(); !broken.empty()) return fail("verify at the end: " + broken);
  if (const Bytes backed = cache_->usage().backed; backed.value != 0) {
    fail(fmt::format("nobody runs, the cache was cleared, and {} are backed", backed.value));
  }
}

void Simulation::judge() {
  for (const auto& client : clients_) {
    if (const std::string wrong = client->judge(); !wrong.empty()) return fail(wrong);
    if (client->result()) {
      judge_fit(*client);
      const ReplyEnd end = client->result()->end;
      outcome_.refused += end == ReplyEnd::kRefused;
      outcome_.late += end == ReplyEnd::kDeadline;
      outcome_.cut += end == ReplyEnd::kContextFull && end != client->expected().end;
    }
    outcome_.cancelled += client->cancelled();
  }
  judge_elders();
  judge_reuse();
  judge_work();
}

// Refused is only what cannot fit; what cannot fit is refused; cut short is only what nobody asked for and what did not fit.
void Simulation::judge_fit(const Client& client) {
  const ReplyEnd end = client.result()->end;
  const Bytes whole = need(client.longest());
  const Bytes least =
      client.asked_for_length() ? whole : need(TokenCount(static_cast<int64_t>(client.request().prompt.size())) + TokenCount(1));
  if (end == ReplyEnd::kRefused && least <= client.lowest_limit) {
    fail(fmt::format("request {} needs {} and is refused; the limit never was below {}: {}", client.id(), least.value,
                     client.lowest_limit.value, client.result()->error->message));
  }
  const bool answered = end == ReplyEnd::kEndOfText || end == ReplyEnd::kStop || end == ReplyEnd::kMaxTokens;
  if (answered && least > client.highest_limit) {
    fail(fmt::format("request {} needs {}, the limit never was above {}, and it was taken", client.id(), least.value,
                     client.highest_limit.value));
  }
  if (end == ReplyEnd::kContextFull && end != client.expected().end && whole <= client.lowest_limit) {
    fail(fmt::format("request {} was cut after {} tokens; it needs {}, the limit never was below {}", client.id(),
                     client.got().size(), whole.value, client.lowest_limit.value));
  }
}

// Who was the oldest admitted request all his life was never suspended while the ceiling left him what he needs and he read what he
// got: who rests gives way.
void Simulation::judge_elders() {
  for (const auto& elder : clients_) {
    if (!elder->result() || elder->result()->suspensions == 0) continue;
    if (elder->slow || need(elder->longest()) > elder->lowest_limit) continue;
    const int64_t started = elder->result()->started_ns;
    const auto may_be_older = [&](const auto& other) {
      if (other == elder) return false;
      // Of those who dropped their stream nobody knows when they started and ended.
      if (!other->result()) return other->submitted_ns <= started && other->gone_ns.value_or(INT64_MAX) >= started;
      return other->result()->started_ns != 0 && other->result()->started_ns <= started && other->result()->ended_ns >= started;
    };
    if (std::any_of(clients_.begin(), clients_.end(), may_be_older)) continue;
    fail(fmt::format("request {} was the elder from its start to its end and was suspended {} times", elder->id(),
                     elder->result()->suspensions));
  }
}

// Nobody gets more than others have computed before him, under the same salt.
void Simulation::judge_reuse() {
  for (const auto& client : clients_) {
    if (!client->result() || client->result()->started_ns == 0) continue;
    const std::vector<TokenId>& prompt = client->request().prompt;
    int64_t most = 0;
    for (const auto& other : clients_) {
      if (other == client || other->request().cache_salt != client->request().cache_salt) continue;
      const std::vector<TokenId>& tokens = other->history().tokens();
      const auto common = std::mismatch(prompt.begin(), prompt.end(), tokens.begin(), tokens.end()).first - prompt.begin();
      most = std::max<int64_t>(most, common);
    }
    if (!scenario_.share) most = 0;
    most = std::min(most, static_cast<int64_t>(prompt.size()) - 1);
    if (client->result()->reused_tokens.value > most) {
      fail(fmt::format("request {} reuses {} tokens; it has {} in common with others of its salt", client->id(),
                       client->result()->reused_tokens.value, most));
    }
  }
}

// Where there is memory for everything and every position can be reused, nothing is computed twice: but the last token of a prompt,
// beginnings that differ by less than a tile from what is there, and replies that happen to go the same way at the same time.
void Simulation::judge_work() {
  const engine::LoopStatistics statistics = loop_->statistics();
  const bool windows = scenario_.groups.size() > 1 || scenario_.groups.front().window.has_value();
  if (windows || !scenario_.share || scenario_.budget_factor < 20 || limit_fell_ || statistics.jobs.suspensions > 0) return;
  if (scenario_.weights[static_cast<size_t>(EventKind::kClear)] > 0 || statistics.memory.evicted.value > 0) return;
  std::set<std::tuple<std::string, uint64_t>> distinct;
  int64_t twice = 0;
  for (const auto& client : clients_) {
    for (int64_t length = 1; length <= client->history().length(); ++length) {
      distinct.emplace(client->request().cache_salt, client->history().hash(length));
    }
    twice += kTileTokens + client->expected().tokens;
  }
  const auto most = static_cast<int64_t>(distinct.size()) + twice;
  if (statistics.computed_tokens > most) {
    fail(fmt::format("{} tokens were computed; there are {} different ones, and {} that may be computed twice",
                     statistics.computed_tokens, distinct.size(), twice));
  }
}

}  // namespace quire::simulation

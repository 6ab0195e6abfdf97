// Requests as a scenario has them: trees of shared beginnings, repetitions, conversations, bursts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/request.h"
#include "tests/simulation/client.h"
#include "tests/simulation/scenario.h"
#include "tests/support/random.h"

namespace quire::simulation {

class Traffic {
 public:
  // `alphabet`: the tokens that prompts are made of.
  Traffic(const Scenario& scenario, std::vector<TokenId> alphabet, test_support::Random& random);

  // The requests of an event that brings some; none where the event needs others that there are not.
  [[nodiscard]] std::vector<engine::Request> requests(EventKind kind, std::span<const std::unique_ptr<Client>> earlier,
                                                      int64_t now_ns);

 private:
  [[nodiscard]] int64_t random_length(int64_t at_most);
  [[nodiscard]] std::vector<TokenId> random_tokens(int64_t count);
  [[nodiscard]] std::vector<TokenId> shared_beginning();
  [[nodiscard]] engine::Request request(std::vector<TokenId> prompt, int64_t now_ns);
  [[nodiscard]] std::vector<engine::Request> burst(int64_t now_ns);

  const Scenario& scenario_;
  const std::vector<TokenId> alphabet_;
  test_support::Random& random_;
  std::vector<std::vector<TokenId>> documents_;  // each begins with a part of an earlier one, or like no other
};

}  // namespace quire::simulation

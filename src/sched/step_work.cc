#include "sched/step_work.h"

#include <algorithm>
#include <tuple>

namespace quire::sched {

std::vector<StepPlan::Work> StepWork::plan(int64_t& last_decoded) {
  std::vector<const Job*> decoding;
  std::vector<Prompt> prompts;
  for (const Job* job : table_.running()) {
    if (!job->can_work()) continue;
    if (job->decodes()) {
      decoding.push_back(job);
    } else {
      prompts.push_back(prompt_of(*job));
    }
  }
  // Where not even all who decode have room, prompts keep a small part of it.
  const int64_t rows = options_.step_tokens.value;
  const int64_t kept = prompts.empty() ? 0 : std::min(kLeastPrefill, rows / 8);
  if (static_cast<int64_t>(decoding.size()) > rows - kept) {
    const auto after = std::upper_bound(decoding.begin(), decoding.end(), last_decoded,
                                        [](int64_t admission, const Job* job) { return admission < job->admission; });
    std::rotate(decoding.begin(), after, decoding.end());
    decoding.resize(static_cast<size_t>(rows - kept));
  }
  decode(decoding, last_decoded);
  prefill(prompts);
  return std::move(work_);
}

void StepWork::decode(const std::vector<const Job*>& decoding, int64_t& last_decoded) {
  work_.reserve(decoding.size() + 8);
  for (const Job* job : decoding) {
    work_.push_back({.job = job->spec.id, .tokens = TokenCount(1), .decode = true});
    ++size_.decode_rows;
    size_.attended += attended_keys(job->held.value, 1);
  }
  if (!decoding.empty()) last_decoded = decoding.back()->admission;
}

// A leader is as urgent as the most urgent of those who wait for it, and is computed in that one's turn.
StepWork::Prompt StepWork::prompt_of(const Job& job) const {
  Prompt prompt{.urgency = urgency(job.age, job.tenant->service, clock_), .tenant = job.tenant, .job = &job};
  if (job.followers.empty()) return prompt;
  const Job& follower = *job.followers.begin()->second;
  const Urgency inherited = urgency(follower.age, follower.tenant->service, clock_);
  if (inherited < prompt.urgency) {
    prompt.urgency = inherited;
    prompt.tenant = follower.tenant;
  }
  return prompt;
}

// Rows that the prompt can get in this turn.
int64_t StepWork::rows_now(const Prompt& prompt) const {
  const int64_t left = options_.step_tokens.value - size_.decode_rows - size_.prefill_rows;
  const int64_t wanted = std::min({kTurnTokens, left, prompt.job->to_compute().value - prompt.tokens});
  if (size_.decode_rows == 0) return wanted;
  const int64_t begin = prompt.job->held.value + prompt.tokens;
  const int64_t in_time = cost_.prefill_rows_within(size_, begin, wanted, options_.itl_target_ms * 1e6);
  return std::max(in_time, std::min(wanted, kLeastPrefill - size_.prefill_rows));
}

void StepWork::prefill(std::vector<Prompt>& prompts) {
  std::sort(prompts.begin(), prompts.end(), [](const Prompt& a, const Prompt& b) {
    return std::tie(a.tenant->name, a.urgency.level, a.urgency.age) < std::tie(b.tenant->name, b.urgency.level, b.urgency.age);
  });
  std::vector<Turn> turns;
  for (size_t begin = 0; begin < prompts.size();) {
    size_t end = begin;
    while (end < prompts.size() && prompts[end].tenant == prompts[begin].tenant) ++end;
    turns.push_back({.urgency = prompts[begin].urgency, .next = begin, .end = end});
    begin = end;
  }
  std::make_heap(turns.begin(), turns.end());
  while (!turns.empty()) {
    std::pop_heap(turns.begin(), turns.end());
    Turn& turn = turns.back();
    Prompt& prompt = prompts[turn.next];
    const int64_t rows = rows_now(prompt);
    if (rows <= 0) break;
    size_.attended += attended_keys(prompt.job->held.value + prompt.tokens, rows);
    size_.prefill_rows += rows;
    prompt.tokens += rows;
    const double service = turn.urgency.service + static_cast<double>(rows) / prompt.job->spec.tenant_weight;
    if (prompt.tokens == prompt.job->to_compute().value && ++turn.next == turn.end) {
      turns.pop_back();
      continue;
    }
    turn.urgency = prompts[turn.next].urgency;
    turn.urgency.service = service;
    std::push_heap(turns.begin(), turns.end());
  }
  std::stable_sort(prompts.begin(), prompts.end(), [](const Prompt& a, const Prompt& b) { return a.urgency < b.urgency; });
  for (const Prompt& prompt : prompts) {
    if (prompt.tokens > 0) work_.push_back({.job = prompt.job->spec.id, .tokens = TokenCount(prompt.tokens), .decode = false});
  }
}

}  // namespace quire::sched

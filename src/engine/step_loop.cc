#include "engine/step_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/background_backer.h"
#include "engine/job.h"
#include "engine/key_space.h"
#include "engine/loop_inbox.h"
#include "engine/loop_memory.h"
#include "port/clock.h"

namespace quire::engine {
namespace {

constexpr int64_t kCeilingEveryNs = 200'000'000;
constexpr int64_t kIdleLookNs = 1'000'000'000;  // how long a ceiling that falls waits for an idle loop that holds cache
constexpr int64_t kShortestWaitNs = 1'000'000;
constexpr Bytes kGivenBackAtOnce(int64_t{64} << 20);  // bounds what a falling ceiling takes of a step

Error refusal_error(const sched::Refusal& refusal, TokenCount tokens) {
  return make_error(ErrorCode::kOutOfMemory,
                    fmt::format("the KV cache needs {} for {} tokens and may take {}; close other programs, raise --kv-memory, "
                                "shorten the prompt or ask for fewer tokens",
                                format_bytes(refusal.needed), tokens.value, format_bytes(refusal.available)));
}

StepLoopOptions with_defaults(StepLoopOptions options, const ModelRunner& model, const kv::KvCache& cache) {
  options.scheduler.step_tokens = std::min(options.scheduler.step_tokens, TokenCount(model.max_rows()));
  if (!options.now_ns) options.now_ns = port::monotonic_ns;
  if (!options.ceiling) options.ceiling = [limit = cache.usage().limit] { return limit; };
  return options;
}

void raise_to(Bytes& peak, Bytes now) { peak = std::max(peak, now); }

void raise_peak(kv::Usage& peak, const kv::Usage& now) {
  for (const auto field :
       {&kv::Usage::limit, &kv::Usage::backed, &kv::Usage::live, &kv::Usage::shared, &kv::Usage::cached, &kv::Usage::warm,
        &kv::Usage::page_tables, &kv::Usage::evictable, &kv::Usage::evicted, &kv::Usage::allocated}) {
    raise_to(peak.*field, now.*field);
  }
}

}  // namespace

class StepLoop::Impl {
 public:
  Impl(ModelRunner& model, const tokenizer::Tokenizer& tokenizer, kv::KvCache& cache, const StepLoopOptions& options)
      : model_(model),
        tokenizer_(tokenizer),
        cache_(cache),
        options_(with_defaults(options, model, cache)),
        inbox_(std::make_shared<LoopInbox>()),
        scheduler_(options_.scheduler),
        memory_(cache, jobs_, running_, options_.scheduler.step_tokens) {
    QUIRE_CHECK(options_.context.value > 0, "a loop has a longest sequence");
    if (options_.background_backing) backer_ = std::make_unique<BackgroundBacker>();
    publish();
  }

  ~Impl() {
    (void)take_letters();
    while (!jobs_.empty()) end_and_tell(*jobs_.begin()->second, ReplyEnd::kCancelled);
    finish_ended();
  }

  Result<std::shared_ptr<ReplyStream>> submit(Request request, std::function<void()> readable);

  void run() {
    while (!stopping_) {
      if (!step()) wait_for_letters();
    }
    stopping_ = false;
  }

  void stop() { inbox_->stop(); }
  void clear_cache() { inbox_->clear_cache(); }

  bool step();
  [[nodiscard]] std::optional<int64_t> idle_until_ns() const { return idle_until_; }

  [[nodiscard]] LoopStatistics statistics() const {
    const std::lock_guard lock(statistics_mutex_);
    return published_;
  }

  [[nodiscard]] std::string verify() const;

 private:
  // A job's part of the step's forward pass.
  struct Work {
    Job* job;
    TokenCount tokens;
    bool decode;
    int last_row;  // of the pass
  };

  // --- The parts of a step, in their order
  bool take_letters();
  bool follow_ceiling(int64_t now);
  bool carry_out(const sched::StepPlan& plan);
  void open(const sched::StepPlan::Open& planned);
  void gather(const std::vector<sched::StepPlan::Work>& planned);
  void back_batch();
  void compute(int64_t began);
  void plan_ahead();
  void take_over_ahead();
  void append_batch();
  void sample_batch();
  void sample(Job& job, std::span<const float> logits);
  void publish();
  void finish_ended();

  // --- Jobs
  Job* find(sched::JobId id) const;
  void look_after(Job& job);
  void began(Job& job, const sched::StepPlan::Open& planned);
  void not_opened(Job& job, const Error* error);
  void suspend(Job& job);
  void leave_memory(Job& job, kv::KvCache::Keep keep);
  [[nodiscard]] bool begin_anew();
  void fail_whom_the_port_fails();
  // The job ends; the scheduler knows already.
  void end(Job& job, ReplyEnd end, std::optional<Error> error = {}, kv::KvCache::Keep keep = kv::KvCache::Keep::kCache);
  void end_and_tell(Job& job, ReplyEnd why, std::optional<Error> error = {}, kv::KvCache::Keep keep = kv::KvCache::Keep::kCache) {
    scheduler_.end(job.id);
    end(job, why, std::move(error), keep);
  }
  void drop_work_of(const Job& job) {
    std::erase_if(batch_, [&](const Work& work) { return work.job == &job; });
  }

  void wait_for_letters();

  ModelRunner& model_;
  const tokenizer::Tokenizer& tokenizer_;
  kv::KvCache& cache_;
  const StepLoopOptions options_;
  std::shared_ptr<LoopInbox> inbox_;
  std::atomic<int64_t> next_id_{1};

  // Of the owner thread.
  sched::Scheduler scheduler_;
  JobTable jobs_;
  std::vector<Job*> running_;
  std::vector<std::unique_ptr<Job>> ended_;  // in this step: its lists may still name them, and their readers are not told yet
  LoopMemory memory_;
  bool stopping_ = false;
  std::optional<int64_t> idle_until_;
  std::optional<int64_t> ceiling_asked_ns_;

  std::vector<Work> batch_;
  std::vector<kv::Growth> growths_;
  std::vector<model::SequenceChunk> chunks_;
  std::vector<Job*> complete_;  // of the batch: what follows them can be sampled
  std::vector<int> rows_;
  sampling::LogprobRow logprobs_;

  std::unique_ptr<BackgroundBacker> backer_;
  kv::BackingPlan ahead_;  // for the next step
  bool planned_ahead_ = false;

  LoopStatistics statistics_;
  mutable std::mutex statistics_mutex_;
  LoopStatistics published_;
};

// --- Coming in

Result<std::shared_ptr<ReplyStream>> StepLoop::Impl::submit(Request request, std::function<void()> readable) {
  const TokenCount prompt(static_cast<int64_t>(request.prompt.size()));
  if (request.prompt.empty()) return make_error(ErrorCode::kInvalidArgument, "the prompt is empty; write something");
  for (const TokenId token : request.prompt) {
    if (tokenizer_.contains(token)) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is no token id; the vocabulary has {} tokens, from 0", token, tokenizer_.vocab_size()));
  }
  if (prompt >= options_.context) {
    return make_error(ErrorCode::kLimit,
                      fmt::format("the prompt has {} tokens, the context has room for {} and a reply; shorten it", prompt.value,
                                  options_.context.value - 1));
  }
  QUIRE_TRY_STATUS(sampling::validate(request.reply.sampling, static_cast<int64_t>(tokenizer_.vocab_size())));
  if (request.reply.max_tokens.value < 0) return make_error(ErrorCode::kInvalidArgument, "max_tokens is negative");
  if (!(request.tenant_weight > 0) || !std::isfinite(request.tenant_weight)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("a tenant's weight is above 0, not {}", request.tenant_weight));
  }

  auto job = std::make_unique<Job>(tokenizer_, std::move(request));
  const Request& asked = job->request;
  job->id = sched::JobId(next_id_.fetch_add(1));
  job->key_space = key_space({.cache_salt = asked.cache_salt});
  job->stream = std::make_shared<ReplyStream>(options_.stream_capacity, std::move(readable));
  job->stream->on_attention([inbox = inbox_, id = job->id] { inbox->call_attention(id); });
  // The last token of a reply is sampled and never computed, so that a full context is followed by one more.
  const TokenCount room = options_.context - prompt;
  const TokenCount wish = asked.reply.max_tokens;
  const bool asks = wish.value > 0;
  job->wish = asks ? std::min(wish, room + TokenCount(1)) : room + TokenCount(1);
  job->at_wish = asks && wish == job->wish ? ReplyEnd::kMaxTokens : ReplyEnd::kContextFull;
  job->result.prompt_tokens = prompt;
  job->result.submitted_ns = options_.now_ns();
  job->spec = {.id = job->id,
               .tenant = asked.tenant,
               .tenant_weight = asked.tenant_weight,
               .priority = asked.priority,
               .arrival_ns = job->result.submitted_ns,
               .deadline_ns = asked.deadline_ns,
               .prompt = prompt,
               .max_new = job->wish,
               .max_new_asked = asks};
  // The reader's handle: dropping the last copy cancels.
  const std::shared_ptr<ReplyStream> stream = job->stream;
  std::shared_ptr<ReplyStream> handle(stream.get(), [stream](ReplyStream* dropped) { dropped->cancel(); });
  inbox_->submit(std::move(job));
  return handle;
}

bool StepLoop::Impl::take_letters() {
  LoopInbox::Letters letters = inbox_->take();
  for (std::unique_ptr<Job>& job : letters.submitted) {
    scheduler_.submit(job->spec);
    const int64_t id = job->id.value;
    jobs_.emplace(id, std::move(job));
  }
  for (const sched::JobId id : letters.attention) {
    if (Job* job = find(id)) look_after(*job);
  }
  if (letters.clear_cache) {
    cache_.clear();
    memory_.content_changed();
  }
  if (letters.stop) stopping_ = true;
  return !letters.empty();
}

void StepLoop::Impl::look_after(Job& job) {
  if (job.stream->cancelled()) {
    end_and_tell(job, ReplyEnd::kCancelled);
  } else if (job.resting && !job.stream->full()) {
    job.resting = false;
    scheduler_.set_resting(job.id, false);
  }
}

// Whether there is more to give back.
bool StepLoop::Impl::follow_ceiling(int64_t now) {
  if (!ceiling_asked_ns_ || now - *ceiling_asked_ns_ >= kCeilingEveryNs) {
    ceiling_asked_ns_ = now;
    const Bytes ceiling = options_.ceiling();
    cache_.set_limit(ceiling);
    memory_.set_ceiling(ceiling, now);
  }
  const Bytes evicted = cache_.usage().evicted;
  // What only running sequences hold beyond the limit is the scheduler's to see and to suspend.
  const bool all_that_can_go = cache_.enforce_limit(kGivenBackAtOnce).value > 0;
  const kv::Usage after = cache_.usage();
  if (after.evicted != evicted) memory_.content_changed();
  return after.backed > after.limit && !all_that_can_go;
}

// --- A step

bool StepLoop::Impl::step() {
  const int64_t began = options_.now_ns();
  bool busy = take_letters();
  if (stopping_) return true;
  busy |= follow_ceiling(began);
  const sched::StepPlan plan = scheduler_.plan(began, memory_);
  idle_until_ = plan.idle_until_ns;
  busy |= carry_out(plan);
  if (!batch_.empty()) compute(began);
  publish();
  finish_ended();
  QUIRE_EXPENSIVE(scheduler_.verify().empty(), scheduler_.verify());
  return busy;
}

// Up to the forward pass; whether there was anything to do.
bool StepLoop::Impl::carry_out(const sched::StepPlan& plan) {
  for (const sched::Refusal& refusal : plan.refused) {
    Job& job = *find(refusal.job);
    end(job, ReplyEnd::kRefused, refusal_error(refusal, job.prompt + job.spec.max_new));
  }
  for (const sched::StepPlan::Expired& expired : plan.expired) {
    end(*find(expired.job), expired.why == sched::Expiry::kDeadline ? ReplyEnd::kDeadline : ReplyEnd::kContextFull);
  }
  for (const sched::JobId id : plan.suspended) suspend(*find(id));
  for (const sched::StepPlan::Open& planned : plan.opened) open(planned);
  for (const auto& awaited : memory_.take_awaited()) {
    const Job* leader = find(awaited.leader);
    if (leader != nullptr && leader->running() && leader->held < awaited.position)
      cache_.want_checkpoint(*leader->sequence, awaited.position);
  }
  gather(plan.work);
  back_batch();
  return !plan.refused.empty() || !plan.expired.empty() || !plan.suspended.empty() || !plan.opened.empty() || !plan.work.empty();
}

void StepLoop::Impl::open(const sched::StepPlan::Open& planned) {
  Job& job = *find(planned.job);
  job.longest = std::clamp(job.prompt + planned.max_new, job.length(), options_.context);
  for (bool again = true;; again = false) {
    const Result<std::optional<kv::SequenceId>> opened = cache_.open(job.key_space, job.tokens, job.longest);
    memory_.content_changed();
    if (opened.ok() && opened->has_value()) {
      job.sequence = *opened;
      return this->began(job, planned);
    }
    // Where others run, their end makes room: of memory, and of what else the system may have run out of.
    if (!running_.empty()) return scheduler_.not_opened(job.id);
    if (!again) return not_opened(job, opened.ok() ? nullptr : &opened.error());
    cache_.clear();
  }
}

// Nothing else runs, nothing else is held.
void StepLoop::Impl::not_opened(Job& job, const Error* error) {
  if (error != nullptr) return end_and_tell(job, ReplyEnd::kFailed, *error);
  scheduler_.not_opened(job.id);
}

void StepLoop::Impl::began(Job& job, const sched::StepPlan::Open& planned) {
  job.held = cache_.length(*job.sequence);
  job.found = job.held.value > 0;
  running_.push_back(&job);
  scheduler_.opened(job.id, job.held);
  const bool cut = planned.max_new < job.spec.max_new;
  job.max_new = cut ? planned.max_new : job.wish;
  job.at_max = cut ? ReplyEnd::kContextFull : job.at_wish;
  if (job.result.started_ns == 0) {
    job.result.started_ns = options_.now_ns();
    job.result.reused_tokens = job.held;
    statistics_.prompt_tokens += job.prompt.value;
    statistics_.reused_tokens += job.held.value;
  }
  if (job.generated() >= job.max_new) end_and_tell(job, job.at_max);
}

void StepLoop::Impl::gather(const std::vector<sched::StepPlan::Work>& planned) {
  batch_.clear();
  for (const sched::StepPlan::Work& work : planned) {
    Job* job = find(work.job);
    if (job == nullptr || !job->running()) continue;
    batch_.push_back({.job = job, .tokens = std::min(work.tokens, job->missing()), .decode = work.decode, .last_row = 0});
  }
}

// Memory for what the batch computes. Where there is none, others give way, or the lone one waits.
void StepLoop::Impl::back_batch() {
  for (bool cleared = false; !batch_.empty();) {
    growths_.clear();
    for (const Work& work : batch_) growths_.push_back({.sequence = *work.job->sequence, .length = work.job->held + work.tokens});
    const Bytes evicted = cache_.usage().evicted;
    const Result<kv::Room> room = cache_.prepare(growths_);
    if (cache_.usage().evicted != evicted) memory_.content_changed();
    if (room.ok() && room->space == kv::Space::kOk) return;
    if (!room.ok() && room.error().code != ErrorCode::kOutOfMemory) {
      fail_whom_the_port_fails();
      continue;
    }
    if (const std::optional<sched::JobId> victim = scheduler_.make_room()) {
      suspend(*find(*victim));
      continue;
    }
    if (room.ok() && begin_anew()) continue;
    if (room.ok() || cleared) return batch_.clear();
    // The system has run out of something else than memory, such as addresses: all that can go goes.
    cleared = true;
    cache_.clear();
    memory_.content_changed();
  }
}

// Tiles that were found lie in others' sets and take more granules and page tables than a set of its own. Alone everybody fits who
// was admitted: so the only one that runs, where it cannot go on, begins alone.
bool StepLoop::Impl::begin_anew() {
  if (running_.size() != 1 || batch_.size() != 1 || !batch_.front().job->found) return false;
  Work& work = batch_.front();
  Job& job = *work.job;
  cache_.close(*job.sequence, kv::KvCache::Keep::kDrop);
  cache_.clear();
  const Result<std::optional<kv::SequenceId>> opened = cache_.open(job.key_space, job.tokens, job.longest);
  QUIRE_CHECK(opened.ok() && opened->has_value() && cache_.length(**opened).value == 0, "where nothing is, nothing is copied");
  job.sequence = *opened;
  job.held = TokenCount(0);
  job.found = false;
  job.views.clear();
  memory_.content_changed();
  scheduler_.restarted(job.id);
  work.tokens = std::min(options_.scheduler.step_tokens, job.missing());
  work.decode = false;
  return true;
}

// The port has failed for the batch: each job by itself shows whose memory it is. After a passing fault nobody's.
void StepLoop::Impl::fail_whom_the_port_fails() {
  const std::vector<Work> batch = batch_;
  for (const Work& work : batch) {
    const kv::Growth growth{.sequence = *work.job->sequence, .length = work.job->held + work.tokens};
    const Result<kv::Room> room = cache_.prepare(std::span(&growth, 1));
    if (room.ok() || room.error().code == ErrorCode::kOutOfMemory) continue;
    end_and_tell(*work.job, ReplyEnd::kFailed, room.error());
  }
}

void StepLoop::Impl::compute(int64_t began) {
  chunks_.clear();
  sched::StepSize size;
  int rows = 0;
  for (Work& work : batch_) {
    const Job& job = *work.job;
    const auto held = static_cast<size_t>(job.held.value);
    const int64_t count = work.tokens.value;
    chunks_.push_back({.tokens = std::span(job.tokens).subspan(held, static_cast<size_t>(count)),
                       .first_position = TokenPos(job.held.value),
                       .layers = work.job->views.of(cache_, *job.sequence, model_.layers())});
    rows += static_cast<int>(count);
    work.last_row = rows - 1;
    (work.decode ? size.decode_rows : size.prefill_rows) += count;
    size.attended += count * job.held.value + count * (count + 1) / 2;
  }
  QUIRE_CHECK(rows <= model_.max_rows(), "a step is a pass");
  plan_ahead();
  model_.run(chunks_);
  take_over_ahead();
  append_batch();
  raise_peak(statistics_.peak_memory, cache_.usage());  // before those who end now give theirs back
  sample_batch();
  statistics_.steps += 1;
  scheduler_.step_took(size, options_.now_ns() - began);
}

// Memory for what the next step computes, as far as it can be told now: every decoding sequence grows by a token, every prompt by
// as much as in this step. Where there is no room nothing is planned.
void StepLoop::Impl::plan_ahead() {
  if (backer_ == nullptr) return;
  growths_.clear();
  for (const Work& work : batch_) {
    const Job& job = *work.job;
    const TokenCount after = job.held + work.tokens;
    const TokenCount missing = job.length() - after;
    const bool ends = missing.value == 0 && job.generated() + TokenCount(1) >= job.max_new;
    const TokenCount next = after + (missing.value > 0 ? std::min(work.tokens, missing) : TokenCount(ends ? 0 : 1));
    if (tiles_for(next) > tiles_for(after)) growths_.push_back({.sequence = *job.sequence, .length = next});
  }
  if (growths_.empty()) return;
  const Bytes evicted = cache_.usage().evicted;
  const kv::Room room = cache_.plan(growths_, ahead_);
  if (cache_.usage().evicted != evicted) memory_.content_changed();
  if (room.space == kv::Space::kNoSpace) return;
  planned_ahead_ = true;
  if (!ahead_.empty()) backer_->start(ahead_);
}

void StepLoop::Impl::take_over_ahead() {
  if (!planned_ahead_) return;
  planned_ahead_ = false;
  backer_->wait();
  // What the system has refused here the next step asks for again, and answers for it.
  (void)cache_.commit(std::exchange(ahead_, {}));
}

void StepLoop::Impl::append_batch() {
  complete_.clear();
  rows_.clear();
  for (const Work& work : batch_) {
    Job& job = *work.job;
    const auto held = static_cast<size_t>(job.held.value);
    cache_.append(*job.sequence, std::span(job.tokens).subspan(held, static_cast<size_t>(work.tokens.value)));
    statistics_.computed_tokens += work.tokens.value;
    statistics_.recomputed_tokens += std::clamp((job.computed - job.held).value, int64_t{0}, work.tokens.value);
    job.held += work.tokens;
    job.computed = std::max(job.computed, job.held);
    const bool completes = job.missing().value == 0;
    if (!work.decode) memory_.content_changed();
    scheduler_.computed(job.id, work.tokens, TokenCount(completes ? 1 : 0));
    if (!completes) continue;
    complete_.push_back(&job);
    rows_.push_back(work.last_row);
  }
}

void StepLoop::Impl::sample_batch() {
  const auto width = static_cast<size_t>(model_.vocabulary());
  const auto at_once = static_cast<size_t>(model_.max_logit_rows());
  for (size_t done = 0; done < rows_.size(); done += at_once) {
    const auto rows = std::span(rows_).subspan(done, std::min(at_once, rows_.size() - done));
    const std::span<const float> logits = model_.logits(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      // Some models have more output rows than tokens.
      sample(*complete_[done + i], logits.subspan(i * width, tokenizer_.vocab_size()));
    }
  }
}

void StepLoop::Impl::sample(Job& job, std::span<const float> logits) {
  const TokenPos position(job.length().value);
  const TokenId token = job.sampler.sample(logits, position, job.tokens, job.prompt);
  if (!std::isfinite(logits[static_cast<size_t>(token)])) {
    return end_and_tell(job, ReplyEnd::kFailed, no_numbers(position), kv::KvCache::Keep::kDrop);
  }
  if (job.result.first_token_ns == 0) job.result.first_token_ns = options_.now_ns();
  if (tokenizer_.is_end_of_generation(token) && !job.request.reply.ignore_end) return end_and_tell(job, ReplyEnd::kEndOfText);

  job.tokens.push_back(token);
  statistics_.generated_tokens += 1;
  ReplyToken sampled{.token = token};
  if (const std::optional<size_t> top = job.request.reply.logprobs) {
    logprobs_.read(logits, std::min(*top, logits.size()));
    sampled.logprob = logprobs_.of(logits, token);
    sampled.top.assign(logprobs_.top().begin(), logprobs_.top().end());
  }
  ReplyPiece piece{.text = job.text.add(token), .tokens = {}};
  piece.tokens.push_back(std::move(sampled));
  job.stream->push(std::move(piece));
  if (job.text.stopped()) return end_and_tell(job, ReplyEnd::kStop);
  if (job.generated() >= job.max_new) return end_and_tell(job, job.at_max);
  if (job.stream->full()) {
    job.resting = true;
    scheduler_.set_resting(job.id, true);
  }
}

// --- Jobs

Job* StepLoop::Impl::find(sched::JobId id) const {
  const auto found = jobs_.find(id.value);
  return found == jobs_.end() ? nullptr : found->second.get();
}

void StepLoop::Impl::suspend(Job& job) {
  drop_work_of(job);
  leave_memory(job, kv::KvCache::Keep::kCache);
  job.result.suspensions += 1;
}

void StepLoop::Impl::leave_memory(Job& job, kv::KvCache::Keep keep) {
  if (!job.running()) return;
  cache_.close(*job.sequence, keep);
  job.sequence.reset();
  job.held = TokenCount(0);
  job.views.clear();
  std::erase(running_, &job);
  memory_.content_changed();
}

void StepLoop::Impl::end(Job& job, ReplyEnd why, std::optional<Error> error, kv::KvCache::Keep keep) {
  drop_work_of(job);
  leave_memory(job, keep);
  if (why != ReplyEnd::kStop) {
    if (std::string rest = job.text.finish(); !rest.empty()) job.stream->push({.text = std::move(rest), .tokens = {}});
  }
  job.result.end = why;
  job.result.error = std::move(error);
  job.result.reply_tokens = job.generated();
  job.result.ended_ns = options_.now_ns();
  const auto found = jobs_.find(job.id.value);
  ended_.push_back(std::move(found->second));
  jobs_.erase(found);
}

// After the statistics: who sees the end of a reply sees it counted.
void StepLoop::Impl::finish_ended() {
  for (const std::unique_ptr<Job>& job : ended_) job->stream->finish(std::move(job->result));
  ended_.clear();
}

// --- Beside the steps

void StepLoop::Impl::publish() {
  statistics_.memory = cache_.usage();
  raise_peak(statistics_.peak_memory, statistics_.memory);
  statistics_.jobs = scheduler_.counts();
  const std::lock_guard lock(statistics_mutex_);
  published_ = statistics_;
}

void StepLoop::Impl::wait_for_letters() {
  std::optional<int64_t> wait;
  if (idle_until_) wait = std::max(kShortestWaitNs, *idle_until_ - options_.now_ns());
  if (cache_.usage().backed.value > 0) wait = std::min(wait.value_or(kIdleLookNs), kIdleLookNs);
  inbox_->wait(wait);
}

std::string StepLoop::Impl::verify() const {
  if (std::string broken = cache_.verify(); !broken.empty()) return broken;
  if (std::string broken = scheduler_.verify(); !broken.empty()) return broken;
  if (cache_.sequences() != running_.size()) {
    return fmt::format("the cache has {} sequences, {} jobs run", cache_.sequences(), running_.size());
  }
  for (const Job* job : running_) {
    if (cache_.length(*job->sequence) != job->held) {
      return fmt::format("job {}: the cache holds {} tokens, it counts {}", job->id.value, cache_.length(*job->sequence).value,
                         job->held.value);
    }
  }
  return {};
}

// --- The class

StepLoop::StepLoop(ModelRunner& model, const tokenizer::Tokenizer& tokenizer, kv::KvCache& cache, const StepLoopOptions& options)
    : impl_(std::make_unique<Impl>(model, tokenizer, cache, options)) {}

StepLoop::~StepLoop() = default;

Result<std::shared_ptr<ReplyStream>> StepLoop::submit(Request request, std::function<void()> readable) {
  return impl_->submit(std::move(request), std::move(readable));
}

void StepLoop::run() { impl_->run(); }
void StepLoop::stop() { impl_->stop(); }
bool StepLoop::step() { return impl_->step(); }
std::optional<int64_t> StepLoop::idle_until_ns() const { return impl_->idle_until_ns(); }
void StepLoop::clear_cache() { impl_->clear_cache(); }
LoopStatistics StepLoop::statistics() const { return impl_->statistics(); }
std::string StepLoop::verify() const { return impl_->verify(); }

}  // namespace quire::engine

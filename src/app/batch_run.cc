#include "app/batch_run.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <utility>

#include "app/civil_time.h"
#include "base/hash.h"
#include "port/clock.h"

namespace quire::app {
namespace {

// Bounds the memory of what is in flight, but for one line that has more than all of it.
constexpr size_t kBytesInFlight = size_t{256} << 20;
constexpr std::chrono::milliseconds kTick(100);
// A power failure may cost the results of so long: syncing each would cost more than they did.
constexpr int64_t kSyncEveryNs = 1'000'000'000;

uint64_t seed_of(const std::string& custom_id, uint64_t seed) { return hash64(std::as_bytes(std::span(custom_id)), seed); }

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t") == std::string::npos; }

}  // namespace

// What streams have to tell, from the loop's thread to ours: each event is a piece that can be read, or the end.
class BatchRun::Events {
 public:
  struct Event {
    int64_t line;
    size_t choice;
    int64_t ns;
  };

  void push(int64_t line, size_t choice) {
    const Event event{.line = line, .choice = choice, .ns = port::monotonic_ns()};
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
    }
    changed_.notify_one();
  }

  // Those that are there, or that come within `at_most`.
  std::deque<Event> wait(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, at_most, [this] { return !events_.empty(); });
    return std::exchange(events_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
};

struct BatchRun::InFlight {
  InFlight(int64_t number, std::string id, server::PreparedCompletion ready, const tokenizer::Tokenizer& tokenizer, size_t memory)
      : line(number), custom_id(std::move(id)), prepared(std::move(ready)), reply(prepared, tokenizer), bytes(memory) {
    choices.resize(prepared.choices());
  }

  struct Choice {
    std::shared_ptr<engine::ReplyStream> stream = {};
    int64_t submitted_ns = 0;
    int64_t last_token_ns = 0;  // 0: none yet
  };

  int64_t line;
  std::string custom_id;
  server::PreparedCompletion prepared;
  server::CompletionReply reply;
  size_t bytes;
  std::vector<Choice> choices;
  size_t submitted = 0;
  std::optional<server::ApiError> failure = {};  // what the step loop did not take
};

BatchRun::BatchRun(engine::StepLoop& loop, const BatchRunOptions& options, const server::BatchAnswers& before,
                   port::AppendFile& output)
    : loop_(loop), options_(options), before_(before), output_(output), events_(std::make_shared<Events>()) {}

BatchRun::~BatchRun() = default;

Status BatchRun::run(std::istream& input, const std::function<bool()>& interrupted, const std::function<void()>& on_tick) {
  server::LineReader lines(input, server::kMaxBatchLineBytes);
  synced_ns_ = port::monotonic_ns();
  int64_t ticked_ns = synced_ns_;
  while (!interrupted()) {
    QUIRE_TRY_STATUS(feed(lines));
    if (input.bad())
      return make_error(ErrorCode::kIo, "the input cannot be read any further; check its disk and go on with --resume");
    if (all_read_ && in_flight_.empty()) break;
    for (const Events::Event& event : events_->wait(more_to_feed_ ? std::chrono::milliseconds(0) : kTick)) {
      const auto found = in_flight_.find(event.line);
      if (found == in_flight_.end()) continue;
      InFlight& request = *found->second;
      take_event(request, event.choice, event.ns);
      if (request.reply.finished()) QUIRE_TRY_STATUS(finish(request));
    }
    QUIRE_TRY_STATUS(sync(false));
    if (const int64_t now = port::monotonic_ns(); now - ticked_ns >= std::chrono::nanoseconds(kTick).count()) {
      ticked_ns = now;
      on_tick();
    }
  }
  in_flight_.clear();  // dropping streams cancels them
  return sync(true);
}

bool BatchRun::has_room() const {
  if (choices_in_flight_ >= options_.choices_at_once) return false;
  return bytes_in_flight_ < kBytesInFlight || in_flight_.empty();
}

// Submits until enough is in flight, or so many lines were read that replies and interruptions must have their turn.
Status BatchRun::feed(server::LineReader& lines) {
  constexpr int kLinesAtOnce = 256;
  const int64_t lines_before = counts_.lines;
  more_to_feed_ = false;
  while (has_room()) {
    more_to_feed_ = counts_.lines - lines_before >= kLinesAtOnce;
    if (more_to_feed_) break;
    if (filling_ != nullptr) {
      submit_next(*filling_);
      continue;
    }
    if (all_read_) break;
    const std::optional<server::LineReader::Line> line = lines.next();
    all_read_ = !line;
    if (line && !is_blank(line->text)) QUIRE_TRY_STATUS(take_line(*line));
  }
  return {};
}

Status BatchRun::take_line(const server::LineReader::Line& line) {
  ++counts_.lines;
  auto parsed = server::parse_batch_line(line);
  if (auto* request = std::get_if<server::BatchRequest>(&parsed)) {
    if (!seen_.insert(request->custom_id)) {
      parsed = server::duplicate_line(request->custom_id);
    } else if (before_.ids.contains(request->custom_id)) {
      ++counts_.skipped;
      return {};
    } else {
      return begin(line, std::move(*request));
    }
  }
  if (before_.lines.contains(line.number)) {
    ++counts_.skipped;
    return {};
  }
  ++counts_.failed;
  return write(server::result_line(line.number, std::get<server::BatchLineError>(parsed)));
}

Status BatchRun::begin(const server::LineReader::Line& line, server::BatchRequest request) {
  if (!request.body.ok()) return fail(line.number, request.custom_id, request.body.error());
  if (request.body->stream) {
    return fail(line.number, request.custom_id,
                {.message = "stream: a batch answers whole; leave it out", .code = "unsupported_value", .param = "stream"});
  }
  auto prepared = server::PreparedCompletion::create(std::move(request.body).value(), options_.model,
                                                     seed_of(request.custom_id, options_.seed), civil_time());
  if (!prepared.ok()) return fail(line.number, request.custom_id, prepared.error());
  size_t bytes = line.text.size();
  const auto copies = 2 + static_cast<size_t>(prepared->body().choices);  // ours, and those of the requests
  for (const auto& prompt : prepared->prompts()) bytes += copies * prompt.tokens.size() * sizeof(TokenId);
  auto in_flight =
      std::make_unique<InFlight>(line.number, request.custom_id, std::move(prepared).value(), *options_.model.tokenizer, bytes);
  filling_ = in_flight.get();
  bytes_in_flight_ += bytes;
  in_flight_.emplace(line.number, std::move(in_flight));
  return {};
}

void BatchRun::submit_next(InFlight& request) {
  const size_t index = request.submitted++;
  if (request.submitted == request.choices.size()) filling_ = nullptr;
  ++choices_in_flight_;
  InFlight::Choice& choice = request.choices[index];
  choice.submitted_ns = port::monotonic_ns();
  auto stream =
      loop_.submit(request.prepared.request(index), [events = events_, line = request.line, index] { events->push(line, index); });
  if (stream.ok()) {
    choice.stream = std::move(stream).value();
    return;
  }
  engine::ReplyResult result;
  result.end = engine::ReplyEnd::kFailed;
  request.failure = server::refused_request(stream.error());
  request.reply.finish(index, result);
  --choices_in_flight_;
  events_->push(request.line, index);
}

void BatchRun::take_event(InFlight& request, size_t index, int64_t ns) {
  InFlight::Choice& choice = request.choices[index];
  if (!choice.stream) return;  // the end was seen with the last piece
  if (const std::optional<engine::ReplyPiece> piece = choice.stream->try_next()) {
    request.reply.add(index, *piece);
    if (!piece->tokens.empty()) {
      const bool first = choice.last_token_ns == 0;
      (first ? first_token_times_ : token_intervals_).add(ns - (first ? choice.submitted_ns : choice.last_token_ns));
      choice.last_token_ns = ns;
    }
  }
  if (!choice.stream->ended()) return;
  request.reply.finish(index, choice.stream->result());
  choice.stream.reset();
  --choices_in_flight_;
}

Status BatchRun::finish(InFlight& request) {
  const int64_t line = request.line;
  const std::string custom_id = request.custom_id;
  const auto body =
      request.reply.body({.id = fmt::format("batch-{}", line), .model = options_.model.name, .created = port::unix_seconds()});
  const std::optional<server::ApiError> failure = request.failure;
  bytes_in_flight_ -= request.bytes;
  in_flight_.erase(line);
  if (failure) return fail(line, custom_id, *failure);
  if (!body.ok()) return fail(line, custom_id, body.error());
  ++counts_.completed;
  return write(server::result_line(line, custom_id, *body));
}

Status BatchRun::fail(int64_t line, const std::string& custom_id, const server::ApiError& error) {
  ++counts_.failed;
  if (error.code == server::kKvMemoryExceeded) ++counts_.refused;
  return write(server::result_line(line, custom_id, error));
}

Status BatchRun::write(const std::string& line) {
  unsynced_ = true;
  return output_.append(line);
}

Status BatchRun::sync(bool now) {
  const int64_t ns = port::monotonic_ns();
  if (!unsynced_ || (!now && ns - synced_ns_ < kSyncEveryNs)) return {};
  unsynced_ = false;
  synced_ns_ = ns;
  return output_.sync();
}

}  // namespace quire::app

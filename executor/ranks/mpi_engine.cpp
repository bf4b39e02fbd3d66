#include "executor/ranks/mpi_engine.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>
#include <sys/prctl.h>

namespace tandem {

namespace {

/// MPI counts bytes by an int.
constexpr std::size_t kLargest = 1 << 30;
constexpr auto kInjectedDelay = std::chrono::milliseconds(200);

/// MPI has nothing to wait on beside what is asked for here, so it is asked again and again: at
/// once at first, then an eighth as often as nothing has happened. So a message comes that much
/// later at most, and a long wait takes next to nothing of the processor.
constexpr auto kAtOnce = std::chrono::microseconds(30);
constexpr auto kLongestPause = std::chrono::milliseconds(1);
std::chrono::nanoseconds pause_after(std::chrono::nanoseconds idle) {
  if (idle < kAtOnce) return {};
  return std::min<std::chrono::nanoseconds>(idle / 8, kLongestPause);
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

MpiEngine::MpiEngine(MpiThread& thread, MpiEngineSetup setup)
    : thread_(thread), setup_(std::move(setup)) {
  thread_.begin([this](MPI_Comm ranks, const std::string& why) { work(ranks, why); });
}

MpiEngine::~MpiEngine() { MpiEngine::abort(); }

void MpiEngine::send(std::int32_t rank, std::size_t channel, std::span<const std::byte> bytes,
                     Sent sent) {
  Message message{.lane = {rank, channel},
                  .is_sent = true,
                  .bytes = const_cast<std::byte*>(bytes.data()),
                  .size = bytes.size(),
                  .sent = std::move(sent)};
  message.header = {
      .channel = static_cast<std::uint32_t>(channel), .bytes = bytes.size(), .left_ns = now_ns()};
  ask(std::make_unique<Message>(std::move(message)));
}

void MpiEngine::receive(std::int32_t rank, std::size_t channel, std::span<std::byte> into,
                        Received received) {
  ask(std::make_unique<Message>(Message{.lane = {rank, channel},
                                        .bytes = into.data(),
                                        .size = into.size(),
                                        .received = std::move(received)}));
}

void MpiEngine::abort() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.end();
}

void MpiEngine::ask(std::unique_ptr<Message> message) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_ || over_) return;
    asked_.push_back(std::move(message));
  }
  changed_.notify_all();
}

// ---- By MPI's thread ----

void MpiEngine::work(MPI_Comm ranks, const std::string& why) {
  ranks_ = ranks;
  const std::string reason = why.empty() ? reason_against() : why;
  setup_.on_start(reason);
  if (!reason.empty()) return;
  // Short waits are short: not lengthened by 50 µs, as the system would.
  ::prctl(PR_SET_TIMERSLACK, 1'000UL);
  std::vector<std::unique_ptr<Message>> asked;
  Clock::time_point last = Clock::now();
  while (take(Clock::now() - last, asked)) {
    const bool starts = !asked.empty();
    for (std::unique_ptr<Message>& message : asked) start(std::move(message));
    asked.clear();
    if (test() || starts) last = Clock::now();
  }
  drop();
}

std::string MpiEngine::reason_against() const {
  int rank = 0, ranks = 0, found = 0;
  MPI_Comm_rank(ranks_, &rank);
  MPI_Comm_size(ranks_, &ranks);
  if (rank != setup_.rank || ranks != setup_.ranks) {
    return fmt::format(
        "MPI takes this process for rank {} of {}, and its launcher for rank {} of {}: is it "
        "another MPI's?",
        rank, ranks, setup_.rank, setup_.ranks);
  }
  void* most = nullptr;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&most), &found);
  const std::size_t tags = found != 0 ? static_cast<std::size_t>(*static_cast<int*>(most)) : 32'767;
  return setup_.channels.size() <= tags
             ? std::string()
             : fmt::format("this MPI tells {} channels apart, and the plan has {}", tags,
                           setup_.channels.size());
}

bool MpiEngine::take(Clock::duration idle, std::vector<std::unique_ptr<Message>>& asked) {
  std::unique_lock lock(mutex_);
  const auto due = [this] { return over_ || !asked_.empty(); };
  if (under_way_.empty() || failed_) {
    changed_.wait(lock, due);
  } else if (const auto pause = pause_after(idle); pause.count() > 0) {
    changed_.wait_for(lock, pause, due);
  } else if (!due()) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  asked.swap(asked_);
  return !over_;
}

void MpiEngine::start(std::unique_ptr<Message> message) {
  if (failed_) return;
  Message& one = *message;
  one.sequence = (one.is_sent ? sent_ : received_)[one.lane]++;
  under_way_.emplace(&one, std::move(message));
  int times = 1;
  if (one.is_sent) {
    one.header.sequence = one.sequence;
    FrameChecksum sum;
    sum.begin();
    sum.add({one.bytes, one.size});
    one.header.checksum = sum.end(one.header);
    const FaultKind fault = setup_.faults == nullptr ? FaultKind::none : setup_.faults->at_frame();
    if (fault == FaultKind::delay) std::this_thread::sleep_for(kInjectedDelay);
    if (fault == FaultKind::corrupt) one.header.checksum ^= 1;
    if (fault == FaultKind::duplicate) times = 2;
    if (fault == FaultKind::stall) return;  // it is never sent
    if (fault == FaultKind::drop) return finish(one);
  }
  one.unfinished = 1;  // until all are asked for
  for (; times > 0; --times) {
    request(one, &one.header, sizeof one.header);
    for (std::size_t first = 0; first == 0 || first < one.size; first += kLargest)
      request(one, one.bytes + first, std::min(kLargest, one.size - first));
  }
  if (--one.unfinished == 0) finish(one);
}

void MpiEngine::request(Message& message, void* bytes, std::size_t size) {
  const auto [rank, channel] = message.lane;
  const auto count = static_cast<int>(size), tag = static_cast<int>(channel);
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = message.is_sent ? MPI_Isend(bytes, count, MPI_BYTE, rank, tag, ranks_, &request)
                                   : MPI_Irecv(bytes, count, MPI_BYTE, rank, tag, ranks_, &request);
  if (code != MPI_SUCCESS) return fail(message, mpi_error(code));
  ++message.unfinished;
  requests_.push_back(request);
  owners_.push_back(&message);
}

bool MpiEngine::test() {
  if (requests_.empty() || failed_) return false;
  ended_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                ended_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
    fail(*owners_.front(), mpi_error(code));
    return false;
  }
  if (count == MPI_UNDEFINED || count == 0) return false;
  std::vector<Message*> finished;
  for (int i = 0; i < count; ++i) {
    Message& message = *owners_[static_cast<std::size_t>(ended_[static_cast<std::size_t>(i)])];
    const int error = statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
    if (code == MPI_ERR_IN_STATUS && error != MPI_SUCCESS) fail(message, mpi_error(error));
    if (--message.unfinished == 0) finished.push_back(&message);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    owners_[kept++] = owners_[i];
  }
  requests_.resize(kept);
  owners_.resize(kept);
  for (Message* const message : finished) finish(*message);
  return true;
}

void MpiEngine::finish(Message& message) {
  if (!message.is_sent) check(message);
  if (failed_) return;
  const auto ended = under_way_.extract(&message);
  if (message.is_sent) return message.sent();
  message.received(Time(std::chrono::nanoseconds(message.header.left_ns)));
}

void MpiEngine::check(const Message& message) {
  const FrameHeader& header = message.header;
  if (header.magic != FrameHeader::kMagic || header.channel != message.lane.second)
    return fail(message, "what arrived is no frame of it");
  if (header.sequence != message.sequence) {
    return fail(message, fmt::format("frame {} arrived where frame {} was due", header.sequence,
                                     message.sequence));
  }
  if (header.bytes != message.size) {
    return fail(message, fmt::format("frame {} has {} bytes where {} were due", header.sequence,
                                     header.bytes, message.size));
  }
  FrameChecksum sum;
  sum.begin();
  sum.add({message.bytes, message.size});
  if (sum.end(header) != header.checksum)
    fail(message, fmt::format("the checksum of frame {} is wrong", header.sequence));
}

void MpiEngine::fail(const Message& message, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(failed_, true)) return;
  }
  tell(setup_.on_failure, fmt::format("{}, with rank {}: {}", setup_.channels[message.lane.second],
                                      message.lane.first, why));
}

/// What is under way has its bytes in memory that is about to go. Receives are taken back; sends
/// can't be, so MPI is not called any more.
void MpiEngine::drop() {
  if (under_way_.empty()) return;
  thread_.leave_unclean();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (owners_[i]->is_sent) continue;
    MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
}

}  // namespace tandem

// ---- The module ----

namespace {

class Module final : public tandem::MpiModule {
 public:
  std::string version() const override {
    std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
    int size = 0;
    MPI_Get_library_version(text.data(), &size);
    text.resize(static_cast<std::size_t>(size));
    // "Open MPI v4.1.4, package: …", "MPICH Version:	4.0.2\nMPICH Release date…".
    text.resize(std::min(text.find_first_of(",\n"), text.size()));
    std::ranges::replace(text, '\t', ' ');
    return text;
  }
  std::unique_ptr<tandem::MessageEngine> make(tandem::MpiEngineSetup setup) override {
    return std::make_unique<tandem::MpiEngine>(thread_, std::move(setup));
  }

 private:
  tandem::MpiThread thread_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) tandem::MpiModule* tandem_mpi_module() {
  static Module module;
  return &module;
}

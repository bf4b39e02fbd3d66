#include "tests/executor/cuda/recorded/recorder.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>

#include "core/base/random.h"

namespace tandem::cuda::recorded {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPoisoned = std::size_t{1} << 20;  // of what is allocated, at most
constexpr std::size_t kUnaskedShared = std::size_t{48} << 10;
constexpr std::size_t kMostShared = std::size_t{227} << 10;

}  // namespace

std::map<std::string, std::int64_t> Recording::counts() const {
  std::map<std::string, std::int64_t> counts;
  for (const RecordedCall& call : calls) ++counts[call.name];
  return counts;
}

Recorder& recorder() {
  static Recorder made;
  return made;
}

/// What CUDA keeps of each thread.
struct Recorder::Thread {
  std::uint64_t run = 0;
  int number = 0, device = 0;
  bool has_set_device = false;
  cudaError_t last = cudaSuccess;
};

Recorder::Thread& Recorder::thread() {
  thread_local Thread here;
  if (here.run != run_) here = {.run = run_, .number = threads_++};
  return here;
}

void Recorder::begin(MachineSetup setup) {
  const std::lock_guard lock(mutex_);
  for (const auto& [first, memory] : memory_) munmap(reinterpret_cast<void*>(first), memory.mapped);
  setup_ = std::move(setup);
  recording_ = {};
  ++run_;
  threads_ = 0;
  failed_thread_ = -1;
  started_ = false;
  sticky_ = cudaSuccess;
  launched_ = 0;
  looks_ = 0;
  counts_.clear();
  memory_.clear();
  streams_.clear();
  events_.clear();
  contexts_.clear();
  handles_.clear();
  default_streams_.clear();
  peers_.clear();
  shared_bytes_.clear();
  thread();
}

Recording Recorder::end() {
  const std::lock_guard lock(mutex_);
  for (const auto& [first, memory] : memory_) {
    if (!memory.live) continue;
    break_rule("leak", fmt::format("memory {} of {} bytes on {}", memory.number, memory.bytes,
                                   memory.gpu < 0 ? std::string("the host")
                                                  : fmt::format("GPU {}", memory.gpu)));
  }
  for (const StreamObject& stream : streams_)
    if (stream.live) break_rule("leak", fmt::format("stream {}", stream.number));
  for (const EventObject& event : events_)
    if (event.live) break_rule("leak", fmt::format("event {}", event.number));
  for (const ContextObject& context : contexts_)
    if (context.live) break_rule("leak", fmt::format("green context {}", context.number));
  return std::exchange(recording_, {});
}

void Recorder::break_rule(const char* rule, const std::string& how) {
  if (recording_.broken.size() == Recording::kMostBroken) return;
  const char* const call = recording_.calls.empty() ? "" : recording_.calls.back().name;
  recording_.broken.push_back(fmt::format("{}: {}: {}", rule, call, how));
}

/// Of a call that begins: what it returns whatever it does, and whether it does anything.
std::pair<cudaError_t, bool> Recorder::enter(const char* name, unsigned kind) {
  Thread& here = thread();
  const std::int64_t number = counts_[name]++;
  recording_.calls.push_back({.name = name, .thread = here.number});
  if ((kind & kNeedsDevice) != 0) {
    now().gpu = here.device;
    if (!here.has_set_device) break_rule("device", "the thread has set none");
  }
  if ((kind & kMakes) != 0 && started_) ++recording_.made_late[name];
  if ((kind & kSubmits) != 0 && failed_thread_ == here.number) ++recording_.submitted_after_failure;
  const bool does = (kind & (kDestroys | kFinishes)) != 0;
  if (setup_.failure && setup_.failure->call == name && setup_.failure->number == number) {
    recording_.failed = true;
    failed_thread_ = here.number;
    return {setup_.failure->error, does};
  }
  if (setup_.lost.contains(name)) return {cudaSuccess, false};
  if (sticky_ != cudaSuccess && (kind & kIsOfHost) == 0) return {sticky_, does};
  return {cudaSuccess, true};
}

cudaError_t Recorder::leave(cudaError_t status, unsigned kind) {
  if (status == cudaSuccess && sticky_ != cudaSuccess && (kind & kIsOfHost) == 0) status = sticky_;
  if (status != cudaSuccess && (kind & kIsOfLibrary) == 0) thread().last = status;
  return status;
}

cudaError_t Recorder::take_last_error() {
  const std::lock_guard lock(mutex_);
  enter("cudaGetLastError", kIsOfHost);
  const cudaError_t last = std::exchange(thread().last, cudaSuccess);
  return sticky_ != cudaSuccess ? sticky_ : last;
}

int& Recorder::device() { return thread().device; }

cudaError_t Recorder::set_device(int gpu) {
  if (gpu < 0 || gpu >= setup_.gpus) return cudaErrorInvalidDevice;
  thread().device = gpu;
  thread().has_set_device = true;
  now().gpu = gpu;
  return cudaSuccess;
}

cudaError_t Recorder::enable_peer(int peer) {
  if (peer < 0 || peer >= setup_.gpus || peer == device()) return cudaErrorInvalidDevice;
  return peers_.emplace(device(), peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}

bool Recorder::reaches(int gpu, const MemoryObject& memory) const {
  return memory.gpu < 0 || memory.gpu == gpu || peers_.contains({gpu, memory.gpu});
}

// Memory. Addresses are not given out again: so what uses them too late is known.

cudaError_t Recorder::allocate(void** memory, std::size_t bytes, bool of_host) {
  if (!of_host && bytes > free_memory()) return cudaErrorMemoryAllocation;
  const std::size_t mapped = (bytes + kPage - 1) / kPage * kPage;
  void* const made = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return cudaErrorMemoryAllocation;
  std::memset(made, 0xFF, std::min(bytes, kPoisoned));
  const auto first = reinterpret_cast<std::uintptr_t>(made);
  const int number = static_cast<int>(memory_.size());
  memory_[first] = {.first = first,
                    .bytes = bytes,
                    .mapped = mapped,
                    .number = number,
                    .gpu = of_host ? -1 : device()};
  now().object = number;
  now().bytes = bytes;
  *memory = made;
  return cudaSuccess;
}

MemoryObject* Recorder::memory_at(std::uintptr_t address) {
  auto behind = memory_.upper_bound(address);
  if (behind == memory_.begin()) return nullptr;
  MemoryObject& memory = std::prev(behind)->second;
  return address < memory.first + memory.bytes ? &memory : nullptr;
}

cudaError_t Recorder::release(void* memory, bool of_host) {
  if (memory == nullptr) return cudaSuccess;
  const auto place = memory_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (place == memory_.end() || !place->second.live || (place->second.gpu < 0) != of_host) {
    break_rule("handle", "no such memory, or it is free already");
    return cudaErrorInvalidValue;
  }
  MemoryObject& object = place->second;
  now().object = object.number;
  if (object.pending > 0) {
    break_rule("pending",
               fmt::format("memory {}, which {} pieces of work that nobody has waited for use",
                           object.number, object.pending));
  }
  object.live = false;
  return cudaSuccess;
}

std::size_t Recorder::free_memory() const {
  std::size_t used = 0;
  for (const auto& [first, memory] : memory_) {
    if (memory.live && memory.gpu == const_cast<Recorder*>(this)->device()) used += memory.bytes;
  }
  return setup_.memory - std::min(used, setup_.memory);
}

cudaError_t Recorder::copy(void* to, const void* from, std::size_t bytes, bool to_host) {
  now().bytes = bytes;
  if (bytes == 0) return cudaSuccess;
  StreamObject& stream = *find_here(nullptr);
  Work work;
  use(stream, work, to_host ? from : to);
  if (work.uses.empty()) break_rule("handle", "no memory of a GPU");
  if (to_host) {
    work.run = [=] { std::memcpy(to, from, bytes); };
    give(stream, std::move(work));
    run_until(stream, stream.given);
    return cudaSuccess;
  }
  // It returns when the host's memory was read; that it has come the caller has to wait for.
  const auto* first = static_cast<const std::byte*>(from);
  work.run = [to, staged = std::vector<std::byte>(first, first + bytes)] {
    std::memcpy(to, staged.data(), staged.size());
  };
  give(stream, std::move(work));
  return cudaSuccess;
}

cudaError_t Recorder::set(void* memory, int value, std::size_t bytes) {
  now().bytes = bytes;
  StreamObject& stream = *find_here(nullptr);
  Work work{.run = [=] { std::memset(memory, value, bytes); }};
  use(stream, work, memory);
  if (work.uses.empty()) break_rule("handle", "no memory of a GPU");
  give(stream, std::move(work));
  return cudaSuccess;
}

// Streams.

cudaError_t Recorder::make_stream(cudaStream_t* stream, ContextObject* context) {
  StreamObject& made =
      streams_.emplace_back(StreamObject{.number = static_cast<int>(streams_.size()),
                                         .gpu = context != nullptr ? context->gpu : device(),
                                         .context = context});
  now().stream = made.number;
  *stream = handle_of<cudaStream_t>(made);
  return cudaSuccess;
}

StreamObject* Recorder::find(cudaStream_t stream) {
  if (stream == nullptr) {
    const int gpu = device();
    if (!thread().has_set_device) break_rule("device", "the thread has set none");
    auto [place, is_new] = default_streams_.try_emplace(gpu);
    if (is_new) place->second.gpu = gpu;
    now().gpu = gpu;
    return &place->second;
  }
  auto* const found = object_of<StreamObject>(stream);
  if (found == nullptr || !found->live) {
    break_rule("handle", found == nullptr ? "no stream"
                                          : fmt::format("stream {} is destroyed", found->number));
    return nullptr;
  }
  now().stream = found->number;
  now().gpu = found->gpu;
  return found;
}

StreamObject* Recorder::find_here(cudaStream_t stream) {
  StreamObject* const found = find(stream);
  if (found != nullptr && found->gpu != device()) {
    break_rule("device", fmt::format("stream {} is of GPU {}, and GPU {} is the current one",
                                     found->number, found->gpu, device()));
  }
  return found;
}

cudaError_t Recorder::destroy(cudaStream_t stream) {
  StreamObject* const found = stream == nullptr ? nullptr : find(stream);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->done < found->given) {
    break_rule("pending", fmt::format("stream {} has {} pieces of work that nobody has waited for",
                                      found->number, found->given - found->done));
  }
  if (found->context != nullptr && !found->context->live)
    break_rule("handle", fmt::format("the context of stream {} is destroyed", found->number));
  found->live = false;
  return cudaSuccess;
}

void Recorder::use(StreamObject& stream, Work& work, const void* address) {
  MemoryObject* const memory = memory_at(reinterpret_cast<std::uintptr_t>(address));
  if (memory == nullptr) return;
  if (!memory->live) {
    break_rule("handle", fmt::format("memory {} is free already", memory->number));
    return;
  }
  if (!reaches(stream.gpu, *memory)) {
    break_rule("device", fmt::format("memory {} is of GPU {}, which GPU {} does not reach",
                                     memory->number, memory->gpu, stream.gpu));
  }
  if (std::ranges::find(work.uses, memory) == work.uses.end()) work.uses.push_back(memory);
}

void Recorder::give(StreamObject& stream, Work work) {
  for (MemoryObject* memory : work.uses) ++memory->pending;
  stream.work.push_back(std::move(work));
  ++stream.given;
  if (sticky_ != cudaSuccess) fail_for_good();
}

/// What streams still have will not be done.
void Recorder::fail_for_good() {
  const auto drop = [](StreamObject& stream) {
    for (const Work& work : stream.work)
      for (MemoryObject* memory : work.uses) --memory->pending;
    stream.work.clear();
    stream.done = stream.given;
  };
  for (StreamObject& stream : streams_) drop(stream);
  for (auto& [gpu, stream] : default_streams_) drop(stream);
}

/// What it waits for was given before it: so this ends.
void Recorder::run_until(StreamObject& stream, std::uint64_t done) {
  while (stream.done < done) {
    const Work work = std::move(stream.work.front());
    stream.work.pop_front();
    if (work.after != nullptr) run_until(*work.after, work.after_done);
    for (MemoryObject* memory : work.uses) --memory->pending;
    if (sticky_ != cudaSuccess) return;
    if (work.is_kernel && recording_.kernels++ == setup_.failing_kernel) {
      sticky_ = cudaErrorLaunchFailure;
      return fail_for_good();
    }
    if (work.run) work.run();
    if (work.event != nullptr) work.event->time = std::chrono::steady_clock::now();
    ++stream.done;
  }
}

bool Recorder::finds_it_done() { return random_bits(setup_.seed, 0, looks_++) % 2 == 0; }

cudaError_t Recorder::look(cudaStream_t stream) {
  StreamObject* const found = find(stream);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->done < found->given && !finds_it_done()) return cudaErrorNotReady;
  run_until(*found, found->given);
  return cudaSuccess;
}

cudaError_t Recorder::finish(cudaStream_t stream) {
  StreamObject* const found = find(stream);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  run_until(*found, found->given);
  return cudaSuccess;
}

cudaError_t Recorder::finish_device() {
  StreamObject& of_device = *find(cudaStream_t{});
  run_until(of_device, of_device.given);
  for (StreamObject& stream : streams_) {
    if (stream.gpu == of_device.gpu) run_until(stream, stream.given);
  }
  return cudaSuccess;
}

cudaError_t Recorder::wait(cudaStream_t stream, cudaEvent_t event) {
  StreamObject* const waits = find(stream);
  const EventObject* const found = find(event);
  if (waits == nullptr || found == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->stream == nullptr) {
    break_rule("order", fmt::format("event {} is not recorded", found->number));
    return cudaSuccess;
  }
  give(*waits, {.after = found->stream, .after_done = found->at});
  return cudaSuccess;
}

// Events.

cudaError_t Recorder::make_event(cudaEvent_t* event, unsigned flags) {
  EventObject& made =
      events_.emplace_back(EventObject{.number = static_cast<int>(events_.size()),
                                       .gpu = device(),
                                       .is_timed = (flags & cudaEventDisableTiming) == 0});
  now().object = made.number;
  *event = handle_of<cudaEvent_t>(made);
  return cudaSuccess;
}

EventObject* Recorder::find(cudaEvent_t event) {
  auto* const found = object_of<EventObject>(event);
  if (found == nullptr || !found->live) {
    break_rule("handle",
               found == nullptr ? "no event" : fmt::format("event {} is destroyed", found->number));
    return nullptr;
  }
  now().object = found->number;
  return found;
}

cudaError_t Recorder::destroy(cudaEvent_t event) {
  EventObject* const found = find(event);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  found->live = false;
  return cudaSuccess;
}

cudaError_t Recorder::record(cudaEvent_t event, cudaStream_t stream) {
  EventObject* const found = find(event);
  StreamObject* const on = find(stream);
  if (found == nullptr || on == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->gpu != on->gpu) {
    break_rule("device", fmt::format("event {} is of GPU {}, stream {} of GPU {}", found->number,
                                     found->gpu, on->number, on->gpu));
    return cudaErrorInvalidResourceHandle;
  }
  give(*on, {.event = found});
  found->stream = on;
  found->at = on->given;
  return cudaSuccess;
}

cudaError_t Recorder::look(cudaEvent_t event) {
  EventObject* const found = find(event);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->stream == nullptr) {
    break_rule("order", fmt::format("event {} is not recorded", found->number));
    return cudaSuccess;
  }
  if (found->stream->done < found->at && !finds_it_done()) return cudaErrorNotReady;
  run_until(*found->stream, found->at);
  return cudaSuccess;
}

cudaError_t Recorder::finish(cudaEvent_t event) {
  EventObject* const found = find(event);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->stream == nullptr) {
    break_rule("order", fmt::format("event {} is not recorded", found->number));
    return cudaSuccess;
  }
  run_until(*found->stream, found->at);
  return cudaSuccess;
}

cudaError_t Recorder::elapsed(float* ms, cudaEvent_t start, cudaEvent_t end) {
  const EventObject *const from = find(start), *const to = find(end);
  if (from == nullptr || to == nullptr) return cudaErrorInvalidResourceHandle;
  if (from->gpu != to->gpu || !from->is_timed || !to->is_timed) {
    break_rule("device", fmt::format("events {} and {} are of two GPUs, or tell no time",
                                     from->number, to->number));
    return cudaErrorInvalidResourceHandle;
  }
  for (const EventObject* const event : {from, to}) {
    if (event->stream == nullptr) {
      break_rule("order", fmt::format("event {} is not recorded", event->number));
      return cudaErrorInvalidResourceHandle;
    }
    if (event->stream->done < event->at) return cudaErrorNotReady;
  }
  *ms = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return cudaSuccess;
}

// Kernels.

cudaError_t Recorder::set_shared_bytes(const void* kernel, std::size_t bytes) {
  if (bytes > kMostShared) return cudaErrorInvalidValue;
  shared_bytes_[kernel] = bytes;
  return cudaSuccess;
}

cudaError_t Recorder::launch(const Launch& launch) {
  now().what = launch.name;
  now().bytes = launch.arguments.size();
  if (thread().number != 0) started_ = true;
  StreamObject* const stream = find_here(launch.stream);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (launch.shared_bytes > std::max(kUnaskedShared, shared_bytes_[launch.kernel]))
    return cudaErrorInvalidValue;
  Work work{.run = launch.run, .is_kernel = true};
  for (std::size_t at = 0; at + sizeof(void*) <= launch.arguments.size(); at += sizeof(void*)) {
    const void* address = nullptr;
    std::memcpy(&address, launch.arguments.data() + at, sizeof address);
    use(*stream, work, address);
  }
  give(*stream, std::move(work));
  return cudaSuccess;
}

cudaError_t Recorder::submit(cudaStream_t stream, std::span<const void* const> used,
                             std::function<void()> run) {
  StreamObject* const found = find_here(stream);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  Work work{.run = std::move(run), .is_kernel = true};
  for (const void* const address : used) use(*found, work, address);
  give(*found, std::move(work));
  return cudaSuccess;
}

// Green contexts.

cudaError_t Recorder::make_context(CUgreenCtx* context, int gpu) {
  ContextObject& made = contexts_.emplace_back(
      ContextObject{.number = static_cast<int>(contexts_.size()), .gpu = gpu});
  now().object = made.number;
  now().gpu = gpu;
  *context = handle_of<CUgreenCtx>(made);
  return cudaSuccess;
}

ContextObject* Recorder::find(CUgreenCtx context) {
  auto* const found = object_of<ContextObject>(context);
  if (found == nullptr || !found->live) {
    break_rule("handle", found == nullptr
                             ? "no green context"
                             : fmt::format("green context {} is destroyed", found->number));
    return nullptr;
  }
  now().object = found->number;
  return found;
}

cudaError_t Recorder::destroy(CUgreenCtx context) {
  ContextObject* const found = find(context);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  for (const StreamObject& stream : streams_) {
    if (stream.context == found && stream.live)
      break_rule("pending", fmt::format("stream {} of it is still there", stream.number));
  }
  found->live = false;
  return cudaSuccess;
}

}  // namespace tandem::cuda::recorded

#pragma once
// A machine with GPUs that are only pretended: what CUDA is asked to do is recorded, held against
// the rules below, and done on the host's memory as late as it may be: a stream goes on only where
// somebody waits for it, or looks. runtime.cpp defines CUDA's functions over it.
//
// Rules:
//   device    a call that depends on the current device comes from a thread that has set it; what
//             it is given (stream, event, memory) is of that device, or reached by it
//   handle    what is used is there: made, and not destroyed yet; it is destroyed once
//   pending   nothing is freed or destroyed before the work that uses it was waited for
//   order     an event is recorded before it is waited for or asked
//   leak      what was made is destroyed at the end
// What is made after the start, which is the first kernel from another thread than begin()'s, is
// counted beside.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace tandem::cuda::recorded {

/// A call that fails: of those of one function the one of this number, from 0. Where it destroys
/// something, or waits, that is done nevertheless: what it returns is of earlier work.
struct Failure {
  std::string call;
  std::int64_t number = 0;
  cudaError_t error = cudaErrorUnknown;
};

struct MachineSetup {
  int gpus = 1;
  unsigned multiprocessors = 132;
  std::size_t memory = std::size_t{16} << 30;  // of each
  bool has_green_contexts = true;
  std::uint64_t seed = 1;  // of which looks find a GPU where it was
  std::optional<Failure> failure = {};
  std::int64_t failing_kernel = -1;  // which fails when it runs, and all calls behind it
  std::set<std::string> lost = {};   // functions that say they have done it
};

struct RecordedCall {
  const char* name = nullptr;
  int thread = 0;
  int gpu = -1, stream = -1, object = -1;  // what it is about, where it is: numbers as made
  std::size_t bytes = 0;
  const char* what = nullptr;  // of a kernel
  friend bool operator==(const RecordedCall&, const RecordedCall&) = default;
};

struct Recording {
  std::vector<RecordedCall> calls;
  std::vector<std::string> broken;                // rules: "leak: …"; at most kMostBroken
  std::map<std::string, std::int64_t> made_late;  // by function
  bool failed = false;                            // a call, as was asked for
  /// By the thread whose call failed, behind it.
  std::int64_t submitted_after_failure = 0;
  std::int64_t kernels = 0;  // that ran
  static constexpr std::size_t kMostBroken = 20;

  std::map<std::string, std::int64_t> counts() const;
};

/// What a call is.
enum Kind : unsigned {
  kAsks = 0,
  kSubmits = 1,  // work to a stream
  kMakes = 2,    // memory, a stream, an event, a context
  kDestroys = 4,
  kNeedsDevice = 8,  // works on the current one
  kIsOfHost = 16,    // needs no context: works where the GPU does no more
  kFinishes = 32,    // waits for work
  kIsOfLibrary = 64  // not CUDA's own: it leaves no last error
};

struct StreamObject;

struct MemoryObject {
  std::uintptr_t first = 0;
  std::size_t bytes = 0, mapped = 0;
  int number = 0, gpu = -1;  // -1: of the host
  bool live = true;
  std::int64_t pending = 0;  // work that uses it
};

struct EventObject {
  int number = 0, gpu = 0;
  bool live = true, is_timed = false;
  StreamObject* stream = nullptr;  // null: not recorded
  std::uint64_t at = 0;            // what the stream has done when it comes
  std::chrono::steady_clock::time_point time{};
};

struct ContextObject {
  int number = 0, gpu = 0;
  bool live = true;
};

struct Work {
  std::function<void()> run = {};
  std::vector<MemoryObject*> uses = {};
  bool is_kernel = false;
  StreamObject* after = nullptr;  // waits for it to have done `after_done`
  std::uint64_t after_done = 0;
  EventObject* event = nullptr;  // that it records
};

struct StreamObject {
  int number = 0, gpu = 0;
  bool live = true;
  ContextObject* context = nullptr;  // a green one
  std::deque<Work> work = {};
  std::uint64_t given = 0, done = 0;
};

struct Launch {
  const void* kernel = nullptr;  // its identity
  const char* name = nullptr;
  cudaStream_t stream = nullptr;
  std::size_t shared_bytes = 0;
  std::span<const std::byte> arguments;  // all addresses in them are used
  std::function<void()> run;
};

class Recorder {
 public:
  /// On the thread that sets up. Forgets all before.
  void begin(MachineSetup setup);
  Recording end();

  /// A call: recorded, unless it fails or is lost done by `work(*this)`, under a lock.
  template <class Work>
  cudaError_t call(const char* name, unsigned kind, const Work& work) {
    const std::lock_guard lock(mutex_);
    const auto [early, works] = enter(name, kind);
    cudaError_t status = works ? work(*this) : cudaSuccess;
    if (early != cudaSuccess) status = early;
    return leave(status, kind);
  }
  cudaError_t take_last_error();

  // In a call:
  RecordedCall& now() { return recording_.calls.back(); }
  const MachineSetup& setup() const { return setup_; }
  int& device();  // of the calling thread, which has set it when this is written by set_device()
  cudaError_t set_device(int gpu);
  cudaError_t enable_peer(int peer);

  cudaError_t allocate(void** memory, std::size_t bytes, bool of_host);
  cudaError_t release(void* memory, bool of_host);
  std::size_t free_memory() const;
  cudaError_t copy(void* to, const void* from, std::size_t bytes, bool to_host);
  cudaError_t set(void* memory, int value, std::size_t bytes);

  cudaError_t make_stream(cudaStream_t* stream, ContextObject* context);
  cudaError_t destroy(cudaStream_t stream);
  cudaError_t look(cudaStream_t stream);
  cudaError_t finish(cudaStream_t stream);
  cudaError_t finish_device();
  cudaError_t wait(cudaStream_t stream, cudaEvent_t event);

  cudaError_t make_event(cudaEvent_t* event, unsigned flags);
  cudaError_t destroy(cudaEvent_t event);
  cudaError_t record(cudaEvent_t event, cudaStream_t stream);
  cudaError_t look(cudaEvent_t event);
  cudaError_t finish(cudaEvent_t event);
  cudaError_t elapsed(float* ms, cudaEvent_t start, cudaEvent_t end);

  cudaError_t launch(const Launch& launch);
  cudaError_t set_shared_bytes(const void* kernel, std::size_t bytes);
  /// What is not a kernel of ours.
  cudaError_t submit(cudaStream_t stream, std::span<const void* const> used,
                     std::function<void()> run);

  cudaError_t make_context(CUgreenCtx* context, int gpu);
  cudaError_t destroy(CUgreenCtx context);
  ContextObject* find(CUgreenCtx context);

 private:
  struct Thread;
  Thread& thread();
  std::pair<cudaError_t, bool> enter(const char* name, unsigned kind);
  cudaError_t leave(cudaError_t status, unsigned kind);
  void break_rule(const char* rule, const std::string& how);

  StreamObject* find(cudaStream_t stream);
  EventObject* find(cudaEvent_t event);
  MemoryObject* memory_at(std::uintptr_t address);
  /// Of the current device; breaks the rule where it is another's.
  StreamObject* find_here(cudaStream_t stream);
  void use(StreamObject& stream, Work& work, const void* address);
  void give(StreamObject& stream, Work work);
  void run_until(StreamObject& stream, std::uint64_t done);
  void fail_for_good();
  bool finds_it_done();
  template <class Handle, class Object>
  Handle handle_of(Object& object) {
    handles_.insert(&object);
    return reinterpret_cast<Handle>(&object);
  }
  /// Null: it was never made.
  template <class Object, class Handle>
  Object* object_of(Handle handle) const {
    return handles_.contains(handle) ? reinterpret_cast<Object*>(handle) : nullptr;
  }
  bool reaches(int gpu, const MemoryObject& memory) const;

  std::mutex mutex_;
  MachineSetup setup_;
  Recording recording_;
  std::uint64_t run_ = 0;  // number of begin()
  int threads_ = 0, failed_thread_ = -1;
  bool started_ = false;
  cudaError_t sticky_ = cudaSuccess;
  std::int64_t launched_ = 0;
  std::uint64_t looks_ = 0;
  std::map<std::string, std::int64_t> counts_;
  std::map<std::uintptr_t, MemoryObject> memory_;  // by their first address, those freed too
  std::deque<StreamObject> streams_;
  std::deque<EventObject> events_;
  std::deque<ContextObject> contexts_;
  std::unordered_set<const void*> handles_;
  std::map<int, StreamObject> default_streams_;
  std::set<std::pair<int, int>> peers_;
  std::map<const void*, std::size_t> shared_bytes_;
};

/// The process's, whose GPUs CUDA's functions find.
Recorder& recorder();

}  // namespace tandem::cuda::recorded

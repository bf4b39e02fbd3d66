#pragma once
// A device that behaves as a GPU does, computed by the CPU: a task is taken up as soon as what it
// waits for is, its kernels only wait in their streams, and the host goes on. They run late, the
// streams of a device in an order drawn by a seed, and compute what the CPU computes. All that
// streams are given is held against StreamOrder. So a run that equals the CPU's, with no violation,
// shows that nothing relies on the host's order, whatever the timing.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "executor/backend/arena.h"
#include "executor/backend/backend.h"
#include "executor/backend/notice.h"
#include "executor/backend/task_queues.h"
#include "executor/backend/wakeup.h"
#include "executor/cpu/backend.h"
#include "executor/cpu/kernels.h"
#include "tests/support/stream_order.h"

namespace tandem::testing {

/// What the deferred devices of a run share.
struct DeferredRunState {
  StreamOrder order;
  std::uint64_t seed = 0;
  /// Faults: of all follows of a fence, that many are left out from number `first` on.
  std::int64_t first_left_out = 0, left_out = 0;
  /// A fault: a stream does not wait for records that are still to be taken up.
  bool loses_waits = false;
  /// The host takes up all in the order in which it is given, as it may if it is slow: so a device
  /// whose waits are missing does not stumble over what its host finds.
  bool takes_up_in_order = false;
  /// A fault: the kernel that was launched as this number, from 0, fails when it runs. -1: none.
  std::int64_t failing = -1;

  void wake_all() {
    const std::lock_guard lock(mutex_);
    for (Wakeup* wakeup : wakeups_) wakeup->wake();
  }
  void add(Wakeup& wakeup) {
    const std::lock_guard lock(mutex_);
    wakeups_.push_back(&wakeup);
  }
  /// Whether this follow is to be made.
  bool follows() {
    const std::int64_t number = followed_.fetch_add(1);
    return number < first_left_out || number >= first_left_out + left_out;
  }
  std::int64_t followed() const { return followed_; }
  /// A further kernel's number.
  std::int64_t launched() { return launched_.fetch_add(1); }

 private:
  std::mutex mutex_;
  std::vector<Wakeup*> wakeups_;
  std::atomic<std::int64_t> followed_{0}, launched_{0};
};

/// Raised by one device at a time; followed by any.
class DeferredFence {
 private:
  template <class>
  friend class DeferredBackend;
  std::uint64_t issued_ = 0;
  std::atomic<std::uint64_t> completed_{0};
  StreamClock clock_;
};

class DeferredEvent {
 private:
  template <class>
  friend class DeferredBackend;
  TaskEvent tasks_;
  DeferredFence fence_;
};

/// A moment that is not known before its stream has been there.
class DeferredMark {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static DeferredMark at(Time time) {
    DeferredMark mark;
    mark.passed_->store(time.time_since_epoch().count());
    return mark;
  }
  Time time() const {
    const auto ticks = passed_->load();
    TANDEM_CHECK(ticks != 0);
    return Time(Time::duration(ticks));
  }
  void pass() const { passed_->store(std::chrono::steady_clock::now().time_since_epoch().count()); }

 private:
  std::shared_ptr<std::atomic<Time::rep>> passed_ = std::make_shared<std::atomic<Time::rep>>(0);
};

/// Every profiler's: what the threads of all devices were at, whatever the run.
class RecordedRange {
 public:
  template <std::invocable Name>
  explicit RecordedRange(const Name& name) {
    const std::lock_guard lock(mutex_);
    names_.push_back(name());
  }
  /// Since this was asked last.
  static std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(names_, {});
  }

 private:
  static inline std::mutex mutex_;
  static inline std::vector<std::string> names_;
};

template <class T>
class DeferredKernels;

template <class T>
class DeferredBackend {
 public:
  using Scalar = T;
  using Kernels = DeferredKernels<T>;
  template <class U>
  using Buffer = Arena::Buffer<U>;
  using Event = DeferredEvent;
  using Fence = DeferredFence;
  using Mark = DeferredMark;
  using Range = RecordedRange;
  class Stream {
   private:
    friend class DeferredBackend;
    /// What the host launched.
    struct Launched {
      std::function<bool()> ready;  // empty: at once
      std::function<void()> run;    // empty: nothing
    };
    StreamOrder::Stream number = 0;
    TaskQueues tasks;  // of its own: the device takes them up in any order of its streams
    TaskQueues::Queue& queue = tasks.add();
    std::deque<Launched> launched;
    std::deque<std::pair<std::shared_ptr<bool>, std::function<void()>>> calls;
  };

  DeferredBackend(DeferredRunState& run_state, std::uint64_t device, Wakeup& wakeup,
                  std::stop_token stop)
      : run_state_(run_state),
        wakeup_(wakeup),
        stop_(std::move(stop)),
        random_(run_state.seed * 1009 + device) {
    run_state_.add(wakeup);
  }

  template <class U>
  Buffer<U> allocate(std::int64_t elements) {
    return arena_.place<U>(elements);
  }
  void commit() {
    memory_ =
        cpu::Buffer<T>(static_cast<std::int64_t>(arena_.size() / static_cast<Bytes>(sizeof(T))));
    arena_.put_at(std::as_writable_bytes(memory_.elements()).data());
  }
  static constexpr Bytes workspace_bytes() { return 0; }
  template <class U>
  std::shared_ptr<U[]> results(std::size_t count) {
    auto memory = std::make_shared<U[]>(count);
    kept_.push_back(memory);  // or another device is given it anew, behind no event
    return memory;
  }
  template <class U>
  std::shared_ptr<U[]> kernel_numbers(std::size_t count) {
    auto memory = results<U>(count);
    std::ranges::fill(std::as_writable_bytes(std::span(memory.get(), count)), std::byte{0xff});
    return memory;  // NaN, as what was there before may be
  }
  template <class Fill>
  void write(std::span<T> memory, const Fill& fill) {
    fill(memory);
  }
  struct Fetched {
    std::vector<T> values;
    std::span<const T> span() const { return values; }
  };
  Fetched fetch(std::span<const T> values) {
    finish();
    return {{values.begin(), values.end()}};
  }
  template <class U>
  std::span<const U> readable(Stream&, std::span<const U> values) {
    const auto copy = std::make_shared<std::vector<U>>(values.begin(), values.end());
    kept_.push_back(copy);
    return *copy;
  }

  Stream& add_stream(StreamUse /*use*/) {
    Stream& stream = streams_.emplace_back();
    stream.number = run_state_.order.add_stream();
    return stream;
  }
  Kernels kernels(Stream& stream) { return Kernels(*this, stream); }

  void enqueue(Stream& stream, TaskQueues::Run run) { enqueue_when(stream, {}, std::move(run)); }
  void enqueue_when(Stream& stream, TaskQueues::Ready ready, TaskQueues::Run run) {
    stream.tasks.enqueue_when(stream.queue, std::move(ready), std::move(run));
    if (run_state_.takes_up_in_order) take_up_all();
  }
  void record(Stream& stream, Event& event) {
    stream.tasks.record(stream.queue, event.tasks_,
                        [this, &stream, &event] { raise(stream, event.fence_); });
    if (run_state_.takes_up_in_order) take_up_all();
  }
  void wait(Stream& stream, Event& event) {
    const auto run = [this, &stream, &event] { wait_for(stream, event.fence_); };
    if (run_state_.loses_waits) return enqueue(stream, run);
    stream.tasks.wait(stream.queue, event.tasks_, run);
    if (run_state_.takes_up_in_order) take_up_all();
  }
  void raise(Stream& stream, Fence& fence) {
    fence.clock_ = run_state_.order.record(stream.number);
    const std::uint64_t ticket = ++fence.issued_;
    queue(stream, {}, [this, &fence, ticket] {
      fence.completed_.store(ticket, std::memory_order_release);
      run_state_.wake_all();
    });
  }
  void follow(Stream& stream, Fence& fence) {
    if (run_state_.follows()) return wait_for(stream, fence);
    run_state_.order.leave_out(stream.number, fence.clock_);
  }
  void when_done(Stream& stream, std::function<void()> call) {
    const auto ended = std::make_shared<bool>(false);
    queue(stream, {}, [ended] { *ended = true; });
    stream.calls.push_back({ended, std::move(call)});
    ++calls_;
  }
  void finish() {
    while (true) {
      const std::uint32_t seen = wakeup_.wakes();
      if (launched_ == 0) break;
      if (stop_.stop_requested()) throw Stopped{};
      if (!run_one()) wakeup_.wait_beyond(seen);
    }
    std::vector<StreamOrder::Stream> numbers;
    for (const Stream& stream : streams_) numbers.push_back(stream.number);
    run_state_.order.finish(numbers);
  }
  Mark mark(Stream& stream) {
    Mark mark;
    queue(stream, {}, [mark] { mark.pass(); });
    return mark;
  }
  Mark moment(Stream& stream) { return mark(stream); }
  bool slept() { return false; }

  /// The host is as quick as it may be, and the device as lazy: nothing runs while few enough are
  /// left.
  void progress(std::size_t most) {
    while (true) {
      const std::uint32_t seen = wakeup_.wakes();
      if (take_up_one()) continue;
      if (not_taken_up() + launched_ + calls_ <= most) return;
      if (stop_.stop_requested()) throw Stopped{};
      if (!call_one() && !run_one()) wakeup_.wait_beyond(seen);
    }
  }

  void launch(Stream& stream, const char* what, std::span<const Access> accesses,
              std::function<void(const cpu::Kernels<T>&)> run) {
    const std::int64_t number = run_state_.launched();
    run_state_.order.launch(stream.number, what, accesses);
    queue(stream, {}, [this, number, run = std::move(run)] {
      if (number == run_state_.failing) throw LateError("a kernel has failed");
      run(kernels_);
    });
  }

  /// What waits on the device itself, as kernels of communication do, for what `ready` says.
  void launch_when(Stream& stream, std::function<bool()> ready, std::function<void()> run) {
    queue(stream, std::move(ready), [this, run = std::move(run)] {
      run();
      run_state_.wake_all();
    });
  }

 private:
  void queue(Stream& stream, std::function<bool()> ready, std::function<void()> run) {
    stream.launched.push_back({std::move(ready), std::move(run)});
    ++launched_;
  }
  void wait_for(Stream& stream, Fence& fence) {
    run_state_.order.wait(stream.number, fence.clock_);
    const std::uint64_t ticket = fence.issued_;
    queue(stream,
          [&fence, ticket] { return fence.completed_.load(std::memory_order_acquire) >= ticket; },
          {});
  }

  std::size_t not_taken_up() const {
    std::size_t tasks = 0;
    for (const Stream& stream : streams_) tasks += stream.tasks.size();
    return tasks;
  }
  bool take_up_one() {
    const std::size_t first = random_();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (streams_[(first + i) % streams_.size()].tasks.take_up_one()) return true;
    }
    return false;
  }
  void take_up_all() {
    while (not_taken_up() > 0) {
      const std::uint32_t seen = wakeup_.wakes();
      if (take_up_one()) continue;
      if (stop_.stop_requested()) throw Stopped{};
      if (!call_one() && !run_one()) wakeup_.wait_beyond(seen);
    }
  }

  bool call_one() {
    for (Stream& stream : streams_) {
      if (stream.calls.empty() || !*stream.calls.front().first) continue;
      const auto call = std::move(stream.calls.front().second);
      stream.calls.pop_front();
      --calls_;
      call();
      return true;
    }
    return false;
  }
  /// Of a stream drawn among those whose first task may run.
  bool run_one() {
    const std::size_t first = random_();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      Stream& stream = streams_[(first + i) % streams_.size()];
      if (stream.launched.empty()) continue;
      const auto& ready = stream.launched.front().ready;
      if (ready && !ready()) continue;
      const auto next = std::move(stream.launched.front());
      stream.launched.pop_front();
      --launched_;
      if (next.run) next.run();
      return true;
    }
    return false;
  }

  DeferredRunState& run_state_;
  Wakeup& wakeup_;
  std::stop_token stop_;
  std::mt19937_64 random_;
  Arena arena_;
  cpu::Buffer<T> memory_;
  std::deque<Stream> streams_;
  std::deque<std::shared_ptr<const void>> kept_;  // memory of the host that kernels touch
  std::size_t launched_ = 0, calls_ = 0;          // of all streams
  const cpu::Kernels<T> kernels_{};
};

/// Launches: says what it will read and write, and computes when its stream comes there.
template <class T>
class DeferredKernels {
 public:
  using Scalar = T;
  using Wide = T;
  using In = std::span<const T>;
  using Out = std::span<T>;
  using Ids = std::span<const std::int32_t>;

  DeferredKernels(DeferredBackend<T>& device, typename DeferredBackend<T>::Stream& stream)
      : device_(&device), stream_(&stream) {}

  static T rounded(T value) { return value; }
  static T widened(T value) { return value; }
  void fill(Out y, double value) const {
    launch("fill", {write(y)}, [=](const K& k) { k.fill(y, value); });
  }
  void copy(In x, Out y) const {
    launch("copy", {read(x), write(y)}, [=](const K& k) { k.copy(x, y); });
  }
  void store(In x, Out y) const { copy(x, y); }
  void add(In a, In b, Out y) const {
    launch("add", {read(a), read(b), write(y)}, [=](const K& k) { k.add(a, b, y); });
  }
  void combine(double a, In x, double b, In y, Out out) const {
    launch("combine", {read(x), read(y), write(out)},
           [=](const K& k) { k.combine(a, x, b, y, out); });
  }
  void sums_of_squares(In x, std::span<const ElementRange> ranges, double factor,
                       std::span<double> sums) const {
    launch("sums_of_squares", {read(x), write(sums)},
           [=, ranges = std::vector(ranges.begin(), ranges.end())](const K& k) {
             k.sums_of_squares(x, ranges, factor, sums);
           });
  }
  void matmul(MatmulShape shape, In x, In w, In bias, Out y) const {
    launch("matmul", {read(x), read(w), read(bias), write(y)},
           [=](const K& k) { k.matmul(shape, x, w, bias, y); });
  }
  void matmul_transposed(MatmulShape shape, In x, In w, Out y) const {
    launch("matmul_transposed", {read(x), read(w), write(y)},
           [=](const K& k) { k.matmul_transposed(shape, x, w, y); });
  }
  void accumulate_product(MatmulShape shape, In x, In dy, Out dw) const {
    launch("accumulate_product", {read(x), read(dy), write(dw)},
           [=](const K& k) { k.accumulate_product(shape, x, dy, dw); });
  }
  void accumulate_rows(RowShape shape, In dy, Out db) const {
    launch("accumulate_rows", {read(dy), write(db)},
           [=](const K& k) { k.accumulate_rows(shape, dy, db); });
  }
  void matmul_gelu(MatmulShape shape, In x, In w, In bias, Out before, Out y) const {
    launch("matmul_gelu", {read(x), read(w), read(bias), write(before), write(y)},
           [=](const K& k) { k.matmul_gelu(shape, x, w, bias, before, y); });
  }
  void matmul_transposed_gelu_backward(MatmulShape shape, In x, In w, In before, Out dx) const {
    launch("matmul_transposed_gelu_backward", {read(x), read(w), read(before), write(dx)},
           [=](const K& k) { k.matmul_transposed_gelu_backward(shape, x, w, before, dx); });
  }
  void accumulate_product_and_rows(MatmulShape shape, In x, In dy, Out dw, Out db) const {
    launch("accumulate_product_and_rows", {read(x), read(dy), write(dw), write(db)},
           [=](const K& k) { k.accumulate_product_and_rows(shape, x, dy, dw, db); });
  }
  void layer_norm(RowShape shape, const NormForward<T>& s) const {
    launch("layer_norm",
           {read(s.x), read(s.gain), read(s.bias), write(s.mean), write(s.inverse_deviation),
            write(s.y)},
           [=](const K& k) { k.layer_norm(shape, s); });
  }
  void layer_norm_backward(RowShape shape, const NormBackward<T>& s) const {
    launch("layer_norm_backward",
           {read(s.x), read(s.mean), read(s.inverse_deviation), read(s.gain), read(s.dy),
            read(s.residual), write(s.dx)},
           [=](const K& k) { k.layer_norm_backward(shape, s); });
  }
  void layer_norm_backward_weight(RowShape shape, const NormBackwardWeight<T>& s) const {
    launch("layer_norm_backward_weight",
           {read(s.x), read(s.mean), read(s.inverse_deviation), read(s.dy), write(s.dgain),
            write(s.dbias)},
           [=](const K& k) { k.layer_norm_backward_weight(shape, s); });
  }
  void rms_norm(RowShape shape, const NormForward<T>& s) const {
    launch("rms_norm", {read(s.x), read(s.gain), write(s.inverse_deviation), write(s.y)},
           [=](const K& k) { k.rms_norm(shape, s); });
  }
  void rms_norm_backward(RowShape shape, const NormBackward<T>& s) const {
    launch("rms_norm_backward",
           {read(s.x), read(s.inverse_deviation), read(s.gain), read(s.dy), read(s.residual),
            write(s.dx)},
           [=](const K& k) { k.rms_norm_backward(shape, s); });
  }
  void rms_norm_backward_weight(RowShape shape, const NormBackwardWeight<T>& s) const {
    launch("rms_norm_backward_weight",
           {read(s.x), read(s.inverse_deviation), read(s.dy), write(s.dgain)},
           [=](const K& k) { k.rms_norm_backward_weight(shape, s); });
  }
  void head_norm(AttentionShape shape, const HeadNormForward<T>& s) const {
    launch("head_norm",
           {read(s.query_gain), read(s.key_gain), write(s.inverse_deviation), write(s.before),
            write(s.qkv)},
           [=](const K& k) { k.head_norm(shape, s); });
  }
  void head_norm_backward(AttentionShape shape, const HeadNormBackward<T>& s) const {
    launch("head_norm_backward",
           {read(s.query_gain), read(s.key_gain), read(s.inverse_deviation), read(s.before),
            write(s.dqkv), write(s.dy)},
           [=](const K& k) { k.head_norm_backward(shape, s); });
  }
  void head_norm_backward_weight(AttentionShape shape, const HeadNormBackwardWeight<T>& s) const {
    launch("head_norm_backward_weight",
           {read(s.inverse_deviation), read(s.before), read(s.dy), write(s.dquery_gain),
            write(s.dkey_gain)},
           [=](const K& k) { k.head_norm_backward_weight(shape, s); });
  }
  void swiglu(RowShape shape, In gate_up, Out y) const {
    launch("swiglu", {read(gate_up), write(y)}, [=](const K& k) { k.swiglu(shape, gate_up, y); });
  }
  void matmul_transposed_swiglu_backward(MatmulShape shape, In x, In w, In gate_up,
                                         Out gradient) const {
    launch(
        "matmul_transposed_swiglu_backward", {read(x), read(w), read(gate_up), write(gradient)},
        [=](const K& k) { k.matmul_transposed_swiglu_backward(shape, x, w, gate_up, gradient); });
  }
  void rotate(AttentionShape shape, const Rotation& rotation, Out qkv) const {
    launch("rotate", {write(qkv)}, [=](const K& k) { k.rotate(shape, rotation, qkv); });
  }
  void gelu(In x, Out y) const {
    launch("gelu", {read(x), write(y)}, [=](const K& k) { k.gelu(x, y); });
  }
  void gelu_backward(In x, In dy, Out dx) const {
    launch("gelu_backward", {read(x), read(dy), write(dx)},
           [=](const K& k) { k.gelu_backward(x, dy, dx); });
  }
  void attention(AttentionShape shape, const AttentionForward<T>& s) const {
    std::vector<Access> uses{read(s.qkv), read(s.kept), write(s.log_sum), write(s.y)};
    launch("attention", with_slices(s.earlier, std::move(uses)),
           [shape, late = s,
            list = std::vector(s.earlier.begin(), s.earlier.end())](const K& k) mutable {
             late.earlier = list;
             k.attention(shape, late);
           });
  }
  void attention_backward(AttentionShape shape, const AttentionBackward<T>& s) const {
    std::vector<Access> uses{read(s.qkv), read(s.log_sum), read(s.y),
                             read(s.dy),  write(s.dqkv),   write(s.context_gradient)};
    launch("attention_backward", with_slices(s.earlier, std::move(uses)),
           [shape, late = s,
            list = std::vector(s.earlier.begin(), s.earlier.end())](const K& k) mutable {
             late.earlier = list;
             k.attention_backward(shape, late);
           });
  }
  void keep_tokens(Ids tokens, Out kept) const {
    launch("keep_tokens", {read(tokens), write(kept)},
           [=](const K& k) { k.keep_tokens(tokens, kept); });
  }
  void embed(AttentionShape shape, In tokens, In table, In positions, Out y) const {
    launch("embed", {read(tokens), read(table), read(positions), write(y)},
           [=](const K& k) { k.embed(shape, tokens, table, positions, y); });
  }
  void embed_backward(AttentionShape shape, In tokens, In dy, Out dtable, Out dpositions) const {
    launch("embed_backward", {read(tokens), read(dy), write(dtable), write(dpositions)},
           [=](const K& k) { k.embed_backward(shape, tokens, dy, dtable, dpositions); });
  }
  void cross_entropy(RowShape shape, Ids targets, double scale, Out logits, double* loss) const {
    launch("cross_entropy", {read(targets), write(logits), write(one(loss))},
           [=](const K& k) { k.cross_entropy(shape, targets, scale, logits, loss); });
  }
  void squared_error(RowShape shape, In y, In expected, double scale, Out gradient,
                     double* loss) const {
    launch("squared_error", {read(y), read(expected), write(gradient), write(one(loss))},
           [=](const K& k) { k.squared_error(shape, y, expected, scale, gradient, loss); });
  }
  void decide(std::span<const double> squares, const DecideNumbers& numbers,
              const UpdateDecision* before, UpdateDecision* decision,
              const ShownDecision& shown) const {
    launch("decide",
           {read(squares), read(one(before)), write(one(decision)), write(one(shown.decision)),
            write(std::span(shown.squares, shown.squares == nullptr ? 0 : squares.size()))},
           [=](const K& k) { k.decide(squares, numbers, before, decision, shown); });
  }
  void step(OptimizerKind kind, const StepSpans<T>& s, const StepNumbers& numbers) const {
    launch("step",
           {read(s.weights), read(s.gradient), read(one(numbers.decision)),
            state(s.first, s.keeps_state), state(s.second, s.keeps_state),
            state(s.last_step, s.keeps_state), write(s.weights_out), write(s.drift),
            write(s.forward_weights), write(s.backward_weights), read(s.change)},
           [=, spans = s,
            decayed = std::vector(s.decayed.begin(), s.decayed.end())](const K& k) mutable {
             spans.decayed = decayed;
             k.step(kind, spans, numbers);
           });
  }

  void nesterov(const NesterovSpans<T>& s, const StepNumbers& numbers) const {
    launch("nesterov",
           {read(s.gradient), read(one(numbers.decision)), state(s.momentum, s.keeps_state),
            write(s.slope)},
           [=](const K& k) { k.nesterov(s, numbers); });
  }
  void divide_by_norm(In x, std::span<const double> square, Out y) const {
    launch("divide_by_norm", {read(x), read(square), write(y)},
           [=](const K& k) { k.divide_by_norm(x, square, y); });
  }

 private:
  using K = cpu::Kernels<T>;

  template <class U>
  static Access read(std::span<U> memory) {
    return Access::read(memory);
  }
  template <class U>
  static Access write(std::span<U> memory) {
    return Access::write(memory);
  }
  template <class U>
  static std::span<U> one(U* value) {
    return {value, value == nullptr ? std::size_t{0} : std::size_t{1}};
  }
  static Access state(std::span<T> memory, bool kept) {
    return kept ? Access::read(memory) : Access::write(memory);
  }
  template <class Run>
  void launch(const char* what, const std::vector<Access>& accesses, Run run) const {
    device_->launch(*stream_, what, accesses, std::move(run));
  }
  /// Keys and values of earlier slices are read, too.
  static std::vector<Access> with_slices(std::span<const In> earlier, std::vector<Access> uses) {
    for (const In& slice : earlier) uses.push_back(read(slice));
    return uses;
  }

  DeferredBackend<T>* device_;
  typename DeferredBackend<T>::Stream* stream_;
};

static_assert(Backend<DeferredBackend<float>>);

}  // namespace tandem::testing

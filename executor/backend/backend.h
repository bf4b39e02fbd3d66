#pragma once
// What devices at work are written over: a device's streams, events and memory, and its kernels.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/base/units.h"
#include "executor/backend/kernels.h"
#include "executor/backend/stream_use.h"

namespace tandem {

/// What a backend shows to profilers that knows of none.
struct NoRange {
  template <std::invocable Name>
  explicit NoRange(const Name& /*name*/) {}
};

/// Another device failed, or the user interrupted: a device's thread has nothing to say.
struct Stopped {};

/// `B` is a device with in-order streams, used by one host thread.
///
/// What a stream is given is a *task*: host code that launches kernels on the stream. The device
/// takes up the tasks of a stream in order, each after what the stream waits for: the CPU when all
/// of that has ended, a GPU as soon as all of that has been taken up, for its kernels will wait by
/// themselves. So a task may look at host state that the program's waits order, for these order the
/// taking up, too, but at what kernels have written only if it is not taken up before when_done()
/// has said that they have. What holds back a stream's tasks holds back no other stream: the host
/// waits in progress() alone. (TaskQueues is how.)
///
/// Events order streams of one device: a wait is for the record that was issued last; without one,
/// there is none. What is passed from device to device needs a Fence besides: the one raises it
/// behind the work, says so to the other's host (a flag, and its wakeup), and the other's stream
/// follows it. To the CPU a fence is nothing: what another device has taken up has ended.
template <class B, class T = typename B::Scalar, class W = typename B::Kernels::Wide>
concept Backend =
    requires(B& b, typename B::Stream& stream, typename B::Event& event, typename B::Fence& fence,
             typename B::Mark& mark, typename B::template Buffer<W>& buffer, std::int64_t elements,
             std::size_t count, std::function<void()> call, std::function<bool()> ready,
             std::span<T> memory, std::span<W> wide, std::span<const W> values,
             std::span<const std::int32_t> ids, std::chrono::steady_clock::time_point time) {
      requires Kernels<typename B::Kernels>;

      /// Memory is laid out by allocate() and is there, all zeros, after commit(), and so is what
      /// the kernels of its streams work with besides.
      { b.template allocate<T>(elements) } -> std::same_as<typename B::template Buffer<T>>;
      { b.template allocate<W>(elements) } -> std::same_as<typename B::template Buffer<W>>;
      b.commit();
      { buffer.elements() } -> std::same_as<std::span<W>>;
      { buffer.bytes() } -> std::same_as<Bytes>;
      { b.workspace_bytes() } -> std::same_as<Bytes>;  // of all its streams
      /// Memory that kernels write and the host reads, zeros; free again when nobody holds it.
      { b.template results<double>(count) } -> std::same_as<std::shared_ptr<double[]>>;
      {
        b.template results<UpdateDecision>(count)
      } -> std::same_as<std::shared_ptr<UpdateDecision[]>>;
      /// Memory that kernels of all devices write and read, not the host; what is in it at first
      /// is undefined.
      { b.template kernel_numbers<double>(count) } -> std::same_as<std::shared_ptr<double[]>>;
      {
        b.template kernel_numbers<UpdateDecision>(count)
      } -> std::same_as<std::shared_ptr<UpdateDecision[]>>;
      /// Device memory from host code, before the run; and in host memory what it holds when all
      /// that the device was given has ended.
      b.write(memory, [](std::span<T>) {});
      b.write(wide, [](std::span<W>) {});
      { b.fetch(values).span() } -> std::same_as<std::span<const W>>;
      /// In a task: host memory as its kernels can read it.
      { b.readable(stream, ids) } -> std::same_as<std::span<const std::int32_t>>;
      { b.readable(stream, values) } -> std::same_as<std::span<const W>>;

      { b.add_stream(StreamUse{}) } -> std::same_as<typename B::Stream&>;  // before commit()
      { b.kernels(stream) } -> std::same_as<typename B::Kernels>;          // in a task
      b.enqueue(stream, call);
      b.enqueue_when(stream, ready, call);  // `ready` is asked again after each wakeup
      b.wait(stream, event);
      b.record(stream, event);

      // In a task:
      b.raise(stream, fence);
      b.follow(stream, fence);
      /// Calls when what the stream was given so far has ended. A stream's calls are made in the
      /// order given.
      b.when_done(stream, call);
      /// When the stream comes there; the time is known in what when_done() calls later, also on a
      /// stream that follows a fence raised later.
      { b.moment(stream) } -> std::same_as<typename B::Mark>;
      /// The same, of a timeline: where none is kept, any time.
      { b.mark(stream) } -> std::same_as<typename B::Mark>;
      { mark.time() } -> std::same_as<std::chrono::steady_clock::time_point>;
      B::Mark::at(time);
      /// While it lives a profiler, if one is attached, shows the thread at what the argument
      /// names.
      requires std::constructible_from<typename B::Range, std::function<std::string()>>;
      /// Since this was asked last the device's thread had nothing to do, and slept.
      { b.slept() } -> std::same_as<bool>;

      /// Goes on with tasks and calls until at most this many are left. Throws Stopped when stop
      /// was requested; what a task or a call throws passes through.
      b.progress(count);
    };

}  // namespace tandem

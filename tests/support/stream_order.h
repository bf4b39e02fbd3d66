#pragma once
// StreamOrder: what a run gave to the streams of all its devices, and whether its events order it.
//
// Every access to memory is held against those that went before it: a read must come behind the
// last write, a write behind the last write and all reads since. What comes behind what is known
// from streams, which are in order, and from events: a vector clock for each stream, joined where
// one waits for another. The order is found without any time, so it holds for all of them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tandem::testing {

/// Bytes that a kernel reads or writes.
struct Access {
  const std::byte* first = nullptr;
  const std::byte* last = nullptr;
  bool writes = false;

  template <class U>
  static Access read(std::span<U> memory) {
    return of(memory, false);
  }
  template <class U>
  static Access write(std::span<U> memory) {
    return of(memory, true);
  }

 private:
  template <class U>
  static Access of(std::span<U> memory, bool writes) {
    const auto bytes = std::as_bytes(memory);
    return {bytes.data(), bytes.data() + bytes.size(), writes};
  }
};

/// Of each stream, how much of it comes before.
using StreamClock = std::vector<std::uint32_t>;

/// Used by the threads of all devices, each call while it holds the lock.
class StreamOrder {
 public:
  using Stream = std::size_t;

  Stream add_stream();
  /// A kernel named `what` on the stream.
  void launch(Stream stream, const std::string& what, std::span<const Access> accesses);
  StreamClock record(Stream stream);
  void wait(Stream stream, const StreamClock& event);
  /// A fault: a wait that was not made.
  void leave_out(Stream stream, const StreamClock& event);
  /// Of these, those that the stream did not know of when it went on.
  std::size_t missing() const;
  /// The host has waited for these streams: whatever is launched from now on comes after.
  void finish(std::span<const Stream> streams);

  /// What is not in order, each pair of kernels once, such as "add writes what copy reads".
  std::set<std::string> violations() const;
  std::size_t launches() const;

 private:
  struct By {
    Stream stream = 0;
    std::uint32_t time = 0;  // 0: nobody
    std::string what;
  };
  /// What happened last to bytes up to `last`.
  struct Cell {
    const std::byte* last = nullptr;
    By write = {};
    std::vector<By> reads = {};  // since; the latest of each stream
  };
  using Cells = std::map<const std::byte*, Cell>;

  void go_on(Stream stream);
  Cells::iterator split_at(const std::byte* at);
  void access(const By& by, const Access& access);
  void check(const By& by, bool writes, const Cell& cell);
  bool is_before(const By& earlier, const By& by) const {
    return clocks_[by.stream][earlier.stream] >= earlier.time;
  }
  static void join(StreamClock& clock, const StreamClock& other);

  mutable std::mutex mutex_;
  std::vector<StreamClock> clocks_;
  StreamClock finished_;
  Cells cells_;
  std::set<std::string> violations_;
  std::size_t launches_ = 0, missing_ = 0;
  std::multimap<Stream, StreamClock> left_out_;
};

}  // namespace tandem::testing

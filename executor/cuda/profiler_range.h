#pragma once
// What profilers of NVIDIA's show of the host's threads: ranges of NVTX, in the domain "tandem".

#include <concepts>
#include <string>

namespace tandem::cuda {

/// On the calling thread, from its construction to its destruction. Without a profiler it costs a
/// comparison, and its name is not made.
class ProfilerRange {
 public:
  template <std::invocable Name>
  explicit ProfilerRange(const Name& name) : open_(is_watched()) {
    if (open_) push(name());
  }
  ~ProfilerRange() {
    if (open_) pop();
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  static bool is_watched();
  static void push(const std::string& name);
  static void pop();

  bool open_;
};

}  // namespace tandem::cuda

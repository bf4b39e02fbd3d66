#pragma once
// Nobody shall wait for long without a word.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tandem::tools {

/// Calls `speak` on a thread of its own, each time that nothing has been said for so long.
class Silence {
 public:
  Silence(std::chrono::milliseconds longest, std::function<void()> speak);
  ~Silence();
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

  /// Something is said now.
  void broken();

 private:
  void run(const std::stop_token& ended);

  const std::chrono::milliseconds longest_;
  const std::function<void()> speak_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool broken_ = false;
  std::jthread thread_;
};

}  // namespace tandem::tools

#pragma once
// What the process is working at (core/base/progress.h), for whoever shows it; and that nobody
// waits for long without a word.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/progress.h"

namespace tandem::tools {

class UnderWay final : public ProgressListener {
 public:
  /// `idle` is called when nothing is under way any longer.
  explicit UnderWay(std::function<void()> idle) : idle_(std::move(idle)) {}

  /// From now on keep_going() throws.
  void ask_for_end() { end_ = true; }
  /// Calls `show` with what is under way, "simulating batches: 3 of 20", which does not end
  /// meanwhile: of the first that counts its steps or says something, else of what began last. Not
  /// where there is nothing.
  void look(const std::function<void(const std::string&)>& show);

  void began(const Activity& work, const std::string& what, std::int64_t steps) override;
  void stepped(const Activity& work, std::int64_t more) override;
  void said(const Activity& work, const std::function<std::string()>& words) override;
  void ended(const Activity& work) override;
  void keep_going() override;

 private:
  struct Work {
    const Activity* which;
    std::string what;
    std::int64_t steps, done = 0;
    bool says = false;
  };
  using Clock = std::chrono::steady_clock;
  Work& find(const Activity& work);

  std::mutex mutex_;
  std::vector<Work> all_;  // as they began
  std::function<void()> idle_;
  std::atomic<bool> end_ = false;
  std::atomic<Clock::rep> listens_again_ = 0;
};

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

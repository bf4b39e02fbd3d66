#pragma once
// What the process is working at (core/base/progress.h), for whoever shows it.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
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

}  // namespace tandem::tools

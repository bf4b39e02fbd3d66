#pragma once
// How long work says how far it has come, and how it is told to end. It knows nothing of terminals,
// signals and clocks: whoever runs it listens (tools/cli/under_way.h), or nobody does.

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace tandem {

/// Throws Interrupted where an end was asked for, EndedEarly where this thread's StopWhen says so:
/// for loops that may take long, every millisecond or so.
void keep_going();

/// Work that is under way while it lives, on any thread; what begins later is a part of it.
class Activity {
 public:
  /// "simulating batches"; `steps` that it has, 0: nobody knows.
  explicit Activity(const std::string& what, std::int64_t steps = 0);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// Some more steps are done. Throws as keep_going().
  void step(std::int64_t more = 1) const;
  /// Says something else than what and how many steps; asked only where it is time to show it.
  void say(const std::function<std::string()>& words) const;
};

/// Thrown to whoever made the StopWhen.
class EndedEarly : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

/// While it lives, keep_going() on this thread asks `stop`, not whether an end was asked for.
class StopWhen {
 public:
  /// `stop` must outlive it; empty: nothing stops it.
  explicit StopWhen(const std::function<bool()>& stop);
  ~StopWhen();
  StopWhen(const StopWhen&) = delete;
  StopWhen& operator=(const StopWhen&) = delete;

 private:
  const std::function<bool()>* before_;
};

/// Called on whatever threads work.
class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  virtual void began(const Activity& work, const std::string& what, std::int64_t steps) = 0;
  virtual void stepped(const Activity& work, std::int64_t more) = 0;
  virtual void said(const Activity& work, const std::function<std::string()>& words) = 0;
  virtual void ended(const Activity& work) = 0;
  /// Throws Interrupted, or not.
  virtual void keep_going() = 0;
};

/// Null: nobody. REQUIRES: no work is under way.
void listen_to_progress(ProgressListener* listener);

}  // namespace tandem

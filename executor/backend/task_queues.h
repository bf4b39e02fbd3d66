#pragma once
// TaskQueues: what a device's host was given for its streams, and has not taken up yet. Each
// stream's tasks are taken up in order; what holds one back holds back its own stream only.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

namespace tandem {

/// Counts its records, as given and as taken up.
class TaskEvent {
 private:
  friend class TaskQueues;
  std::uint64_t given_ = 0, taken_up_ = 0;
};

/// Used by one thread. Queues stay where they are. The only memory that is allocated while a run
/// trains: well under a microsecond an op.
class TaskQueues {
 public:
  using Run = std::function<void()>;
  using Ready = std::function<bool()>;

  class Queue {
   private:
    friend class TaskQueues;
    struct Task {
      Ready ready;  // empty: at once
      Run run;      // empty: nothing
    };
    std::deque<Task> tasks_;
  };

  /// A further one; earlier ones go first when several are ready.
  Queue& add() { return queues_.emplace_back(); }

  void enqueue(Queue& queue, Run run) { enqueue_when(queue, {}, std::move(run)); }
  void enqueue_when(Queue& queue, Ready ready, Run run) {
    queue.tasks_.push_back({std::move(ready), std::move(run)});
    ++size_;
  }
  /// `run`: what a record is to the device besides. REQUIRES: the event outlives its tasks.
  void record(Queue& queue, TaskEvent& event, Run run = {}) {
    if (run) enqueue(queue, std::move(run));
    const std::uint64_t ticket = ++event.given_;
    enqueue(queue, [&event, ticket] { event.taken_up_ = ticket; });
  }
  /// For the record that was given last to be taken up; without one, there is no wait.
  void wait(Queue& queue, TaskEvent& event, Run run = {}) {
    const std::uint64_t ticket = event.given_;
    if (ticket == 0 || (!run && event.taken_up_ >= ticket)) return;
    enqueue_when(queue, [&event, ticket] { return event.taken_up_ >= ticket; }, std::move(run));
  }

  /// Whether there was one that was ready.
  bool take_up_one() {
    for (Queue& queue : queues_) {
      if (queue.tasks_.empty()) continue;
      auto& head = queue.tasks_.front();
      if (head.ready && !head.ready()) continue;
      const auto task = std::move(head);
      queue.tasks_.pop_front();
      --size_;
      if (task.run) task.run();
      return true;
    }
    return false;
  }

  /// Tasks that are left.
  std::size_t size() const { return size_; }

 private:
  std::deque<Queue> queues_;
  std::size_t size_ = 0;
};

}  // namespace tandem

#include "tools/cli/rank_processes.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include "core/base/error.h"

namespace tandem::tools {

namespace {

using LauncherClock = std::chrono::steady_clock;

RankEnd end_of(const RankProcess& process, pid_t id, int status) {
  RankEnd end{.rank = process.rank, .host = process.host, .id = id};
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  end.code = end.signal != 0 ? 128 + end.signal : WEXITSTATUS(status);
  // A shell there says so of what it has waited for; 130 is our own code, too.
  constexpr int kInterrupted = static_cast<int>(ExitCode::interrupted);
  if (process.remote && end.code > 128 && end.code < 128 + NSIG && end.code != kInterrupted)
    end.signal = end.code - 128;
  return end;
}

class RunningRanks {
 public:
  RunningRanks(const std::vector<RankProcess>& ranks,
               const std::function<void(const std::string&)>& say, const RankPatience& patience)
      : ranks_(ranks), say_(say), patience_(patience), lines_(ranks.size()) {
    for (const RankProcess& rank : ranks)
      children_.push_back(std::make_unique<ChildProcess>(rank.setup));
    ended_.ends.resize(ranks.size());
    running_.assign(ranks.size(), true);
    stopped_.resize(ranks.size());
  }

  RanksEnded run(const std::stop_token& stop) {
    while (std::ranges::find(running_, true) != running_.end()) {
      wait();
      for (std::size_t i = 0; i < ranks_.size(); ++i) print_lines(i, false);
      reap();
      look_for_stopped();
      name_failure();
      if (stop.stop_requested() && !ended_.interrupted) {
        ended_.interrupted = true;
        signal_all(SIGINT);
      }
      if (next_ && LauncherClock::now() >= *next_) push();
    }
    name_failure();
    return std::move(ended_);
  }

 private:
  /// Until something ends or prints; not long, as a stop wakes nobody.
  void wait() const {
    constexpr int kMilliseconds = 50;
    std::vector<pollfd> waiting;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      waiting.push_back({children_[i]->output(), POLLIN, 0});
      if (running_[i]) waiting.push_back({children_[i]->end(), POLLIN, 0});
    }
    ::poll(waiting.data(), waiting.size(), kMilliseconds);
  }

  /// Whole lines; at the end what is left. One without an end is cut.
  void print_lines(std::size_t i, bool all) {
    constexpr std::size_t kLongest = 65'536;
    std::string& text = lines_[i];
    children_[i]->take_output(text);
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      if (end == std::string::npos && !all && text.size() < kLongest) return;
      say_(fmt::format("[rank {}] {}", ranks_[i].rank, text.substr(0, end)));
      text.erase(0, end == std::string::npos ? end : end + 1);
    }
  }

  void reap() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!running_[i]) continue;
      const std::optional<int> status = children_[i]->status();
      if (!status) continue;
      running_[i] = false;
      const int stopped_by = ended_.ends[i].stopped_by;
      ended_.ends[i] = end_of(ranks_[i], children_[i]->id(), *status);
      ended_.ends[i].stopped_by = stopped_by;
      print_lines(i, true);
      if (ended_.ends[i].code == 0 || ended_.interrupted) continue;
      failed_.push_back(i);
      if (!next_) next_ = LauncherClock::now() + patience_.after_failure;
    }
  }

  /// One that stands still for long, such as one that has not yet joined the others, is a failure;
  /// where one has failed, nobody waits for those that stand still.
  void look_for_stopped() {
    constexpr auto kHeldUp = std::chrono::seconds(1);  // we stood still ourselves
    const auto now = LauncherClock::now();
    const bool held_up = now - std::exchange(looked_, now) > kHeldUp;
    bool all = true;  // that run
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!running_[i]) continue;
      const std::optional<int> signal =
          ranks_[i].remote ? std::nullopt : children_[i]->stopped_by();
      all = all && signal;
      if (!signal) stopped_[i].reset();
      if (!signal || next_ || ended_.interrupted) continue;
      if (!stopped_[i] || held_up) stopped_[i] = now;
      if (now - *stopped_[i] < patience_.for_a_stopped_one) continue;
      ended_.ends[i] = {.rank = ranks_[i].rank, .host = ranks_[i].host, .id = children_[i]->id()};
      ended_.ends[i].stopped_by = *signal;
      ended_.failed = i;
      say_("error: " + ended_.ends[i].to_string());
      next_ = now;
    }
    if (all && next_ && !asked_) next_ = now;
  }

  /// One that a signal killed, or that ended for a reason of its own, made the others fail, and
  /// they may be seen to end before it.
  void name_failure() {
    if (failed_.empty() || ended_.failed) return;
    const auto first = [this](auto is_cause) {
      return std::ranges::find_if(failed_, [&](std::size_t i) { return is_cause(ended_.ends[i]); });
    };
    const auto killed = first([](const RankEnd& end) { return end.signal != 0; });
    const auto with_reason =
        first([](const RankEnd& end) { return end.code != static_cast<int>(ExitCode::failed); });
    const auto cause = killed == failed_.end() ? with_reason : killed;
    const bool all_ended = std::ranges::find(running_, true) == running_.end();
    const auto since = LauncherClock::now() - (*next_ - patience_.after_failure);
    if (killed == failed_.end() && !all_ended && since < patience_.for_the_cause) return;
    ended_.failed = cause == failed_.end() ? failed_.front() : *cause;
    say_("error: " + ended_.ends[*ended_.failed].to_string());
  }

  /// Those that did not end by themselves.
  void push() {
    const bool asked = std::exchange(asked_, true);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!running_[i]) continue;
      say_(fmt::format("note: rank {} (host {}, pid {}) has not ended: {}", ranks_[i].rank,
                       ranks_[i].host, children_[i]->id(),
                       asked ? "it is killed" : "it is asked to (SIGTERM)"));
    }
    signal_all(asked ? SIGKILL : SIGTERM);
    if (!asked) signal_all(SIGCONT);  // one that is stopped does not hear it before
    next_ = LauncherClock::now() + patience_.after_asking;
  }

  void signal_all(int signal) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!running_[i]) continue;
      if (ranks_[i].remote && signal != SIGKILL) {
        if (signal != SIGCONT) children_[i]->tell("TERM\n");
      } else {
        children_[i]->signal(signal);
      }
    }
  }

  const std::vector<RankProcess>& ranks_;
  const std::function<void(const std::string&)>& say_;
  const RankPatience patience_;
  std::vector<std::unique_ptr<ChildProcess>> children_;
  std::vector<std::string> lines_;  // not yet whole
  std::vector<bool> running_;
  std::vector<std::size_t> failed_;  // in the order in which they were seen
  RanksEnded ended_;
  bool asked_ = false;
  std::optional<LauncherClock::time_point> next_;  // when those that are left are pushed
  std::vector<std::optional<LauncherClock::time_point>> stopped_;  // since when
  LauncherClock::time_point looked_ = LauncherClock::now();
};

}  // namespace

std::string RankEnd::to_string() const {
  const std::string who = fmt::format("rank {} (host {}, pid {})", rank, host, id);
  if (stopped_by != 0) {
    return fmt::format("{} stands still: signal {} ({}) stopped it", who, stopped_by,
                       ::strsignal(stopped_by));
  }
  if (signal == 0) return fmt::format("{} ended with exit code {}", who, code);
  return fmt::format("{} was killed by signal {} ({})", who, signal, ::strsignal(signal));
}

int RanksEnded::code() const {
  if (interrupted) return static_cast<int>(ExitCode::interrupted);
  if (failed && ends[*failed].stopped_by != 0) return static_cast<int>(ExitCode::failed);
  return failed ? ends[*failed].code : 0;
}

RanksEnded run_ranks(const std::vector<RankProcess>& ranks, const std::stop_token& stop,
                     const std::function<void(const std::string&)>& say,
                     const RankPatience& patience) {
  return RunningRanks(ranks, say, patience).run(stop);
}

}  // namespace tandem::tools

#pragma once
// A run of several ranks, each a process: what a test kills does not take the others, nor the test.

#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/packing.h"
#include "tests/support/rank_threads.h"

namespace tandem::testing {

/// What the process of a rank came to.
struct RankProcessEnd {
  std::vector<double> losses;  // of the first rank
  std::string error;           // empty: none
  int signal = 0;              // that ended it
  bool hangs = false;          // it was killed after a while
};

/// REQUIRES: no other thread runs, as processes are forked.
class RankProcesses {
 public:
  RankProcesses(const RankThreads& ranks, const TrainingCase& test, const Program& program) {
    const std::uint16_t port = free_port();
    const Data data = data_of(test);
    for (std::int32_t rank = 0; rank < ranks.ranks; ++rank) {
      start([&] { return ranks.train_one(rank, port, test, program, data).losses; });
    }
  }

  /// Waits for all, 30 s at most.
  std::vector<RankProcessEnd> ends() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    std::vector<RankProcessEnd> all;
    for (const Child& child : children_) all.push_back(end_of(child, limit));
    return all;
  }

 private:
  struct Child {
    pid_t id = 0;
    int told = -1;
  };

  template <class Train>
  void start(const Train& train) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    const pid_t id = ::fork();
    if (id < 0) throw std::runtime_error("no process");
    if (id != 0) {
      ::close(ends[1]);
      children_.push_back({id, ends[0]});
      return;
    }
    std::string told;
    try {
      const std::vector<double> losses = train();
      told = Packer().add_text("").add_all(std::span<const double>(losses)).take();
    } catch (const std::exception& error) {
      told = Packer().add_text(error.what()).add_all(std::span<const double>()).take();
    }
    const bool written = ::write(ends[1], told.data(), told.size()) ==
                         static_cast<ssize_t>(told.size());  // less than a pipe holds
    ::_exit(written ? 0 : 1);
  }

  static RankProcessEnd end_of(const Child& child, std::chrono::steady_clock::time_point limit) {
    RankProcessEnd end;
    std::string told;
    while (true) {
      pollfd waiting{child.told, POLLIN, 0};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          limit - std::chrono::steady_clock::now());
      if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0) {
        end.hangs = true;
        ::kill(child.id, SIGKILL);
        break;
      }
      char buffer[4096];
      const ssize_t some = ::read(child.told, buffer, sizeof buffer);
      if (some <= 0) break;
      told.append(buffer, static_cast<std::size_t>(some));
    }
    ::close(child.told);
    int status = 0;
    ::waitpid(child.id, &status, 0);
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    if (told.empty()) return end;
    Unpacker from(told);
    end.error = from.text();
    end.losses = from.all<double>();
    return end;
  }

  std::vector<Child> children_;
};

}  // namespace tandem::testing

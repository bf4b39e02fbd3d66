#pragma once
// A run of several ranks in one process, for tests: each a thread with a group, an engine and
// sockets of its own.

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "executor/ranks/device_ranks.h"
#include "executor/ranks/rank_run.h"
#include "tests/support/training.h"

namespace tandem::testing {

inline std::uint16_t free_port() {
  boost::asio::io_context context;
  boost::asio::ip::tcp::acceptor acceptor(
      context, {boost::asio::ip::address_v4::loopback(), std::uint16_t{0}});
  return acceptor.local_endpoint().port();
}

/// What a rank came to: a report, or an error.
struct RankEnd {
  TrainingReport<float> report;
  std::string error;  // empty: none
};

struct RankThreads {
  std::int32_t ranks = 2;
  std::string devices = {};  // as parse_device_ranks() reads them; empty: even
  std::function<void(std::int32_t rank, RankGroupSetup&)> change_group = {};
  std::function<void(std::int32_t rank, TrainingSetup<float>&)> change = {};
  /// In place of the CPU's trainer, by a transport of its own: ranks' own engine carries norms.
  std::function<TrainingReport<float>(std::int32_t rank, const Program&,
                                      const TrainingSetup<float>&)>
      train_by_messages = {};

  std::vector<RankEnd> train(const TrainingCase& test, const Program& program) const {
    const std::uint16_t port = free_port();
    const Data data = data_of(test);
    std::vector<RankEnd> ends(static_cast<std::size_t>(ranks));
    std::vector<std::jthread> threads;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          ends[static_cast<std::size_t>(rank)].report = train_one(rank, port, test, program, data);
        } catch (const std::exception& error) {
          ends[static_cast<std::size_t>(rank)].error = error.what();
        }
      });
    }
    threads.clear();
    return ends;
  }

  /// One of them, by the thread that calls.
  TrainingReport<float> train_one(std::int32_t rank, std::uint16_t port, const TrainingCase& test,
                                  const Program& program, const Data& data) const {
    RankGroupSetup place{.rank = rank,
                         .ranks = ranks,
                         .rendezvous_port = port,
                         .secret = "a secret of tests",
                         .patience = std::chrono::seconds(20)};
    if (change_group) change_group(rank, place);
    RankGroup group(place);
    const std::size_t all = std::size_t{program.placement().devices} * test.width;
    const DeviceRanks of =
        devices.empty() ? even_device_ranks(all, ranks) : parse_device_ranks(devices, all, ranks);
    const CommunicatorPlans plans(program, test.width, of);
    RankRun others(group, train_by_messages ? plans.norms() : plans, of);
    TrainingSetup<float> setup = setup_of<float>(test, program, data);
    setup.others = &others;
    if (change) change(rank, setup);
    if (!train_by_messages) return train_on_cpu<float>(program, setup);
    try {
      return train_by_messages(rank, program, setup);
    } catch (const std::exception& error) {
      throw DeviceError(group.fail(error.what()));  // as the program tells the others
    }
  }
};

}  // namespace tandem::testing

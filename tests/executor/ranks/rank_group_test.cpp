// How ranks find one another, and hear of one another's end; and that a stranger can't hold them
// up.

#include "executor/ranks/rank_group.h"

#include <array>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/rank_threads.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// Each rank in a thread; what each came to: an error's text, or nothing.
std::vector<std::string> run_ranks(std::int32_t ranks, const std::function<void(RankGroup&)>& run,
                                   const std::function<void(RankGroupSetup&)>& change = {}) {
  const std::uint16_t port = testing::free_port();
  std::vector<std::string> ends(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      RankGroupSetup setup{.rank = rank,
                           .ranks = ranks,
                           .rendezvous_port = port,
                           .secret = "a secret of tests",
                           .patience = 10s};
      if (change) change(setup);
      try {
        RankGroup group(setup);
        run(group);
      } catch (const std::exception& error) {
        ends[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  threads.clear();
  return ends;
}

TEST(RankGroup, BringsTogetherWhatEachHas) {
  std::vector<std::string> gathered;
  const auto ends = run_ranks(3, [&](RankGroup& group) {
    group.barrier();
    const auto all = group.gather("of " + std::to_string(group.rank()));
    if (group.rank() == 0) gathered = all;
    group.barrier();
  });
  EXPECT_THAT(ends, Each(""));
  EXPECT_THAT(gathered, ElementsAre("of 0", "of 1", "of 2"));
}

// Who has given its part may end at once: what is long is not overtaken by the end.
TEST(RankGroup, GathersFromRanksThatEndAtOnce) {
  for (int i = 0; i < 20; ++i) {
    std::vector<std::size_t> sizes;
    const std::vector<std::string> ends = run_ranks(3, [&](RankGroup& group) {
      const auto all = group.gather(std::string(std::size_t{1} << 22, 'x'));
      for (const std::string& one : all) sizes.push_back(one.size());
    });
    ASSERT_THAT(ends, Each(""));
    EXPECT_THAT(sizes, ElementsAre(1 << 22, 1 << 22, 1 << 22));
  }
}

TEST(RankGroup, KnowsHowFarClocksAreApart) {
  const auto ends = run_ranks(2, [](RankGroup& group) {
    // One clock, seen over a socket.
    const Duration ahead = group.info(1).clock_ahead;
    if (ahead > 5ms || ahead < -5ms) throw DeviceError("clocks");
    group.barrier();
  });
  EXPECT_THAT(ends, Each(""));
}

TEST(RankGroup, RefusesRanksThatHaveSomethingElse) {
  const auto ends = run_ranks(
      3, [](RankGroup& group) { group.barrier(); },
      [](RankGroupSetup& setup) { setup.identity = {{"plan", setup.rank == 2 ? 8u : 7u}}; });
  EXPECT_THAT(ends, Each(AllOf(HasSubstr("rank 2"), HasSubstr("has another plan than rank 0"))));
}

TEST(RankGroup, RefusesThoseThatComeLateInTheSameWords) {
  const auto ends = run_ranks(
      3, [](RankGroup& group) { group.barrier(); },
      [](RankGroupSetup& setup) {
        setup.identity = {{"plan", setup.rank == 2 ? 8u : 7u}};
        if (setup.rank == 1) std::this_thread::sleep_for(500ms);
      });
  EXPECT_THAT(ends, Each(AllOf(HasSubstr("rank 2"), HasSubstr("has another plan than rank 0"))));
}

TEST(RankGroup, RefusesWhatIsFoundToDifferLater) {
  const auto ends = run_ranks(2, [](RankGroup& group) {
    group.agree("text", 5);
    group.agree("beginning", group.rank() == 1 ? 1 : 0);
  });
  EXPECT_THAT(ends, Each(HasSubstr("has another beginning than rank 0")));
}

TEST(RankGroup, SaysWhoHasNotCome) {
  const std::uint16_t port = testing::free_port();
  try {
    const RankGroup group(
        {.rank = 0, .ranks = 3, .rendezvous_port = port, .secret = "s", .patience = 200ms});
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("of 3 these are missing: 1, 2"));
  }
}

/// As of a process that was stopped: its system takes connections.
// Long before it is given up, all that are there are told who is awaited; and nothing is told where
// all come in time.
TEST(RankGroup, TellsAllThatAreThereWhoIsAwaited) {
  std::mutex mutex;
  std::vector<std::string> notes;
  const auto hears = [&](RankGroupSetup& setup) {
    setup.before_note = 100ms;
    setup.on_notice = [&](const std::string& note) {
      const std::lock_guard lock(mutex);
      notes.push_back(note);
    };
  };
  run_ranks(3, [](RankGroup& group) { group.barrier(); }, hears);
  EXPECT_THAT(notes, ::testing::IsEmpty());
  const auto late = [&](RankGroupSetup& setup) {
    hears(setup);
    if (setup.rank == 2) std::this_thread::sleep_for(400ms);
  };
  EXPECT_THAT(run_ranks(3, [](RankGroup& group) { group.barrier(); }, late), Each(""));
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT(notes, Each(HasSubstr("for ranks to come: of 3 these are missing: 2")));
  notes.clear();
  const auto late_first = [&](RankGroupSetup& setup) {
    hears(setup);
    if (setup.rank == 0) std::this_thread::sleep_for(400ms);
  };
  EXPECT_THAT(run_ranks(3, [](RankGroup& group) { group.barrier(); }, late_first), Each(""));
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT(notes, Each(HasSubstr("has not found rank 0 at 127.0.0.1")));
}

TEST(RankGroup, DoesNotWaitForAFirstRankThatStandsStill) {
  boost::asio::io_context context;
  const boost::asio::ip::tcp::acceptor acceptor(
      context, {boost::asio::ip::address_v4::loopback(), std::uint16_t{0}});
  const auto start = std::chrono::steady_clock::now();
  std::string why;
  try {
    const RankGroup group(RankGroupSetup{.rank = 1,
                                         .ranks = 2,
                                         .rendezvous_port = acceptor.local_endpoint().port(),
                                         .secret = "a secret of tests"});
  } catch (const DeviceError& error) {
    why = error.what();
  }
  EXPECT_THAT(why, AllOf(HasSubstr("rank 1 does not find rank 0"), HasSubstr("does not answer")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

/// Rank 1 joins, and is not heard from then on: though rank 2 has not come, that is told.
TEST(RankGroup, LosesWhoFallsSilentWhileOthersAreAwaited) {
  const std::uint16_t port = testing::free_port();
  boost::asio::io_context context;
  std::string why;
  std::jthread first([&] {
    try {
      const RankGroup group(RankGroupSetup{.rank = 0,
                                           .ranks = 3,
                                           .rendezvous_port = port,
                                           .secret = "a secret of tests",
                                           .silence = 500ms});
    } catch (const DeviceError& error) {
      why = error.what();
    }
  });
  auto connected = boost::asio::co_spawn(
      context,
      connect_to("127.0.0.1", port, "a secret of tests",
                 {.kind = ConnectionPurpose::Kind::control, .rank = 1, .to = 0, .channel = 0},
                 std::chrono::steady_clock::now() + 10s),
      boost::asio::use_future);
  context.run();
  const Connected link = connected.get();
  first.join();
  EXPECT_THAT(why, AllOf(HasSubstr("rank 1"), HasSubstr("has not been heard for")));
}

TEST(RankGroup, TellsAllWhoHasFailed) {
  const auto ends = run_ranks(3, [](RankGroup& group) {
    group.barrier();
    if (group.rank() == 1) group.fail("device 1, f3: on purpose");
    group.barrier();
  });
  EXPECT_THAT(ends, Each(AllOf(HasSubstr("rank 1 (host"), HasSubstr("device 1, f3: on purpose"))));
}

TEST(RankGroup, TellsAllWhoIsGone) {
  const auto ends = run_ranks(3, [](RankGroup& group) {
    group.barrier();
    if (group.rank() == 2) group.break_links();
    group.barrier();
  });
  for (const std::int32_t rank : {0, 1})
    EXPECT_THAT(ends[static_cast<std::size_t>(rank)],
                AllOf(HasSubstr("rank 2 (host"), HasSubstr("is lost")));
}

/// A connection of somebody who does not know the secret.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : socket_(context_) {
    const boost::asio::ip::tcp::endpoint place(boost::asio::ip::address_v4::loopback(), port);
    for (int tries = 0; tries < 200 && !socket_.is_open(); ++tries) connect(place);
  }
  void say(const std::string& what) {
    boost::system::error_code ignored;
    boost::asio::write(socket_, boost::asio::buffer(what), ignored);
  }

 private:
  void connect(const boost::asio::ip::tcp::endpoint& place) {
    boost::system::error_code error;
    socket_.connect(place, error);
    if (!error) return;
    socket_.close();
    std::this_thread::sleep_for(5ms);
  }
  boost::asio::io_context context_;
  boost::asio::ip::tcp::socket socket_;
};

TEST(RankGroup, IsNotHeldUpByStrangers) {
  std::vector<std::unique_ptr<Stranger>> strangers;
  const auto ends = run_ranks(2, [&](RankGroup& group) {
    if (group.rank() == 0) {
      for (int i = 0; i < 40; ++i) {
        strangers.push_back(std::make_unique<Stranger>(group.info(0).port));
        strangers.back()->say(i % 2 == 0 ? std::string(4096, 'x') : std::string());
      }
    }
    group.barrier();
    group.barrier();
  });
  EXPECT_THAT(ends, Each(""));
}

TEST(RankGroup, TakesNobodyWithAnotherSecret) {
  const auto ends = run_ranks(
      2, [](RankGroup& group) { group.barrier(); },
      [](RankGroupSetup& setup) {
        if (setup.rank == 1) setup.secret += '!';
        setup.patience = 400ms;
      });
  EXPECT_THAT(ends[0], HasSubstr("these are missing: 1"));
  EXPECT_THAT(ends[1], HasSubstr("rank 1 does not find rank 0"));
}

}  // namespace
}  // namespace tandem

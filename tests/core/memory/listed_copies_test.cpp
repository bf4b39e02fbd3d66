// The copies of weights that the listing of schedules gives in closed form, against the slots of
// the memory plan.

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/memory/memory.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

/// Of one stage.
struct Copies {
  int weights = 1, forward = 0, backward = 0;  // forward and backward: planes that passes read
  int all() const { return weights + forward + backward; }
  friend bool operator==(const Copies&, const Copies&) = default;
};
using ListedCopies = std::function<Copies(int p, int m, int d)>;

struct ListedRow {
  std::string_view schedule, text;  // as the listing has it
  ListedCopies copies;              // the same in numbers
};

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// `if predicted` and `1 more` of the listing's texts.
Copies predicting(bool predicts, int versions, bool twice = false) {
  return predicts ? Copies{1, versions, twice ? 1 : 0} : Copies{};
}

Copies of_xpipe(int p, int m, int d) {
  const double forward = std::round(static_cast<double>(p + m - 2 - ceil_div(d, 2)) / m);
  const double backward = std::round(static_cast<double>(m - 1 + d / 2) / m);
  return predicting(forward > 0, 1 + ceil_div(p - 1 - d, m), 0 < backward && backward < forward);
}

std::vector<ListedRow> listed_rows() {
  const auto versions = [](int p, int m, int d) { return 1 + ceil_div(p - 1 - d, m); };
  const auto vertical = [](int p, int m, int) { return 1 + ceil_div(2 * (p - 1), m); };
  const ListedCopies ahead = [=](int p, int m, int d) {
    return predicting(d < p - 1, versions(p, m, d));
  };
  return {
      {"pipedream", "p-d; p-d weight versions", [](int p, int, int d) { return Copies{p - d}; }},
      {"2bw", "p-d; 2 weights", [](int, int, int) { return Copies{2}; }},
      {"paci", "p-d; 1+ceil((p-1-d)/m) weights",
       [=](int p, int m, int d) { return Copies{versions(p, m, d)}; }},
      {"pipemare", "p-d; 1+ceil((p-1-d)/m) weights, 1 corrected if d < p-1",
       [=](int p, int m, int d) { return Copies{versions(p, m, d), 0, d < p - 1 ? 1 : 0}; }},
      {"timeprest", "2(p-1-d)+m; 1+ceil(2(p-1)/m) weights",
       [=](int p, int m, int d) { return Copies{vertical(p, m, d)}; }},
      {"timeprest-i", "2(p-1-d)+m; 1+ceil(2(p-1)/m) weights, 1 mixed if p > 1",
       [=](int p, int m, int d) { return Copies{vertical(p, m, d), 0, p > 1 ? 1 : 0}; }},
      {"spectrain",
       "p-d; 1 of weights, 1+ceil((p-1-d)/m) predicted if d < p-1 or d > 1, 1 more if 1 < d < p-1",
       [=](int p, int m, int d) {
         return predicting(d < p - 1 || d > 1, versions(p, m, d), 1 < d && d < p - 1);
       }},
      {"spectrain-v2", "p-d; 1 of weights, 1+ceil((p-1-d)/m) predicted if d < p-1", ahead},
      {"pipeoptim", "p-d; 1 of weights, 1+ceil((p-1-d)/m) predicted if d < p-1", ahead},
      {"xpipe", "p-d; 1 of weights, 1+ceil((p-1-d)/m) predicted if hF > 0, 1 more if 0 < hB < hF",
       of_xpipe},
  };
}

/// Whether those are what the plan has, for each p and m that the schedule takes. `adapt`: what is
/// asked for beside them.
bool holds(std::string_view schedule, const ListedCopies& listed,
           const std::function<void(ScheduleRequest&)>& adapt = {}) {
  bool equal = true;
  for (int p = 1; p <= 9; ++p) {
    for (const int m : {1, 2, 3, 4, 5, 7, 8, 16, 17}) {
      Pipeline wanted = pipeline(schedule, p, m);
      if (adapt) adapt(wanted.request);
      if (reason_against(find_schedule(schedule), wanted.request)) continue;
      const SlotCounts slots = count_slots(program_of(wanted));
      for (const ReplicaId stage : ids(slots)) {
        const StageSlots& of = slots[stage];
        const Copies planned{of[SlotKind::weights], of[SlotKind::forward_weights],
                             of[SlotKind::backward_weights]};
        equal = equal && planned == listed(p, m, static_cast<int>(index(stage)));
      }
    }
  }
  return equal;
}

TEST(ListedCopies, AreThoseOfTheMemoryPlan) {
  for (const ListedRow& row : listed_rows()) {
    EXPECT_EQ(find_schedule(row.schedule).activations, row.text);
    EXPECT_TRUE(holds(row.schedule, row.copies)) << row.schedule;
  }
}

TEST(ListedCopies, AreGivenOfEveryScheduleThatHoldsMoreThanOne) {
  const std::vector<ListedRow> rows = listed_rows();
  for (const ScheduleTraits& traits : schedules()) {
    const bool is_listed = std::ranges::find(rows, traits.name, &ListedRow::schedule) != rows.end();
    EXPECT_EQ(is_listed, traits.weights != WeightSemantics::vanilla) << traits.name;
  }
}

// What the listing said before it named planes, one copy more or less than there are, and what
// another schedule holds.
TEST(ListedCopies, TellOneCopyMoreOrLess) {
  const auto bare = [](int p, int m, int d) { return Copies{1 + ceil_div(p - 1 - d, m)}; };
  EXPECT_FALSE(holds("pipemare", bare));
  for (const ListedRow& row : listed_rows()) {
    for (int Copies::* const kind : {&Copies::weights, &Copies::forward, &Copies::backward}) {
      // On one stage of one pipeline.
      const auto with_one_more = [&](int p, int m, int d) {
        Copies copies = row.copies(p, m, d);
        if (p == 4 && m == 4 && d == 2) ++(copies.*kind);
        return copies;
      };
      EXPECT_FALSE(holds(row.schedule, with_one_more)) << row.schedule;
    }
  }
  const auto spectrain = [](int p, int m, int d) {
    return predicting(d < p - 1 || d > 1, 1 + ceil_div(p - 1 - d, m), 1 < d && d < p - 1);
  };
  EXPECT_FALSE(holds("xpipe", spectrain));
  EXPECT_EQ(of_xpipe(4, 4, 0).all(), spectrain(4, 4, 0).all() + 1);
  // At p = 2 the last stage's time is that of its backwards: it predicts nothing.
  EXPECT_FALSE(holds("spectrain", [](int p, int m, int d) {
    return predicting(true, 1 + ceil_div(p - 1 - d, m), 1 < d && d < p - 1);
  }));
}

TEST(ListedCopies, HaveACorrectedOneOnTheLastStageTooByThePublishedDelays) {
  const auto publish = [](ScheduleRequest& request) { request.published_delays = true; };
  const auto everywhere = [](int p, int m, int d) {
    return Copies{1 + ceil_div(p - 1 - d, m), 0, 1};
  };
  EXPECT_TRUE(holds("pipemare", everywhere, publish));
  EXPECT_FALSE(holds("pipemare", everywhere));
}

}  // namespace
}  // namespace tandem::testing

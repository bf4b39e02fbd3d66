#include "core/schedule/op.h"

#include <set>

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Op, TakesTwelveBytes) { EXPECT_EQ(sizeof(Op), 12u); }

TEST(OpTraits, GiveEachKindANameAndALetterOfItsOwn) {
  std::set<std::string_view> names, letters;
  for (const OpTraits& row : kOpTraits) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(name(row.kind), row.name);
    if (!row.notation.empty()) {
      EXPECT_TRUE(letters.insert(row.notation).second) << row.notation;
    }
    EXPECT_EQ(row.notation.empty(), is_transfer(row.kind) && !moves_stash(row.kind))
        << "lower() alone makes the other transfers";
  }
}

TEST(OpTraits, CarryResultsByATransferOfTheSameFlow) {
  for (const OpTraits& row : kOpTraits) {
    if (!row.carried_by) continue;
    EXPECT_TRUE(is_transfer(*row.carried_by)) << row.name;
    EXPECT_EQ(traits(*row.carried_by).flow, row.flow) << row.name;
  }
}

TEST(OpTraits, SortEveryKindIntoOneGroup) {
  for (const OpTraits& row : kOpTraits) {
    const int groups = is_transfer(row.kind) + is_collective(row.kind) + is_compute(row.kind) +
                       is_optimizer(row.kind);
    EXPECT_EQ(groups, 1) << row.name;
    EXPECT_EQ(on_compute_lane(row.kind), is_compute(row.kind) || is_optimizer(row.kind));
    EXPECT_EQ(moves_stash(row.kind), row.flow == Flow::with_partner) << row.name;
    if (makes_weight_gradient(row.kind) || reads_weights(row.kind)) {
      EXPECT_TRUE(is_compute(row.kind)) << row.name;
    }
  }
  EXPECT_TRUE(makes_input_gradient(OpKind::backward) && makes_weight_gradient(OpKind::backward));
  EXPECT_FALSE(makes_weight_gradient(OpKind::backward_input));
  EXPECT_FALSE(makes_input_gradient(OpKind::backward_weight));
  EXPECT_FALSE(reads_weights(OpKind::backward_weight));
  EXPECT_TRUE(reads_weights(OpKind::recompute));
}

}  // namespace
}  // namespace tandem

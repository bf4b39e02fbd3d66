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

TEST(OpTraits, GiveEachKindAPriceOfItsRole) {
  for (const OpTraits& row : kOpTraits) {
    EXPECT_EQ(row.price == Price::transfer || row.price == Price::stash, is_transfer(row.kind))
        << row.name;
    EXPECT_EQ(row.price == Price::stash, moves_stash(row.kind)) << row.name;
    EXPECT_TRUE(!fetches(row.kind) || moves_stash(row.kind)) << row.name;
    EXPECT_EQ(is_useful(row.kind), is_compute(row.kind) && !row.repeats) << row.name;
    EXPECT_EQ(makes_version(row.kind) || settles_step(row.kind), is_optimizer(row.kind))
        << row.name;
  }
  EXPECT_TRUE(makes_version(OpKind::update) && settles_step(OpKind::validate));
  EXPECT_TRUE(is_useful(OpKind::backward_weight) && !is_useful(OpKind::recompute));
  EXPECT_TRUE(fetches(OpKind::load) && !fetches(OpKind::evict));
}

TEST(OpTraits, GiveEachKindItsLooks) {
  std::set<std::string_view> titles, letters, pytorch;
  for (const OpTraits& row : kOpTraits) {
    EXPECT_TRUE(titles.insert(row.title).second) << row.name;
    EXPECT_TRUE(row.colour.size() == 7 && row.colour.front() == '#') << row.name;
    EXPECT_EQ(row.letter.empty(), !on_compute_lane(row.kind)) << row.name;
    EXPECT_EQ(row.fill == 0, !on_compute_lane(row.kind)) << row.name;
    EXPECT_EQ(row.phrase.empty(), is_collective(row.kind) || is_optimizer(row.kind)) << row.name;
    EXPECT_TRUE(row.letter.empty() || letters.insert(row.letter).second) << row.name;
    EXPECT_TRUE(row.pytorch.empty() || pytorch.insert(row.pytorch).second) << row.name;
  }
}

}  // namespace
}  // namespace tandem

// Slices of sequences: their lengths, what is refused, and what verification asks of them.

#include "core/schedule/slicing.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/memory/storage.h"
#include "core/model/catalog.h"
#include "core/model/slice_lengths.h"
#include "core/notation/notation.h"
#include "core/notation/pytorch_csv.h"
#include "core/verify/verify.h"
#include "tests/core/error_of.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Slicing, IsWrittenAsItIsRead) {
  for (const std::string text : {"1", "4", "by-work:4", "by-time", "512,256,256"}) {
    const std::optional<Slicing> slicing = parse_slicing(text);
    ASSERT_TRUE(slicing) << text;
    EXPECT_EQ(name(*slicing), text);
  }
  EXPECT_EQ(parse_slicing("5,3")->count, 2);
  for (const std::string text :
       {"", "0", "-1", "4x", "by-work", "by-work:0", "by-work:2,3", "2,0", "2,", "by-time:3"})
    EXPECT_FALSE(parse_slicing(text)) << text;
}

ModelSpec long_model() {
  return {.name = "long",
          .architecture = Architecture::transformer,
          .blocks = 24,
          .width = 4096,
          .heads = 32,
          .sequence = 16'384,
          .vocabulary = 32'000,
          .shape = {.key_value_heads = 32, .head_width = 128, .mlp_width = 16'384}};
}

TEST(SliceLengths, ByWorkAreThoseOfTheAuthorsCode) {
  const Slicing four{Slicing::Kind::by_work, 4};
  EXPECT_THAT(slice_lengths(four, long_model(), 2), ElementsAre(4930, 4238, 3776, 3440));
  EXPECT_THAT(slice_lengths({Slicing::Kind::by_work, 1}, long_model()), ElementsAre(16'384));
}

TEST(SliceLengths, AreEqualOrAsGiven) {
  ModelSpec model;
  model.sequence = 10;
  EXPECT_THAT(slice_lengths({.count = 4}, model), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(slice_lengths(Slicing::of_lengths({7, 3}), model), ElementsAre(7, 3));
  EXPECT_THAT(sequence_parts({}, model), IsEmpty());
  EXPECT_THAT(sequence_parts(Slicing::of_lengths({7, 3}), model),
              ElementsAre(SequencePart{7, 0}, SequencePart{3, 7}));
  EXPECT_THAT(error_of([&] { slice_lengths(Slicing::of_lengths({7, 4}), model); }),
              HasSubstr("slices of 11 tokens: a sequence of model unnamed has 10"));
  EXPECT_THAT(error_of([&] { slice_lengths({.count = 11}, model); }),
              HasSubstr("11 slices: a sequence of model unnamed has 10 tokens"));
  model = long_model();
  model.shape.causal = false;
  EXPECT_THAT(error_of([&] { slice_lengths({.count = 2}, model); }),
              HasSubstr("attend to later ones"));
}

TEST(Slices, AreRefusedWhereTheyMakeNoSense) {
  ScheduleRequest request = request_for(2, 4);
  request.slices = {.count = 2};
  EXPECT_THAT(*reason_against(find_schedule("1f1b"), request), HasSubstr("does not cut sequences"));
  EXPECT_THAT(*reason_against(find_schedule("bpipe"), request), HasSubstr("does not cut"));
  EXPECT_FALSE(reason_against(find_schedule("seq1f1b"), request));
  request.slices = {Slicing::Kind::by_time, 0};
  EXPECT_THAT(*reason_against(find_schedule("seq1f1b"), request), HasSubstr("by time"));
  request.slices = {.count = 20'000};
  EXPECT_THAT(*reason_against(find_schedule("seq1f1b"), request), HasSubstr("80000 slices"));
}

TEST(Slices, StandInTheNotationButNotInPyTorchs) {
  ScheduleRequest request = request_for(2, 2);
  request.slices = {.count = 2};
  const Schedule schedule = make_schedule(find_schedule("seq1f1b"), request);
  const std::string text = print_schedule(schedule);
  EXPECT_EQ(text,
            "# seq1f1b  devices 2  microbatches 2  slices 2\n"
            "0 | f0 f1 f2 b1 f3 b0 b3 b2 U\n"
            "1 | f0 f1 b1 f2 b0 f3 b3 b2 U\n");
  EXPECT_EQ(parse_schedule(text, "s"), schedule);
  EXPECT_EQ(schedule.whole_microbatches(), 2);
  EXPECT_THAT(error_of([&] { print_pytorch_csv(schedule, [](std::string_view) {}); }),
              HasSubstr("slices"));
}

std::vector<Violation> violations(const std::string& orders) {
  return verify(
      lower(parse_schedule("# mine devices 1 microbatches 2 slices 2\n0 |" + orders, "s")));
}

TEST(Slices, GoForwardInTheirOrderAndBackInTheReverse) {
  EXPECT_THAT(violations("f0 f1 b1 b0 f2 f3 b3 b2 U"), IsEmpty());
  EXPECT_THAT(violations("f0 f1 f2 f3 i3 w3 i2 w2 i1 i0 w0 w1 U"), IsEmpty());
  for (const std::string wrong : {"f0 f1 b0 b1 f2 f3 b3 b2 U", "f1 f0 b1 b0 f2 f3 b3 b2 U",
                                  "f0 f1 f2 f3 i2 w2 i3 w3 b1 b0 U"}) {
    const std::vector<Violation> found = violations(wrong);
    ASSERT_EQ(found.size(), 1U) << wrong;
    EXPECT_EQ(found[0].kind, ViolationKind::missing_wait) << found[0].message;
  }
}

TEST(Slices, OfTwoMicrobatchesThatGoBackAtOnceNeedTwoContextGradients) {
  const Program program = lower(parse_schedule(
      "# mine devices 1 microbatches 2 slices 2\n0 | f0 f1 f2 f3 b1 b3 b0 b2 U", "s"));
  SlotCounts slots = count_slots(program);
  EXPECT_EQ(slots[ReplicaId{0}][SlotKind::context_gradient], 2);
  EXPECT_THAT(verify(program, slots), IsEmpty());
  slots[ReplicaId{0}][SlotKind::context_gradient] = 1;
  const std::vector<Violation> found = verify(program, slots);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].kind, ViolationKind::slot_overwritten) << found[0].message;
}

// Keys and values stay from a slice's forward to its backward, where its stash is made again.
TEST(Slices, ThatAreMadeAgainKeepAContextEach) {
  const Program program = lower(parse_schedule(
      "# mine devices 1 microbatches 2 slices 2\n0 | f0 f1 r1 b1 f2 r0 b0 f3 r3 b3 r2 b2 U", "s"));
  SlotCounts slots = count_slots(program);
  EXPECT_EQ(slots[ReplicaId{0}][SlotKind::context], 2);
  EXPECT_EQ(slots[ReplicaId{0}][SlotKind::stash], 1);
  EXPECT_THAT(verify(program, slots), IsEmpty());
  slots[ReplicaId{0}][SlotKind::context] = 1;
  const std::vector<Violation> found = verify(program, slots);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, ViolationKind::slot_overwritten);
  EXPECT_THAT(found[0].message, HasSubstr("keys and values of 1 slices are kept"));
}

// As many as others hold stashes, min(p − 1 − d + n, mn) of Seq1F1B; and one stash.
TEST(Slices, ThatAreMadeAgainHoldAsManyContextsAsOthersStashes) {
  for (const std::string name : {"terapipe", "seq1f1b", "seq1f1b-zb"}) {
    for (const int devices : {1, 2, 4}) {
      ScheduleRequest request = request_for(static_cast<std::uint16_t>(devices), 3);
      request.slices = {.count = 3};
      const auto slots_of = [&](Recompute recompute) {
        request.recompute = recompute;
        return count_slots(lower(make_schedule(find_schedule(name), request)));
      };
      const SlotCounts kept = slots_of(Recompute::none), again = slots_of(Recompute::stage);
      for (const ReplicaId replica : ids(kept)) {
        SCOPED_TRACE(::testing::Message() << name << " " << devices << " " << index(replica));
        const int stages_below = devices - 1 - static_cast<int>(index(replica));
        const int in_flight = name == "terapipe" ? 9 : std::min(stages_below + 3, 9);
        EXPECT_EQ(kept[replica][SlotKind::context], 0);
        EXPECT_LT(again[replica][SlotKind::stash], kept[replica][SlotKind::stash]);
        if (name == "seq1f1b-zb") continue;  // its weight halves come later
        EXPECT_EQ(again[replica][SlotKind::context], in_flight);
        EXPECT_EQ(kept[replica][SlotKind::stash], in_flight);
        EXPECT_EQ(again[replica][SlotKind::stash], 1);
      }
    }
  }
}

TEST(Slices, AreWorkedOnOneByOneByOneReplica) {
  const auto refusal = [](const std::string& text) {
    return error_of([&] { lower(parse_schedule(text, "s")); });
  };
  EXPECT_THAT(refusal("# mine devices 2 microbatches 1 slices 2\n# replicas 0 0\n# edges none\n"
                      "0 | f0 b0 R U\n1 | f1 b1 R U"),
              HasSubstr("a stage has one replica"));
  EXPECT_THAT(refusal("# mine devices 1 microbatches 1 slices 2\n0 | f0 f1 i1 i0 w1+2 U"),
              HasSubstr("one by one"));
}

TEST(Slices, OfExecutorsTakeTogetherWhatTheWholeTakes) {
  ModelSpec model;
  model.sequence = 12;
  const std::vector<SequencePart> parts = parts_of({6, 4, 2});
  const auto bytes = [&](const std::vector<SequencePart>& slices) {
    return stage_bytes(model, {1, 5}, 2, OptimizerKind::adamw, Recompute::none, Storage::f32,
                       slices);
  };
  const StageBytes whole = bytes({}), sliced = bytes(parts);
  ASSERT_EQ(sliced.slices.size(), 3U);
  const auto total = [](const Pieces& pieces) {
    Bytes sum = 0;
    for (const auto& [size, count] : pieces) sum += size * count;
    return sum;
  };
  Bytes stashes = 0;
  for (std::size_t slice = 0; slice < 3; ++slice) {
    const Bytes stash = total(sliced.slices[slice].pieces.stash);
    EXPECT_EQ(stash * 12, total(whole.pieces.stash) * parts[slice].tokens);
    stashes += stash;
  }
  EXPECT_EQ(stashes, total(whole.pieces.stash));
  EXPECT_EQ(sliced[SlotKind::weights], whole[SlotKind::weights]);
  EXPECT_EQ(sliced[SlotKind::output] * 2, whole[SlotKind::output]);
  EXPECT_EQ(whole[SlotKind::context_gradient], 0);
  // Two layers of attention: keys and values of 2 samples of 12 tokens.
  EXPECT_EQ(sliced[SlotKind::context_gradient], 2 * 2 * 2 * 12 * model.width * 4);
}

}  // namespace
}  // namespace tandem::testing

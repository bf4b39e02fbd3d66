#include "executor/profile/profile.h"

#include <gtest/gtest.h>

#include "executor/train.h"

namespace tandem {
namespace {

ProfileRequest tiny() {
  ProfileRequest request;
  request.model = {.name = "tiny",
                   .architecture = Architecture::gpt2,
                   .blocks = 1,
                   .width = 4,
                   .heads = 1,
                   .sequence = 2,
                   .vocabulary = 256,
                   .tied = true};
  request.microbatch_sizes = {1};
  request.busy_devices = 1;
  request.repetitions = 5;  // five visits
  return request;
}

TEST(MeasureProfile, RepeatsWhatOthersDisturbed) {
  ProfileRequest request = tiny();
  int visits = 0, passes = 0;
  request.disturbed = [&] { return ++visits == 2; };
  request.on_progress = [&](std::int32_t done, std::int32_t all) {
    passes = done;
    EXPECT_EQ(all, 5);
  };
  const Profile profile = measure_profile(request, *make_cpu_trainer());
  EXPECT_EQ(visits, 6);
  EXPECT_EQ(passes, 5);
  EXPECT_FALSE(profile.layers.empty());
}

TEST(MeasureProfile, EndsOnAMachineThatIsNeverQuiet) {
  ProfileRequest request = tiny();
  int visits = 0;
  request.disturbed = [&] { return ++visits > 0; };
  EXPECT_FALSE(measure_profile(request, *make_cpu_trainer()).layers.empty());
  EXPECT_EQ(visits, 10);
}

}  // namespace
}  // namespace tandem

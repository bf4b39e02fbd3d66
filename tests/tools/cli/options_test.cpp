// What every command has in common in how it reads its options.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class OptionsOfCommands : public CommandLine {};

TEST_F(OptionsOfCommands, AValueMayStandBehindAnEqualSign) {
  EXPECT_EQ(tandem("simulate --schedule=1f1b --devices=4 --microbatches=8 --forward=1ms "
                   "--backward=2ms")
                .out,
            tandem(kGolden).out);
}

TEST_F(OptionsOfCommands, AValueThatIsMissingIsNotTheNextOption) {
  EXPECT_EQ(tandem(kGolden + " --trace --picture").code, 2);
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(OptionsOfCommands, ABackendThatIsAbsentIsTheEnvironment) {
  write_plan();
  write("model.json", kModel);
  if (json_of("doctor --json")["result"]["backend_cuda"] != "yes") {
    for (const char* command : {"train plan.json --steps 1 --backend cuda",
                                "profile --model model.json --output p.json --backend cuda"}) {
      const Ran ran = tandem(command);
      EXPECT_EQ(ran.code, 5) << command;
      EXPECT_THAT(ran.err, HasSubstr("backend cuda")) << command;
    }
  }
}

TEST_F(OptionsOfCommands, BytesThatATerminalObeysAreNotPrinted) {
  const Ran ran = tandem({"schedule", "\033]0;x\007\377", "--devices", "1", "--json"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("\\u001b]0;x\\u0007\\xff"));
  EXPECT_EQ(Json::parse(ran.out)["error"]["code"], 2);
}

}  // namespace
}  // namespace tandem::testing

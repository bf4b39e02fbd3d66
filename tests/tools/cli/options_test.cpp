// What every command has in common in how it reads its options.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class OptionsOfCommands : public CommandLine {};

TEST_F(OptionsOfCommands, UnknownOnesGetASuggestion) {
  expect_error(kGolden + " --bathces 3", 2,
               "error: tandem simulate: unknown option --bathces; did you mean \"--batches\"?");
  expect_error("train plan.json --xyzzy", 2, "error: tandem train: unknown option --xyzzy");
  expect_error(kGolden + " --batch 3", 2,
               "error: tandem simulate: unknown option --batch; did you mean \"--batches\"?");
  const Ran ran = tandem(kGolden + " -q");
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err,
            "error: tandem simulate: unrecognised option '-q' (tandem simulate --help "
            "shows the options)\n");
}

TEST_F(OptionsOfCommands, RepeatedOnesAreRefused) {
  expect_error(kGolden + " --batches 2 --batches 3", 2,
               "error: tandem simulate: option '--batches' cannot be specified more than once "
               "(tandem simulate --help shows the options)");
}

TEST_F(OptionsOfCommands, AValueMayStandBehindAnEqualSign) {
  EXPECT_EQ(tandem("simulate --schedule=1f1b --devices=4 --microbatches=8 --forward=1ms "
                   "--backward=2ms")
                .out,
            tandem(kGolden).out);
}

TEST_F(OptionsOfCommands, AValueThatIsMissingIsNotTheNextOption) {
  expect_error(kGolden + " --batches", 2,
               "error: tandem simulate: --batches: expected N, found nothing");
  expect_error(kGolden + " --trace --picture", 2,
               "error: tandem simulate: --trace: expected FILE, found nothing");
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(OptionsOfCommands, EmptyValuesAreRefused) {
  const std::string refusal = "error: tandem train: --data: expected FILE, found \"\"";
  expect_error(tandem({"train", "plan.json", "--data", "", "--steps", "1"}), 2, refusal, "apart");
  expect_error("train plan.json --data= --steps 1", 2, refusal);
  for (const std::string command : {"check", "train"}) {
    const Ran ran = tandem({command, ""});
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, StartsWith("error: tandem " + command + ": expected PLAN, found \"\""));
  }
}

TEST_F(OptionsOfCommands, IntegersAreWholeAndInRange) {
  for (const std::string value : {"0", "-5", "-", "1e3", "3.0", "0x10", " 3", "3 ", "+3", "nan",
                                  "999999999999999999999", "１", "--5"}) {
    const Ran ran = tandem({"simulate", "--schedule", "1f1b", "--devices", "2", "--microbatches",
                            "2", "--forward", "1ms", "--backward", "1ms", "--batches=" + value});
    EXPECT_EQ(ran.code, 2);
    EXPECT_EQ(ran.err,
              "error: tandem simulate: --batches: expected an integer from 1 to 1000000000000, "
              "found \"" +
                  value + "\"\n");
  }
}

TEST_F(OptionsOfCommands, NumbersAreFiniteAndInRange) {
  write_plan();
  for (const std::string value : {"nan", "inf", "-inf", "-1", "1e400", "1,5", "x", "1e7"}) {
    expect_error("train plan.json --steps 1 --learning-rate " + value, 2,
                 "error: tandem train: --learning-rate: expected a number from 0 to 1000000, found "
                 "\"" +
                     value + "\"");
  }
}

TEST_F(OptionsOfCommands, ChoicesAreListed) {
  expect_error(kGolden + " --lanes Ideal", 2,
               "error: tandem simulate: --lanes: expected shared|ideal, found \"Ideal\"; did you "
               "mean \"ideal\"?");
  expect_error(kGolden + " --costs-per microbatch", 2,
               "error: tandem simulate: --costs-per: expected stage|device, found "
               "\"microbatch\"");
}

TEST_F(OptionsOfCommands, SurplusAndMissingWordsAreNamed) {
  expect_error("train", 2,
               "error: tandem train: PLAN is missing (usage: tandem train PLAN [options])");
  expect_error("check a b", 2,
               "error: tandem check: unexpected \"b\" (usage: tandem check PLAN | --model NAME "
               "--cluster NAME --schedule NAME [options])");
  expect_error("compare a", 2,
               "error: tandem compare: SIMULATED and MEASURED is missing (usage: tandem compare "
               "SIMULATED MEASURED [options])");
  expect_error("trace chekc x.json", 2,
               "error: tandem trace: unknown action \"chekc\"; did you mean \"check\"?");
}

TEST_F(OptionsOfCommands, OptionsOfTheContractAreNotUnknown) {
  for (const std::string option : {"checkpoint d", "every 5", "resume"}) {
    expect_error(
        "train plan.json --" + option, 2,
        "error: tandem train: --" + option.substr(0, option.find(' ')) + " is not in this version");
  }
  for (const std::string transport : {"tcp", "mpi"}) {
    expect_error("train plan.json --transport " + transport, 2,
                 "error: tandem train: --transport " + transport + " is not in this version");
  }
  for (const std::string wrong :
       {"--transport peer", "--transport nccl", "--backend cuda --transport threads"}) {
    expect_error(
        "train plan.json " + wrong, 2,
        "error: tandem train: --transport threads is for --backend cpu, peer|nccl for cuda");
  }
  expect_error("train plan.json --backend cuda --verify", 2,
               "error: tandem train: --verify compares bits, and a GPU rounds otherwise");
  expect_error("train plan.json --storage bf16", 2,
               "error: tandem train: --storage bf16 is for --backend cuda");
  expect_error("train plan.json --backend cuda --storage bf16 --transport nccl", 2,
               "error: tandem train: --storage bf16 goes by --transport peer in this version");
  expect_error(
      "train plan.json --storage f16", 2,
      "error: tandem train: --storage: expected f32|bf16, found \"f16\"; did you mean \"bf16\"?");
  expect_error("train plan.json --transport http", 2,
               "error: tandem train: --transport: expected threads|tcp|mpi|peer|nccl, found "
               "\"http\"");
}

TEST_F(OptionsOfCommands, ABackendThatIsAbsentIsTheEnvironment) {
  write_plan();
  write("model.json", kModel);
  if (json_of("doctor --json")["result"]["backend_cuda"] != "yes") {
    for (const char* command : {"train plan.json --steps 1 --backend cuda",
                                "profile --model model.json --output p.json --backend cuda"}) {
      const Ran ran = tandem(command);
      EXPECT_EQ(ran.code, 5) << command;
      EXPECT_THAT(ran.err, HasSubstr("error: backend cuda: ")) << command;
    }
  }
}

TEST_F(OptionsOfCommands, BytesThatATerminalObeysAreNotPrinted) {
  const Ran ran = tandem({"schedule", "\033]0;x\007\377", "--devices", "1", "--json"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, StartsWith("error: unknown schedule \"\\u001b]0;x\\u0007\\xff\""));
  EXPECT_EQ(Json::parse(ran.out)["error"]["code"], 2);
}

}  // namespace
}  // namespace tandem::testing

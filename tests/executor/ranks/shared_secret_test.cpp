#include "executor/ranks/shared_secret.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/run_command.h"

namespace tandem {
namespace {

const LookUp kNoVariables = [](const char*) { return std::optional<std::string>(); };

LookUp environment_with(std::string secret) {
  return [secret](const char* name) {
    return name == std::string("TANDEM_SECRET") ? std::optional(secret) : std::nullopt;
  };
}

class SharedSecret : public ::testing::Test {
 protected:
  std::string file(const std::string& text, unsigned mode) {
    const std::filesystem::path path = folder_.path() / "secret";
    std::ofstream(path, std::ios::binary) << text;
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
    return path.string();
  }
  static std::string refusal_of(const LookUp& look, const std::optional<std::string>& path = {}) {
    try {
      shared_secret(look, path);
    } catch (const InputError& error) {
      return error.what();
    }
    return "none";
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(SharedSecret, ComesFromTheEnvironmentOrAFile) {
  EXPECT_EQ(shared_secret(kNoVariables), std::nullopt);
  EXPECT_EQ(shared_secret(environment_with("")), std::nullopt);
  EXPECT_EQ(shared_secret(environment_with("sixteen letters.")), "sixteen letters.");
  // The one that is named counts.
  EXPECT_EQ(shared_secret(environment_with("sixteen letters."), file("another of sixteen\n", 0600)),
            "another of sixteen");
  EXPECT_EQ(shared_secret(kNoVariables, file("another of sixteen", 0400)), "another of sixteen");
}

TEST_F(SharedSecret, OneThatOthersMayReadIsRefused) {
  for (const unsigned mode : {0640U, 0604U, 0620U, 0666U}) {
    const std::string path = file("sixteen letters.", mode);
    EXPECT_EQ(refusal_of(kNoVariables, path),
              path + ": holds a secret that others may read (mode " + std::to_string(mode / 64) +
                  std::to_string(mode / 8 % 8) + std::to_string(mode % 8) +
                  "): chmod 600 makes it yours");
  }
}

TEST_F(SharedSecret, ShortOnesAreRefusedAndNotShown) {
  EXPECT_EQ(refusal_of(environment_with("fifteen letters")),
            "TANDEM_SECRET: expected a secret of at least 16 characters, found 15");
  const std::string path = file("fifteen letters\n\n", 0600);
  EXPECT_EQ(refusal_of(kNoVariables, path),
            path + ": expected a secret of at least 16 characters, found 15");
  EXPECT_THAT(refusal_of(kNoVariables, file("", 0600)), ::testing::HasSubstr("found 0"));
  EXPECT_THAT(refusal_of(environment_with("sixteen letters.\nand more")),
              ::testing::HasSubstr("in one line"));
}

TEST_F(SharedSecret, AFileThatIsNoneIsRefused) {
  EXPECT_THAT(refusal_of(kNoVariables, "/nowhere/secret"),
              ::testing::HasSubstr("/nowhere/secret: cannot open: No such file"));
  EXPECT_THAT(refusal_of(kNoVariables, "/dev"), ::testing::HasSubstr("/dev: is no file"));
  EXPECT_THAT(refusal_of(kNoVariables, file(std::string(5000, 'x'), 0600)),
              ::testing::HasSubstr("holds more than 4096 bytes"));
}

TEST_F(SharedSecret, RandomOnesDiffer) {
  const std::string one = random_secret();
  EXPECT_EQ(one.size(), 64U);
  EXPECT_NE(one, random_secret());
  EXPECT_EQ(shared_secret(environment_with(one)), one);
}

}  // namespace
}  // namespace tandem

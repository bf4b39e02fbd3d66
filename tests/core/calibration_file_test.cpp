// calibration.json: read, written, and refused with its place.

#include "core/io/calibration_file.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

CalibrationFile example() {
  CalibrationFile file{.device = "card",
                       .format = NumberFormat::bf16,
                       .attention = AttentionKernel::flash,
                       .constants = {}};
  double value = 0.01;
  for (const CalibrationConstant& one : kCalibrationConstants)
    file.constants.*one.member = value += 0.01;
  return file;
}

std::string error(const std::string& text) {
  try {
    parse_calibration("c.json", text);
  } catch (const InputError& thrown) {
    return thrown.what();
  }
  return "nothing";
}

std::string with(const std::string& part, const std::string& instead) {
  std::string text = calibration_text(example());
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.replace(at, part.size(), instead);
}

TEST(CalibrationFile, ReadsBackWhatItWrites) {
  EXPECT_EQ(parse_calibration("c.json", calibration_text(example())), example());
}

TEST(CalibrationFile, EveryConstantIsAskedForAndBounded) {
  for (const CalibrationConstant& one : kCalibrationConstants) {
    CalibrationFile low = example(), high = example();
    low.constants.*one.member = one.least / 2;
    high.constants.*one.member = one.most * 2;
    const std::string place = "/constants/" + std::string(one.key);
    EXPECT_THAT(error(calibration_text(low)), HasSubstr(place));
    EXPECT_THAT(error(calibration_text(high)), HasSubstr(place));
    const std::string key = "\"" + std::string(one.key) + "\"";
    EXPECT_THAT(error(with(key, "\"x-else\"")), HasSubstr(std::string(one.key)));
  }
}

TEST(CalibrationFile, UnknownKindsAreRefused) {
  EXPECT_THAT(error(with("\"bf16\"", "\"fp8\"")), HasSubstr("/dtype: "));
  EXPECT_THAT(error(with("\"flash\"", "\"fast\"")), HasSubstr("/attention: "));
  EXPECT_THAT(error(with("\"version\": 1", "\"version\": 2")), HasSubstr("/version: "));
}

}  // namespace
}  // namespace tandem

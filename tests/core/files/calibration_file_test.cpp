// calibration.json: read, written, and refused with its place.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/files/constants_files.h"
#include "tests/core/error_of.h"
#include "tests/support/edited_text.h"

namespace tandem {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::with;

CalibrationFile example() {
  CalibrationFile file{.device = "card",
                       .format = NumberFormat::bf16,
                       .attention = AttentionKernel::flash,
                       .constants = {}};
  double value = 0.01;
  for (const CalibrationConstant& one : kCalibrationConstants)
    file.constants.*one.member = value += 0.01;
  std::int64_t least = 1;
  file.fitted.emplace();
  for (const FittedRangeRow& row : kFittedRangeRows) {
    (*file.fitted).*row.member = {least, 8 * least};
    ++least;
  }
  return file;
}

std::string calibration_error(const std::string& text) {
  return error_of([&text] { parse_calibration("c.json", text); });
}

std::string calibration_edited(const std::string& part, const std::string& instead) {
  return with(calibration_text(example()), part, instead);
}

TEST(CalibrationFile, ReadsBackWhatItWrites) {
  EXPECT_EQ(parse_calibration("c.json", calibration_text(example())), example());
}

TEST(CalibrationFile, MayNotSayWhatItWasFittedTo) {
  CalibrationFile file = example();
  file.fitted.reset();
  EXPECT_EQ(parse_calibration("c.json", calibration_text(file)), file);
}

TEST(CalibrationFile, WhatItMayLeaveOutReadsBackAsLeftOut) {
  CalibrationFile file = example();
  file.constants.protocol_s = 0.0;
  file.constants.low_latency_bytes_per_s = 0.0;
  EXPECT_EQ(parse_calibration("c.json", calibration_text(file)), file);
}

TEST(CalibrationFile, RangesGoFromTheLeastToTheMost) {
  CalibrationFile file = example();
  file.fitted->depth = {8, 2};
  EXPECT_THAT(calibration_error(calibration_text(file)), HasSubstr("/fitted/depth/1: "));
  file.fitted->depth = {0, 2};
  EXPECT_THAT(calibration_error(calibration_text(file)), HasSubstr("/fitted/depth/0: "));
}

TEST(CalibrationFile, EveryConstantIsAskedForAndBounded) {
  for (const CalibrationConstant& one : kCalibrationConstants) {
    CalibrationFile low = example(), high = example();
    low.constants.*one.member = one.least / 2;
    high.constants.*one.member = one.most * 2;
    const std::string place = "/constants/" + std::string(one.key);
    EXPECT_THAT(calibration_error(calibration_text(low)), HasSubstr(place));
    EXPECT_THAT(calibration_error(calibration_text(high)), HasSubstr(place));
    const std::string key = "\"" + std::string(one.key) + "\"";
    EXPECT_THAT(calibration_error(calibration_edited(key, "\"x-else\"")),
                HasSubstr(one.required ? std::string(one.key) : "nothing was thrown"));
  }
}

TEST(CalibrationFile, UnknownKindsAreRefused) {
  EXPECT_THAT(calibration_error(calibration_edited("\"bf16\"", "\"fp4\"")), HasSubstr("/dtype: "));
  EXPECT_THAT(calibration_error(calibration_edited("\"flash\"", "\"fast\"")),
              HasSubstr("/attention: "));
  EXPECT_THAT(calibration_error(calibration_edited("\"version\": 1", "\"version\": 2")),
              HasSubstr("/version: "));
}

}  // namespace
}  // namespace tandem

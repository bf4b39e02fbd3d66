// Safetensors files: what is written is read, and what is not one is refused with its reason.

#include "executor/checkpoint/safetensors.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/text/files.h"
#include "tests/support/run_command.h"

namespace tandem {
namespace {

std::string here(const std::string& name) {
  static const testing::TemporaryFolder folder;
  return folder.path() / name;
}

/// A file of a header and so many bytes behind it.
std::string file_of(const std::string& header, std::size_t bytes) {
  const std::uint64_t length = header.size();
  std::string content(8, '\0');
  std::memcpy(content.data(), &length, 8);
  const std::string path = here("header.safetensors");
  write_file(path, content + header + std::string(bytes, 'x'));
  return path;
}

std::string fault_in(const std::string& path) {
  try {
    const SafetensorsFile file(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(Safetensors, ReadWhatWasWritten) {
  const std::vector<StoredTensor> tensors = {{"b", "F32", {2, 3}, 0, 24},
                                             {"nothing", "F32", {0, 5}, 24, 24},
                                             {"a", "BF16", {2}, 24, 28},
                                             {"number", "F16", {}, 28, 30}};
  std::string bytes(30, '\0');
  const std::vector<float> numbers = {1.5F, -2, 0, 1e-30F, 3e38F, -0.0F};
  std::memcpy(bytes.data(), numbers.data(), 24);
  const std::vector<std::uint16_t> narrow = {0x3F80, 0xC020, 0x3C01};  // 1, -2.5; 1 + 2^-10
  std::memcpy(bytes.data() + 24, narrow.data(), 6);
  const std::string head = safetensors_head(tensors);
  EXPECT_EQ(head.size() % 8, 0U);
  write_file(here("t.safetensors"), head + bytes);

  const SafetensorsFile file(here("t.safetensors"));
  ASSERT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(file.head(), head);
  EXPECT_EQ(file.find("c"), nullptr);
  std::vector<float> read(6);
  file.read(*file.find("b"), 0, read);
  EXPECT_EQ(read, numbers);
  read.resize(2);
  file.read(*file.find("b"), 3, read);
  EXPECT_EQ(read, (std::vector<float>{1e-30F, 3e38F}));
  file.read(*file.find("a"), 0, read);
  EXPECT_EQ(read, (std::vector<float>{1, -2.5F}));
  read.resize(1);
  file.read(*file.find("number"), 0, read);
  EXPECT_EQ(read, (std::vector<float>{1.0F + 0x1p-10F}));
}

/// The value of a half, from its parts.
float value_of_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return sign * std::numeric_limits<float>::infinity();
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                   : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return sign * size;
}

TEST(Safetensors, WidenEveryHalfExactly) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool is_nan = (half & 0x7C00) == 0x7C00 && (half & 0x3FF) != 0;
    if (is_nan) {
      EXPECT_TRUE(std::isnan(float_of_half(half))) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(float_of_half(half)),
                std::bit_cast<std::uint32_t>(value_of_half(half)))
          << bits;
    }
  }
}

TEST(Safetensors, RefuseWhatIsNone) {
  const auto entry = [](const std::string& inside) {
    return fmt::format(R"({{"w": {{{}}}}})", inside);
  };
  const std::string sound = entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])");
  EXPECT_EQ(fault_in(file_of(sound, 8)), "none");
  EXPECT_EQ(fault_in(file_of("{}", 0)), "none");

  using ::testing::HasSubstr;
  const auto against = [&](const std::string& inside, std::size_t bytes = 8) {
    return fault_in(file_of(entry(inside), bytes));
  };
  EXPECT_THAT(fault_in(file_of(sound, 9)), HasSubstr("1 bytes belong to no tensor"));
  EXPECT_THAT(fault_in(file_of(sound, 7)), HasSubstr("ends at 8, but the file has 7"));
  EXPECT_THAT(against(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), HasSubstr("gap"));
  EXPECT_THAT(against(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"), HasSubstr("-8"));
  EXPECT_THAT(against(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), HasSubstr("-2"));
  EXPECT_THAT(against(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
              HasSubstr("8 bytes are not the size"));
  EXPECT_THAT(against(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"),
              HasSubstr("\"F31\", which is not known"));
  EXPECT_THAT(against(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,16])"),
              HasSubstr("two offsets"));
  EXPECT_THAT(
      against(R"("dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8])"),
      HasSubstr("not the size"));
  EXPECT_THAT(against(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615])"),
              HasSubstr("18446744073709551615"));
  EXPECT_THAT(fault_in(file_of(R"({"a": {"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                                 "b": {"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                               12)),
              HasSubstr("within another one"));
  EXPECT_THAT(fault_in(file_of(R"({"a": {"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                                 "a": {"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                               16)),
              HasSubstr("duplicate key"));
  EXPECT_THAT(fault_in(file_of("[]", 0)), HasSubstr("object"));
  EXPECT_THAT(fault_in(file_of("{", 0)), HasSubstr("header"));

  write_file(here("short"), "1234567");
  EXPECT_THAT(fault_in(here("short")), HasSubstr("not a safetensors file"));
  write_file(here("long"), std::string(8, '\xFF') + "{}");
  EXPECT_THAT(fault_in(here("long")), HasSubstr("not a safetensors file"));
  write_file(here("empty"), "");
  EXPECT_THAT(fault_in(here("empty")), HasSubstr("not a safetensors file"));
  EXPECT_THAT(fault_in(here("absent")), HasSubstr("No such file"));
}

}  // namespace
}  // namespace tandem

#include "executor/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/text/json_reader.h"

namespace tandem {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 14> kElementTypes = {{
    {"F64", 8},
    {"F32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"I64", 8},
    {"I32", 4},
    {"I16", 2},
    {"I8", 1},
    {"U64", 8},
    {"U32", 4},
    {"U8", 1},
    {"BOOL", 1},
}};

[[noreturn]] void refuse_file(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("{}: {}", path, reason));
}

/// The product; nothing where it leaves int64.
std::optional<std::int64_t> elements_of(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  }
  return product;
}

StoredTensor read_entry(const std::string& name, const JsonReader& entry) {
  StoredTensor tensor{.name = name, .type = {}, .shape = {}};
  if (!entry.object({"dtype", "shape", "data_offsets"})) return tensor;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  tensor.type = entry["dtype"].line();
  for (const JsonReader& extent : entry["shape"].array())
    tensor.shape.push_back(extent.integer(0, kMost));
  const std::vector<JsonReader> offsets = entry["data_offsets"].array();
  if (offsets.size() == 2) {
    tensor.begin = static_cast<std::uint64_t>(offsets[0].integer(0, kMost));
    tensor.end = static_cast<std::uint64_t>(offsets[1].integer(0, kMost));
  } else {
    entry["data_offsets"].diagnose("expected two offsets: where the tensor begins and ends");
  }
  return tensor;
}

std::vector<StoredTensor> read_header(const std::string& path, std::string text) {
  JsonFile file(fmt::format("{} (header)", path), std::move(text));
  std::vector<StoredTensor> tensors;
  const JsonReader root = file.root();
  if (root.any_object()) {
    for (const auto& [name, entry] : root.members()) {
      if (name != kMetadata) tensors.push_back(read_entry(name, entry));
    }
  }
  file.finish();
  return tensors;
}

/// What is wrong with a tensor that follows on those up to `reached`; empty: nothing.
std::string fault_of(const StoredTensor& tensor, std::uint64_t reached, std::uint64_t held) {
  const std::uint64_t each = element_bytes(tensor.type);
  if (each == 0) return fmt::format("has the type \"{}\", which is not known", tensor.type);
  if (tensor.begin < reached) return fmt::format("begins at {}, within another one", tensor.begin);
  if (tensor.begin > reached)
    return fmt::format("begins at {}, behind a gap of {} bytes", tensor.begin,
                       tensor.begin - reached);
  if (tensor.end < tensor.begin || tensor.end > held)
    return fmt::format("ends at {}, but the file has {} bytes of tensors", tensor.end, held);
  const std::optional<std::int64_t> elements = elements_of(tensor.shape);
  const std::uint64_t bytes = tensor.end - tensor.begin;
  if (!elements || bytes % each != 0 || static_cast<std::uint64_t>(*elements) != bytes / each) {
    return fmt::format("is {} of shape {}, for which {} bytes are not the size", tensor.type,
                       shape_text(tensor.shape), bytes);
  }
  return {};
}

}  // namespace

std::int64_t StoredTensor::size() const { return *elements_of(shape); }

std::uint64_t element_bytes(std::string_view type) {
  const auto found =
      std::ranges::find(kElementTypes, type, [](const auto& row) { return row.first; });
  return found == kElementTypes.end() ? 0 : found->second;
}

bool is_float_type(std::string_view type) {
  return type == "F32" || type == "BF16" || type == "F16";
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string safetensors_head(std::span<const StoredTensor> tensors) {
  // Other programs look for who wrote the tensors: "pt" is what they take.
  nlohmann::ordered_json header = {{kMetadata, {{"format", "pt"}}}};
  for (const StoredTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string head(kLengthBytes, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  return head + text;
}

std::string_view safetensors_head_of(std::string_view bytes) {
  std::uint64_t length = 0;
  if (bytes.size() < kLengthBytes) return {};
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kLongestHeader || length > bytes.size() - kLengthBytes) return {};
  return bytes.substr(0, kLengthBytes + static_cast<std::size_t>(length));
}

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)), file_(path_) {
  const std::string_view all = file_.bytes(), head = safetensors_head_of(all);
  if (head.empty()) {
    refuse_file(path_, fmt::format("not a safetensors file: its {} bytes do not begin with the "
                                   "length of a header and the header, of at most {} bytes",
                                   all.size(), kLongestHeader));
  }
  head_bytes_ = head.size();
  tensors_ = read_header(path_, std::string(head.substr(kLengthBytes)));
  // Tensors without elements lie before what begins where they do.
  std::ranges::sort(tensors_, [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const std::uint64_t held = all.size() - head_bytes_;
  std::uint64_t reached = 0;
  for (const StoredTensor& tensor : tensors_) {
    const std::string fault = fault_of(tensor, reached, held);
    if (!fault.empty()) refuse_file(path_, fmt::format("tensor \"{}\" {}", tensor.name, fault));
    reached = tensor.end;
  }
  if (reached != held)
    refuse_file(path_, fmt::format("{} bytes belong to no tensor", held - reached));
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::ranges::sort(by_name_, {},
                    [this](std::size_t i) -> const std::string& { return tensors_[i].name; });
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto name_of = [this](std::size_t i) { return std::string_view(tensors_[i].name); };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return found == by_name_.end() || name_of(*found) != name ? nullptr : &tensors_[*found];
}

std::string_view SafetensorsFile::bytes(const StoredTensor& tensor) const {
  return file_.bytes().substr(head_bytes_ + tensor.begin, tensor.end - tensor.begin);
}

float float_of_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U, exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {  // zeros and subnormal numbers: mantissa · 2⁻²⁴
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -value : value;
  }
  const std::uint32_t wide = exponent == 0x1F ? 0xFF : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23U) | (mantissa << 13U));
}

void SafetensorsFile::read(const StoredTensor& tensor, std::int64_t first,
                           std::span<float> values) const {
  TANDEM_CHECK(is_float_type(tensor.type), tensor.name);
  const auto each = static_cast<std::size_t>(element_bytes(tensor.type));
  const std::string_view all = bytes(tensor);
  const std::size_t from = static_cast<std::size_t>(first) * each;
  TANDEM_CHECK(first >= 0 && from <= all.size() && values.size() <= (all.size() - from) / each,
               first, values.size(), all.size());
  const char* at = all.data() + from;
  if (tensor.type == "F32") {
    if (!values.empty()) std::memcpy(values.data(), at, values.size_bytes());
    return;
  }
  const bool half = tensor.type == "F16";
  for (float& value : values) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    at += sizeof bits;
    value =
        half ? float_of_half(bits) : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
}

}  // namespace tandem

#pragma once
// EventFile: scalars for TensorBoard. A file of TensorFlow's records, each behind its length and
// with checksums of both (CRC-32C, masked: rotated right by 15 and 0xa282ead8 added), of messages
// of the protocol buffers tensorflow.Event: wall_time, step, summary of tags and values.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/text/output_place.h"

namespace tandem::tools {

/// Castagnoli's polynomial, as of RFC 3720.
std::uint32_t crc32c(std::string_view bytes);

struct Scalar {
  std::string_view tag;
  double value = 0.0;
};

class EventFile {
 public:
  /// A new file in `folder`, which is made where it is not there. Throws DeviceError, as write()
  /// does.
  explicit EventFile(const std::string& folder);

  /// The scalars of a step, which reach the file whole. `wall_time`: seconds since 1970.
  void write(double wall_time, std::int64_t step, std::span<const Scalar> scalars);

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  GrowingFile file_;
};

}  // namespace tandem::tools

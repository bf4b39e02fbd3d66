#pragma once
// Safetensors, Hugging Face's file of named tensors: 8 bytes, little-endian, the length of a
// header; the header, a JSON object of each tensor's type, shape and place; the tensors' bytes
// without gaps (https://github.com/huggingface/safetensors, "Format"). Files of others are hostile:
// nothing outside the file is read, and no more memory is taken than the header needs.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/mapped_file.h"

namespace tandem {

/// A tensor of a file: as its header says.
struct StoredTensor {
  std::string name;
  std::string type;  // "F32", "BF16", "F16", …
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // among the tensors' bytes

  std::int64_t size() const;  // elements
};

/// Bytes of an element; 0: the type is not known.
std::uint64_t element_bytes(std::string_view type);

/// "[768, 2304]".
std::string shape_text(std::span<const std::int64_t> shape);

/// Of tensors that lie one after another from 0 on, in this order: the length and the header, so
/// that the tensors' bytes begin at a multiple of 8.
std::string safetensors_head(std::span<const StoredTensor> tensors);

/// The length and the header that a file's bytes begin with; empty: they do not.
std::string_view safetensors_head_of(std::string_view bytes);

/// A file that is open. Immutable: may be shared by threads.
class SafetensorsFile {
 public:
  /// Throws InputError, naming the path and what is wrong with it: a header that is longer than the
  /// file or than 100 MB, is no JSON or says other things than a header does; types that are not
  /// known; sizes that are not those of the shapes; tensors that overlap, leave gaps or lie outside
  /// the file.
  explicit SafetensorsFile(std::string path);

  const std::string& path() const { return path_; }
  /// In the order of their places.
  std::span<const StoredTensor> tensors() const { return tensors_; }
  /// Null: there is none.
  const StoredTensor* find(std::string_view name) const;
  /// The length and the header.
  std::string_view head() const { return file_.bytes().substr(0, head_bytes_); }
  std::string_view bytes(const StoredTensor& tensor) const;
  /// The elements from `first` on as floats, exactly. REQUIRES: the tensor is of this file; its
  /// type is F32, BF16 or F16 (checked).
  void read(const StoredTensor& tensor, std::int64_t first, std::span<float> values) const;

 private:
  std::string path_;
  MappedFile file_;
  std::size_t head_bytes_ = 0;
  std::vector<StoredTensor> tensors_;
  std::vector<std::size_t> by_name_;  // places in tensors_
};

/// Whether read() takes it.
bool is_float_type(std::string_view type);

/// The value of the bits of an IEEE half.
float float_of_half(std::uint16_t bits);

}  // namespace tandem

#pragma once
// The names and the layout that Hugging Face's library gives a model's tensors: files hold those,
// runs hold ours.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "executor/layers/layer.h"

namespace tandem {

/// A tensor of a file, which holds some columns of one of ours, (rows × columns), or all of it.
struct NamedPart {
  std::string name;
  std::vector<std::int64_t> shape;                                       // in the file
  std::int64_t first_column = 0, columns = 1, rows = 1, row_length = 1;  // of ours
  bool transposed = false;  // the file has its columns as rows

  std::int64_t size() const { return rows * columns; }
};

/// Those that hold a tensor; none of a head's table that is tied to the embedding's: files have
/// that alone. GPT-2's matrices lie in files as they do here, inputs as rows (its Conv1D); Llama's
/// and Qwen's turned, and queries, keys and values, gate and up are tensors of their own. Models
/// that the library does not have, such as the linear one, keep our names.
std::vector<NamedPart> named_parts(const ModelSpec& model, const Tensor& tensor);

/// Whether the tensor is a copy of the token embedding.
bool is_tied_copy(const ModelSpec& model, const Tensor& tensor);

/// Copies the part out of a whole tensor, and into one. REQUIRES: spans are as long as part and
/// tensor are (checked).
void take_part(const NamedPart& part, std::span<const float> whole, std::span<float> taken);
void put_part(const NamedPart& part, std::span<const float> taken, std::span<float> whole);

/// All tensors of a model, in its order, each with the layer that it is of.
struct LayerTensor {
  std::int32_t layer = 0;
  Tensor tensor;
};
std::vector<LayerTensor> tensors_of(const ModelSpec& model);

}  // namespace tandem

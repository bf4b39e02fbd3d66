#pragma once
// What profile.json says besides the costs of read.h: layers at several tensor degrees (FORMATS.md
// here), of which those of read.h are degree 1; and of GPUs by which algorithm the library computes
// each product of matrices. Training by the profile takes the same, so it gives the same bits.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/model/model.h"
#include "core/model/tensor_degrees.h"

namespace tandem {

struct ProductAlgorithm {
  std::string product = {};    // shape, types, epilogue and alignments
  std::string library = {};    // such as "cublasLt 130002": others may refuse the algorithm
  std::string algorithm = {};  // what the library is given, in hexadecimal
  Duration time{};             // of the product
  Duration first_time{};       // by the algorithm that the library names first
  std::int32_t measured = 1;   // algorithms, of which this was the fastest
  friend bool operator==(const ProductAlgorithm&, const ProductAlgorithm&) = default;
};

/// Of a profile.json; none where it has none. Throws InputError.
std::vector<ProductAlgorithm> read_product_algorithms(const std::string& path);
std::vector<ProductAlgorithm> parse_product_algorithms(const std::string& file, std::string text);

/// profile.json, with them.
nlohmann::ordered_json profile_json(const Profile& profile,
                                    const std::vector<ProductAlgorithm>& algorithms = {});
std::string profile_text(const Profile& profile,
                         const std::vector<ProductAlgorithm>& algorithms = {});

/// Of any transformer, also of one that is priced and not trained; at least one degree.
TensorProfiles read_tensor_profiles(const std::string& path);
/// Throws InputError with every diagnostic found; `file` is for messages.
TensorProfiles parse_tensor_profiles(const std::string& file, std::string text);

}  // namespace tandem

#pragma once
// What somebody means who does not type a name as the catalogue has it.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Ends the messages about names that the catalogue has not.
inline constexpr std::string_view kCatalogListHint = " (tandem catalog list shows all)";

struct KnownName {
  std::string name;
  std::string also = {};  // what the same may be called by beside: a node's devices
};

/// Places of the names that may be meant, of the closest kind that there are: the name itself; but
/// for case; but for what parts its words; names that begin so; names that have all these words, or
/// beginnings of them; the same with what they may be called by. Empty: none.
std::vector<std::size_t> meant_by(std::string_view typed, const std::vector<KnownName>& known);

/// The only one that is meant. Throws UsageError, which names those that may be, or the nearest:
/// "{where}the catalogue has no model gpt2-xxl; did you mean …".
std::size_t the_one_meant(std::string_view typed, const std::vector<KnownName>& known,
                          std::string_view where, std::string_view kind);

}  // namespace tandem

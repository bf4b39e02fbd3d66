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

/// Places of the names that may be meant, all of the closest kind that there are. Empty: none.
struct Meaning {
  enum Closeness {
    kSame,        // the name itself
    kSameCase,    // but for case
    kSameWords,   // but for what parts its words
    kBeginsWith,  // names that begin with these words
    kBeginsSo,    // names that begin so
    kHasWords,    // names that have all these words, or words that begin with them
    kIsCalledSo,  // the same with what they may be called by
    kNotAtAll
  };
  std::vector<std::size_t> places = {};
  Closeness closeness = kNotAtAll;
};
Meaning meant_by(std::string_view typed, const std::vector<KnownName>& known);

/// The names that are most like one that is none of them, three at the most, the likest first: of
/// its family ("llama", "p4d"), by how many of its words they have, a number's version apart (3 is
/// near to 3.1) and as large (13b is nearer to 7b than to 70b); else by letters, as did_you_mean()
/// has it. What is far behind the first is left out. Empty: none is like it.
std::vector<std::string> likest_names(std::string_view typed, const std::vector<KnownName>& known);

/// The only one that is meant. Throws UsageError, which names those that may be, or the likest:
/// "{where}the catalogue has no model gpt2-xxl; did you mean …".
std::size_t the_one_meant(std::string_view typed, const std::vector<KnownName>& known,
                          std::string_view where, std::string_view kind);

}  // namespace tandem

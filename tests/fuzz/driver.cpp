// The main() of a fuzzer where libFuzzer is not: each input of a folder as it is, then mutations of
// them by seed.
//
//   driver FOLDER RUNS SECONDS SEED
//
// Run i depends on the folder, the seed and i alone. The input under test is kept in a file, which
// stays after a crash.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestInput = std::size_t{1} << 20;

/// Pieces that parsers trip over.
constexpr std::array<std::string_view, 28> kPieces{"{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ",",
                                                   ":",
                                                   "\"",
                                                   "\\",
                                                   "\\u0000",
                                                   "\\ud800",
                                                   "//",
                                                   "/*",
                                                   "\n",
                                                   "null",
                                                   "-1",
                                                   "0",
                                                   "3.0",
                                                   "1e999",
                                                   "1e-999",
                                                   "2147483648",
                                                   "9223372036854775808",
                                                   "\"a\": 1,",
                                                   "\"x-a\": [{}],",
                                                   "ms",
                                                   "\xEF\xBB\xBF",
                                                   "\xFF",
                                                   "\xC3",
                                                   "|"};

class Mutator {
 public:
  Mutator(const std::vector<std::string>& inputs, std::uint64_t seed)
      : inputs_(inputs), random_(seed) {}

  std::string next() {
    std::string text = any_input();
    const std::size_t steps = 1 + below(4);
    for (std::size_t step = 0; step < steps; ++step) mutate(text);
    if (text.size() > kLargestInput) text.resize(kLargestInput);
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }
  const std::string& any_input() { return inputs_[below(inputs_.size())]; }

  std::string slice_of(const std::string& text) {
    const std::size_t first = below(text.size() + 1);
    return text.substr(first, below(text.size() - first + 1));
  }

  void nest(std::string& text) {
    constexpr std::array<std::string_view, 4> kOpen{"[", "{\"a\":", "/*", "\"\\"};
    const std::string_view open = kOpen[below(kOpen.size())];
    const std::size_t depth = std::size_t{1} << below(17);
    std::string nested;
    for (std::size_t i = 0; i < depth; ++i) nested += open;
    text.insert(below(text.size() + 1), nested);
  }

  void mutate(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.erase(at, below(text.size() - at + 1));
        break;
      case 4:
        text.insert(at, slice_of(std::string(text)));
        break;
      case 5:
        text = text.substr(0, at) + slice_of(any_input());
        break;
      case 6:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      default:
        nest(text);
    }
  }

  const std::vector<std::string>& inputs_;
  std::mt19937_64 random_;
};

/// In the order of their names: a folder's own order differs between machines.
std::vector<std::string> read_inputs(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

void try_input(const fs::path& kept, const std::string& text) {
  std::ofstream(kept, std::ios::binary) << text;
  // A copy of its exact size, so that a sanitizer sees one byte read too many.
  const std::vector<std::uint8_t> data(text.begin(), text.end());
  LLVMFuzzerTestOneInput(data.data(), data.size());
}

}  // namespace

int main(int count, char** arguments) {
  constexpr int kDecimal = 10;
  if (count != 5) {
    std::fputs("usage: FOLDER RUNS SECONDS SEED\n", stderr);
    return 2;
  }
  const std::vector<std::string> inputs = read_inputs(arguments[1]);
  const std::uint64_t runs = std::strtoull(arguments[2], nullptr, kDecimal);
  const std::chrono::seconds limit(std::strtoll(arguments[3], nullptr, kDecimal));
  const std::uint64_t seed = std::strtoull(arguments[4], nullptr, kDecimal);
  const fs::path kept = fs::path(arguments[0]).filename().string() + ".input";
  std::printf("%zu inputs, seed %ju; after a crash the culprit is in %s\n", inputs.size(),
              static_cast<std::uintmax_t>(seed), fs::absolute(kept).c_str());
  std::fflush(stdout);
  if (inputs.empty()) return 1;

  for (const std::string& input : inputs) try_input(kept, input);
  const auto start = std::chrono::steady_clock::now();
  Mutator mutator(inputs, seed);
  std::uint64_t run = 0;
  while (run < runs && std::chrono::steady_clock::now() - start < limit) {
    try_input(kept, mutator.next());
    ++run;
  }
  fs::remove(kept);
  std::printf("%ju mutations\n", static_cast<std::uintmax_t>(run));
  return 0;
}

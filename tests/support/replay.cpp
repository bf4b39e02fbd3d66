// The main() of a fuzzer where libFuzzer is not: runs each file of the named folder through it
// once.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: one folder of inputs\n", stderr);
    return 2;
  }
  int inputs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(arguments[1])) {
    if (entry.is_regular_file()) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
      std::printf("%s\n", entry.path().c_str());
      std::fflush(stdout);  // Before a crash, not after it.
      const std::vector<std::uint8_t> data(bytes.begin(), bytes.end());
      LLVMFuzzerTestOneInput(data.data(), data.size());
      ++inputs;
    }
  }
  std::printf("%d inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}

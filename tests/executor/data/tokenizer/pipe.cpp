// A tokenizer on a pipe, for fuzz_against_hugging_face.py: texts on stdin, each behind its length
// (uint32, little-endian), ids on stdout (int32), behind their count. A text that is refused: count
// −1. With --decode the input is ids (int32, behind their count), the output bytes.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "executor/data/tokenizer/tokenizer.h"

namespace {

bool read(void* to, std::size_t bytes) { return std::fread(to, 1, bytes, stdin) == bytes; }
void write(const void* from, std::size_t bytes) { std::fwrite(from, 1, bytes, stdout); }

void encode_all(const tandem::Tokenizer& tokenizer) {
  tandem::Tokenizer::Encoder encoder(tokenizer);
  std::vector<std::int32_t> ids;
  std::string text;
  for (std::uint32_t size = 0; read(&size, sizeof size);) {
    text.resize(size);
    if (!read(text.data(), size)) return;
    ids.clear();
    std::int32_t count = -1;
    try {
      encoder.encode(text, ids);
      count = static_cast<std::int32_t>(ids.size());
    } catch (const tandem::Error&) {
      ids.clear();
    }
    write(&count, sizeof count);
    write(ids.data(), ids.size() * sizeof ids[0]);
  }
}

void decode_all(const tandem::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  for (std::uint32_t count = 0; read(&count, sizeof count);) {
    ids.resize(count);
    if (!read(ids.data(), count * sizeof ids[0])) return;
    const std::string text = tokenizer.decode(ids);
    const auto size = static_cast<std::uint32_t>(text.size());
    write(&size, sizeof size);
    write(text.data(), text.size());
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  try {
    const auto tokenizer = tandem::Tokenizer::of_file(arguments[1]);
    const bool decodes = count > 2 && std::string_view(arguments[2]) == "--decode";
    (decodes ? decode_all : encode_all)(tokenizer);
  } catch (const tandem::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}

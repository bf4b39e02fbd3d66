#pragma once
// Packing: numbers and texts as bytes, between ranks of one build on machines of one kind.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/error.h"

namespace tandem {

class Packer {
 public:
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Packer& add(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Packer& add_text(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Packer& add_all(std::span<const T> values) {
    return add_text({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Throws DeviceError where bytes are missing.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}

  template <class T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    T value;
    std::memcpy(&value, cut(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view text() { return cut(get<std::uint64_t>()); }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  std::vector<T> all() {
    const std::string_view bytes = text();
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }
  bool empty() const { return left_.empty(); }

 private:
  std::string_view cut(std::uint64_t size) {
    if (size > left_.size()) throw DeviceError("a message between ranks is too short");
    const std::string_view bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return bytes;
  }
  std::string_view left_;
};

}  // namespace tandem

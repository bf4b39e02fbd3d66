#pragma once
// Pool: things that are costly to make, lent and taken back.

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tandem::cuda {

/// A part of memory that is one allocation, which is free when all its parts are.
struct Piece {
  std::shared_ptr<std::byte> memory;
  std::byte* get() const { return memory.get(); }
};

/// `count` pieces of `bytes` each of what `allocate(bytes of all)` gives, an owner.
template <class Allocate>
std::vector<Piece> cut(std::size_t bytes, std::size_t count, const Allocate& allocate) {
  std::vector<Piece> pieces;
  if (count == 0) return pieces;
  const std::shared_ptr<std::byte> whole = allocate(bytes * count);
  for (std::size_t i = 0; i < count; ++i) pieces.push_back({{whole, whole.get() + i * bytes}});
  return pieces;
}

/// What is lent comes back when its last holder lets go, on whatever thread.
template <class T>
class Pool {
 public:
  explicit Pool(std::function<T()> make)
      : kept_(std::make_shared<Kept>()), make_(std::move(make)) {}

  /// A further one to lend, made before it is asked for.
  void add(T item) {
    const std::lock_guard lock(kept_->mutex);
    kept_->free.push_back(std::make_unique<T>(std::move(item)));
  }

  std::shared_ptr<T> lend() {
    std::unique_ptr<T> item;
    {
      const std::lock_guard lock(kept_->mutex);
      if (!kept_->free.empty()) {
        item = std::move(kept_->free.back());
        kept_->free.pop_back();
      }
    }
    if (!item) item = std::make_unique<T>(make_());
    return {item.release(), [kept = kept_](T* returned) {
              const std::lock_guard lock(kept->mutex);
              kept->free.emplace_back(returned);
            }};
  }

 private:
  struct Kept {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> free;
  };
  std::shared_ptr<Kept> kept_;
  std::function<T()> make_;
};

}  // namespace tandem::cuda

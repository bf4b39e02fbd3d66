#pragma once
// Pool: things that are costly to make, lent and taken back.

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tandem::cuda {

/// What is lent comes back when its last holder lets go, on whatever thread.
template <class T>
class Pool {
 public:
  explicit Pool(std::function<T()> make)
      : kept_(std::make_shared<Kept>()), make_(std::move(make)) {}

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

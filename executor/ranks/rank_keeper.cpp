#include "executor/ranks/rank_keeper.h"

#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/packing.h"

namespace tandem {

namespace {

void pack(Packer& packer, const Tensor& tensor) {
  packer.add_text(tensor.name).add_all(std::span<const std::int64_t>(tensor.shape));
  packer.add(tensor.offset);
}
Tensor unpack_tensor(Unpacker& from) {
  Tensor tensor;
  tensor.name = from.text();
  tensor.shape = from.all<std::int64_t>();
  tensor.offset = from.get<std::int64_t>();
  return tensor;
}

constexpr auto kLook = std::chrono::milliseconds(50);

}  // namespace

RankKeeper::RankKeeper(RankRun& run, std::int64_t every, std::int64_t last)
    : run_(run), every_(every), last_(last) {
  run_.listen_for_state([this](std::int32_t /*from*/, MessageKind kind,
                               const std::string& message) { hear(kind, message); });
}
RankKeeper::~RankKeeper() { run_.listen_for_state({}); }

bool RankKeeper::wants(std::int64_t batches) {
  if (batches != last_ && (every_ == 0 || batches % every_ != 0)) return false;
  std::unique_lock lock(mutex_);
  if (batches > asked_) {
    asked_ = batches;
    run_.tell_first(MessageKind::wants, Packer().add(batches).take());
  }
  while (!answers_.contains(batches)) {
    if (run_.has_ended()) throw DeviceError("the run has failed");
    changed_.wait_for(lock, kLook);
  }
  return answers_.at(batches);
}

void RankKeeper::hear(MessageKind kind, const std::string& message) {
  if (kind != MessageKind::answer) return;
  Unpacker from(message);
  const auto batches = from.get<std::int64_t>();
  const std::lock_guard lock(mutex_);
  answers_[batches] = from.get<bool>();
  changed_.notify_all();
}

void RankKeeper::keep(const ShownPlane<float>& shown) {
  Packer packer;
  packer.add(shown.batches).add(shown.plane);
  pack(packer, shown.tensor);
  run_.tell_first_long(MessageKind::plane, packer.add_all(shown.values).take());
}

void RankKeeper::end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                           std::int64_t steps) {
  Packer packer;
  packer.add(batches).add(steps).add(tensors.size());
  for (const Tensor& tensor : tensors) pack(packer, tensor);
  run_.tell_first_long(MessageKind::stage_end, packer.take());
}

RankKeeperService::RankKeeperService(RankRun& run, StateKeeper<float>& keeper)
    : run_(run), keeper_(keeper), thread_([this](const std::stop_token& stop) { work(stop); }) {
  run_.listen_for_state([this](std::int32_t from, MessageKind kind, const std::string& message) {
    const std::lock_guard lock(mutex_);
    brought_.push_back({from, kind, message});
    changed_.notify_all();
  });
}
RankKeeperService::~RankKeeperService() { run_.listen_for_state({}); }

void RankKeeperService::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return brought_.empty() && !works_; });
}

void RankKeeperService::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !brought_.empty(); })) {
    const Brought next = std::move(brought_.front());
    brought_.pop_front();
    works_ = true;
    lock.unlock();
    try {
      serve(next.from, next.kind, next.message);
    } catch (const std::exception& error) {
      run_.fail(error.what());
    }
    lock.lock();
    works_ = false;
    changed_.notify_all();
  }
}

void RankKeeperService::serve(std::int32_t from, MessageKind kind, const std::string& message) {
  Unpacker of(message);
  const auto batches = of.get<std::int64_t>();
  if (kind == MessageKind::wants) {
    // It may wait for what others are about to bring.
    std::erase_if(asked_, [](const std::future<void>& answered) {
      return answered.wait_for(Duration{}) == std::future_status::ready;
    });
    asked_.push_back(std::async(std::launch::async, [this, from, batches] {
      try {
        const bool wanted = keeper_.wants(batches);
        run_.tell(from, MessageKind::answer, Packer().add(batches).add(wanted).take());
      } catch (const std::exception& error) {
        run_.fail(error.what());
      }
    }));
    return;
  }
  if (kind == MessageKind::plane) {
    const auto plane = of.get<Plane>();
    const Tensor tensor = unpack_tensor(of);
    const std::vector<float> values = of.all<float>();
    return keeper_.keep({batches, plane, tensor, values});
  }
  const auto steps = of.get<std::int64_t>();
  std::vector<Tensor> tensors(of.get<std::size_t>());
  for (Tensor& tensor : tensors) tensor = unpack_tensor(of);
  keeper_.end_stage(batches, tensors, steps);
}

}  // namespace tandem

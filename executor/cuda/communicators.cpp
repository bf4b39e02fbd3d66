#include "executor/cuda/communicators.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/packing.h"
#include "executor/backend/backend.h"

namespace tandem::cuda {
namespace {

/// Blocks of the kernel of a transfer: several lanes' may wait at once, and computation needs room.
constexpr int kBlocksOfTransfer = 4;
constexpr Duration kGrace = std::chrono::seconds(10);
constexpr Duration kBetweenLooks = std::chrono::microseconds(20);

/// Ends the process unless it is gone in time: an abort has been seen to hang.
class Alarm {
 public:
  explicit Alarm(const Notice& stuck)
      : thread_([this, &stuck](const std::stop_token& stop) { ring(stop, stuck); }) {}

 private:
  void ring(const std::stop_token& stop, const Notice& stuck) {
    std::unique_lock lock(mutex_);
    over_.wait_for(lock, stop, kGrace, [] { return false; });
    if (stop.stop_requested()) return;
    tell(stuck, "communicators of NCCL do not end, though they were aborted");
    std::_Exit(1);
  }

  std::mutex mutex_;
  std::condition_variable_any over_;
  std::jthread thread_;
};

std::uint64_t hash_of(const CommunicatorPlans& plans) {
  std::string text;
  for (const CommunicatorPlan& plan : plans.all()) {
    text += fmt::format("{}{}:", plan.name, plan.sums ? "+" : "");
    for (const DeviceId device : plan.devices) text += fmt::format(" {}", index(device));
    text += '\n';
  }
  return hash_of_text(text);
}

}  // namespace

Communicators::Communicators(Nccl& library, const CommunicatorPlans& plans, CommunicatorGpus& gpus,
                             CommunicatorsSetup setup)
    : library_(library), plans_(plans), gpus_(gpus), setup_(std::move(setup)) {
  for (std::size_t i = 0; i < setup_.devices; ++i) {
    if (is_here(id_at<DeviceId>(i))) here_.push_back(id_at<DeviceId>(i));
  }
  TANDEM_CHECK(!here_.empty());
  if (setup_.others != nullptr) setup_.others->agree("set of communicators", hash_of(plans));
  try {
    guarded([this] {
      make_root();
      for (std::size_t plan = 0; plan < plans_.all().size(); ++plan) split(plan);
      for (std::size_t plan = 0; plan < plans_.all().size(); ++plan) connect(plan);
    });
  } catch (...) {
    abort();
    throw;
  }
}

Communicators::~Communicators() {
  for (const auto& root : roots_) root->abort();
}

bool Communicators::is_here(DeviceId device) const {
  return setup_.others == nullptr || setup_.others->runs_here(device);
}

std::unique_ptr<Communicator> Communicators::make(CommunicatorPlace place) {
  return std::make_unique<Communicator>(
      library_, std::move(place),
      [this](const std::string& what, Duration waited) { wait(what, waited); });
}

NcclId Communicators::share_id() {
  NcclId id{};
  const bool is_first = setup_.others == nullptr || setup_.others->is_first();
  if (is_first) {
    if (const NcclResult status = library_.make_id(id); status != NcclResult::success)
      throw DeviceError(fmt::format("ncclGetUniqueId: {}", library_.describe(status)));
  }
  if (setup_.others == nullptr) return id;
  return Unpacker(setup_.others->broadcast(is_first ? Packer().add(id).take() : std::string()))
      .get<NcclId>();
}

void Communicators::make_root() {
  const NcclId id = share_id();
  std::vector<Communicator*> members;
  for (const DeviceId device : here_) {
    roots_.push_back(make({.name = "all devices",
                           .ranks = static_cast<int>(setup_.devices),
                           .rank = static_cast<int>(index(device))}));
    members.push_back(roots_.back().get());
  }
  Communicator::together(members, "ncclCommInitRankConfig", [&](Communicator& member) {
    gpus_.enter(id_at<DeviceId>(static_cast<std::size_t>(member.rank())));
    return member.issue_init(id);
  });
}

/// By all devices, those that are not in it too.
void Communicators::split(std::size_t plan) {
  const CommunicatorPlan& one = plans_.all()[plan];
  auto& ranks = made_.emplace_back(one.devices.size());
  for (const DeviceId device : members_here(plan)) {
    const std::size_t rank = one.rank_of(device);
    ranks[rank] = make({.name = one.name,
                        .ranks = static_cast<int>(ranks.size()),
                        .rank = static_cast<int>(rank),
                        .most_blocks = one.sums ? 0 : kBlocksOfTransfer});
  }
  std::vector<Communicator*> members;
  for (const auto& root : roots_) members.push_back(root.get());
  // A part of its number: devices that are at another plan are seen, where one number would serve.
  Communicator::together(
      members, fmt::format("ncclCommSplit of {}", one.name), [&](Communicator& member) {
        const auto device = id_at<DeviceId>(static_cast<std::size_t>(member.rank()));
        gpus_.enter(device);
        const auto found = std::ranges::find(one.devices, device);
        Communicator* const child =
            found == one.devices.end()
                ? nullptr
                : ranks[static_cast<std::size_t>(found - one.devices.begin())].get();
        return member.issue_split(static_cast<int>(plan), child);
      });
  for (const auto& made : ranks) {
    if (made) made->check_place();
  }
}

/// NCCL connects ranks when they first need it, which must be in one order, too: so each has a
/// message, or a sum, before the first step.
void Communicators::connect(std::size_t plan) {
  const CommunicatorPlan& one = plans_.all()[plan];
  const std::vector<DeviceId> devices = members_here(plan);
  std::vector<Communicator*> members;
  for (const DeviceId device : devices) members.push_back(&of(plan, device));
  if (members.empty()) return;
  Communicator::together(members, "connecting", [&](Communicator& member) {
    const DeviceId device = one.devices[static_cast<std::size_t>(member.rank())];
    gpus_.enter(device);
    const std::span<float> number = gpus_.number(device);
    const GpuStream stream = gpus_.stream(device);
    if (one.sums) return member.issue_sum(number, stream);
    return member.rank() == 0 ? member.issue_send(std::as_bytes(number), 1, stream)
                              : member.issue_receive(std::as_writable_bytes(number), 0, stream);
  });
  // Never waited for by CUDA, which could not give up.
  const auto since = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    gpus_.enter(devices[i]);
    while (!gpus_.is_idle(devices[i])) {
      members[i]->look();
      wait(one.name + ": connecting", std::chrono::steady_clock::now() - since);
    }
  }
}

std::vector<DeviceId> Communicators::members_here(std::size_t plan) const {
  std::vector<DeviceId> members;
  for (const DeviceId device : plans_.all()[plan].devices) {
    if (is_here(device)) members.push_back(device);
  }
  return members;
}

Communicator& Communicators::of(std::size_t plan, DeviceId device) {
  return *made_[plan][plans_.all()[plan].rank_of(device)];
}

void Communicators::send(std::size_t plan, std::span<const std::byte> bytes, GpuStream stream) {
  guarded([&] { made_[plan].front()->send(bytes, 1, stream); });
}
void Communicators::receive(std::size_t plan, std::span<std::byte> into, GpuStream stream) {
  guarded([&] { made_[plan].back()->receive(into, 0, stream); });
}
void Communicators::sum(std::size_t plan, DeviceId device, std::span<float> values,
                        GpuStream stream) {
  guarded([&] { of(plan, device).sum(values, stream); });
}

void Communicators::look(DeviceId device) {
  guarded([&] {
    for (const std::size_t plan : plans_.of_device(device)) of(plan, device).look();
  });
}

void Communicators::for_each(const std::function<void(Communicator&)>& call) {
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    gpus_.enter(here_[i]);
    call(*roots_[i]);
  }
  for (std::size_t plan = 0; plan < made_.size(); ++plan) {
    for (std::size_t rank = 0; rank < made_[plan].size(); ++rank) {
      if (!made_[plan][rank]) continue;
      gpus_.enter(plans_.all()[plan].devices[rank]);
      call(*made_[plan][rank]);
    }
  }
}

void Communicators::abort() {
  const Alarm alarm(setup_.notices.stuck);
  for_each([](Communicator& each) { each.abort(); });
}

void Communicators::close() {
  try {
    for_each([](Communicator& each) { each.begin_closing(); });
    for_each([](Communicator& each) { each.close(); });
  } catch (const DeviceError& error) {
    tell(setup_.notices.note, fmt::format("what was trained stands, but {}", error.what()));
    abort();
  }
}

void Communicators::wait(const std::string& what, Duration waited) const {
  if (stop_.stop_requested()) throw Stopped{};
  if (setup_.others != nullptr) setup_.others->check();
  if (waited > setup_.longest_wait)
    throw DeviceError(fmt::format("{} has not ended in {:.0f} s", what, to_seconds(waited)));
  std::this_thread::sleep_for(kBetweenLooks);
}

/// What fails where another rank has ended is told of by those that know why.
void Communicators::guarded(const std::function<void()>& call) const {
  try {
    call();
  } catch (const LateError&) {
    throw;
  } catch (const DeviceError&) {
    const auto since = std::chrono::steady_clock::now();
    while (setup_.others != nullptr && std::chrono::steady_clock::now() - since < setup_.doubt)
      wait("the reason", {});
    throw;
  }
}

namespace {

using Seen = std::vector<std::vector<std::string>>;  // names of GPUs, by rank

Table<DeviceId, int> share_gpus(std::size_t devices, const Seen& seen, const OtherRanks* others) {
  Table<DeviceId, int> chosen;
  std::set<std::string> taken;
  for (std::size_t i = 0; i < devices; ++i) {
    const auto device = id_at<DeviceId>(i);
    const auto rank = static_cast<std::size_t>(others == nullptr ? 0 : others->rank_of(device));
    const auto free = std::ranges::find_if(
        seen[rank], [&](const std::string& gpu) { return !taken.contains(gpu); });
    if (free == seen[rank].end()) {
      throw AbsentError(
          fmt::format("transport nccl: no GPU is left for device {}{}: NCCL takes one device a "
                      "GPU, and {} seen "
                      "there; use as many GPUs as devices{}",
                      i, others == nullptr ? "" : fmt::format(" of rank {}", rank),
                      seen[rank].size() == 1 ? "1 is" : fmt::format("{} are", seen[rank].size()),
                      others == nullptr ? ", or --transport peer" : ""));
    }
    taken.insert(*free);
    chosen.push_back(static_cast<int>(free - seen[rank].begin()));
  }
  return chosen;
}

}  // namespace

Table<DeviceId, int> choose_gpus(std::size_t devices, const std::vector<std::string>& seen,
                                 OtherRanks* others) {
  if (others == nullptr) return share_gpus(devices, {seen}, nullptr);
  Packer mine;
  for (const std::string& gpu : seen) mine.add_text(gpu);
  Seen all;
  for (const std::string& brought : others->gather(mine.take())) {
    auto& names = all.emplace_back();
    for (Unpacker from(brought); !from.empty();) names.emplace_back(from.text());
  }
  std::string told;
  if (others->is_first()) {
    const Table<DeviceId, int> chosen = share_gpus(devices, all, others);
    told = Packer().add_all(std::span<const int>(chosen.begin(), chosen.end())).take();
  }
  Table<DeviceId, int> chosen;
  for (const int gpu : Unpacker(others->broadcast(std::move(told))).all<int>())
    chosen.push_back(gpu);
  return chosen;
}

}  // namespace tandem::cuda

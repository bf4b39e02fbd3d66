#include "executor/copies/copy_exchange.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/packing.h"
#include "core/text/mapped_file.h"
#include "executor/checkpoint/named_parts.h"
#include "executor/copies/state_copies.h"
#include "executor/stage/plane.h"

namespace tandem {

namespace {

constexpr std::size_t kCopyPiece = 1 << 20;
constexpr auto kLookAgain = std::chrono::milliseconds(50);

/// Of a copy on its way.
struct PieceHeader {
  std::size_t stage = 0;
  std::int64_t batches = 0;
  std::int64_t first = 0;  // byte
  std::uint64_t sum = 0;   // of its bytes
  bool is_last = false;
};

std::string pack(const CopyTable::Row& row) {
  Packer packer;
  packer.add_text(row.folder).add(row.copies.size());
  for (const StageCopy& copy : row.copies)
    packer.add(copy.stage).add(copy.batches).add_text(copy.path);
  return packer.take();
}
CopyTable::Row unpack_row(std::string_view packed) {
  Unpacker from(packed);
  CopyTable::Row row{.folder = std::string(from.text())};
  row.copies.resize(from.get<std::size_t>());
  for (StageCopy& copy : row.copies) {
    copy.stage = from.get<std::size_t>();
    copy.batches = from.get<std::int64_t>();
    copy.path = from.text();
  }
  return row;
}

std::vector<StageCopy> readable_copies(const std::string& folder) {
  std::vector<StageCopy> copies = copies_in(folder);
  std::erase_if(copies, [](const StageCopy& copy) { return !CopiedState::is_readable(copy.path); });
  return copies;
}

}  // namespace

StagesOfRanks stages_of_ranks(const Program& program, const SlotCounts& slots,
                              const ModelSpec& model, const std::vector<LayerRange>& layers,
                              const DeviceRanks& rank_of, std::int32_t ranks,
                              bool first_reads_all) {
  StagesOfRanks of{.written_by = {}, .read_by = {}};
  of.read_by.resize(static_cast<std::size_t>(ranks));
  const Placement& placement = program.placement();
  for (const auto& [tensor, stage] : stages_of_tensors(model, layers)) {
    const ReplicaId shown = shown_replica(program, slots, id_at<StageId>(stage));
    of.written_by[stage] = rank_of[placement.device[shown]];
  }
  for (const DeviceId device : ids(rank_of)) {
    std::set<std::size_t>& read = of.read_by[static_cast<std::size_t>(rank_of[device])];
    for (const ReplicaId replica :
         placement.replicas_on(id_at<DeviceId>(index(device) % placement.devices))) {
      const std::size_t stage = index(placement.stage[replica]);
      if (of.written_by.contains(stage)) read.insert(stage);
      if (model.tied && stage + 1 == placement.stages()) read.insert(0);  // the table
    }
  }
  for (const auto& [stage, rank] : of.written_by)
    if (first_reads_all) of.read_by.front().insert(stage);
  return of;
}

CopyTable::CopyTable(std::vector<Row> rows) : rows_(std::move(rows)), host_of_(rows_.size()) {
  std::map<std::string, std::size_t> hosts;
  for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
    host_of_[rank] = hosts.try_emplace(rows_[rank].folder, hosts.size()).first->second;
    ranks_of_.resize(hosts.size());
    ranks_of_[host_of_[rank]].push_back(static_cast<std::int32_t>(rank));
  }
}

std::optional<std::int32_t> CopyTable::neighbour(std::int32_t rank) const {
  if (hosts() == 1) return std::nullopt;
  const std::vector<std::int32_t>& beside = ranks_beside(rank);
  const auto place = static_cast<std::size_t>(std::ranges::find(beside, rank) - beside.begin());
  const auto& next = ranks_of_[(host_of_[static_cast<std::size_t>(rank)] + 1) % hosts()];
  return next[place % next.size()];
}

const StageCopy* CopyTable::find(std::size_t host, std::size_t stage, std::int64_t batches) const {
  const std::vector<StageCopy>& copies =
      rows_[static_cast<std::size_t>(ranks_of_[host].front())].copies;
  const auto found = std::ranges::find_if(copies, [&](const StageCopy& copy) {
    return copy.stage == stage && copy.batches == batches;
  });
  return found == copies.end() ? nullptr : &*found;
}

std::optional<std::int64_t> CopyTable::newest(const StagesOfRanks& stages) const {
  std::map<std::int64_t, std::set<std::size_t>> found;
  for (const std::vector<std::int32_t>& ranks : ranks_of_) {
    for (const StageCopy& copy : rows_[static_cast<std::size_t>(ranks.front())].copies)
      found[copy.batches].insert(copy.stage);
  }
  for (auto each = found.rbegin(); each != found.rend(); ++each) {
    const auto is_there = [&](const auto& written) { return each->second.contains(written.first); };
    if (std::ranges::all_of(stages.written_by, is_there)) return each->first;
  }
  return std::nullopt;
}

std::vector<CopyTable::Transfer> CopyTable::transfers(std::int64_t batches,
                                                      const StagesOfRanks& stages) const {
  std::vector<Transfer> all;
  for (std::size_t host = 0; host < hosts(); ++host) {
    std::set<std::size_t> there;
    for (const std::int32_t rank : ranks_of_[host]) {
      for (const std::size_t stage : stages.read_by[static_cast<std::size_t>(rank)]) {
        if (!there.insert(stage).second || find(host, stage, batches) != nullptr) continue;
        for (std::size_t other = 0; other < hosts(); ++other) {
          const StageCopy* const copy = find(other, stage, batches);
          if (copy == nullptr) continue;
          const std::vector<std::int32_t>& sources = ranks_of_[other];
          all.push_back({*copy, sources[stage % sources.size()], rank});
          break;
        }
      }
    }
  }
  return all;
}

class CopyExchange::Inbox {
 public:
  Inbox(RankGroup& group, std::string folder, std::int64_t begins, std::int64_t keep,
        std::shared_ptr<Shared> shared)
      : group_(group),
        folder_(std::move(folder)),
        begins_(begins),
        keep_(keep),
        shared_(std::move(shared)) {}

  void hear(std::int32_t from, ControlLink& link, MessageKind kind, const std::string& message) {
    try {
      if (kind == MessageKind::copy) take(link, message);
      if (kind == MessageKind::copy_taken) {
        Unpacker of(message);
        const auto stage = of.get<std::size_t>();
        const std::lock_guard lock(shared_->mutex);
        shared_->taken[stage] = of.get<std::int64_t>();
        shared_->changed.notify_all();
      }
    } catch (const Error& error) {
      group_.blame(fmt::format("copies from rank {}: {}", from, error.what()));
    }
  }

 private:
  void take(ControlLink& link, const std::string& message) {
    Unpacker of(message);
    const auto header = of.get<PieceHeader>();
    const std::string_view bytes = of.text();
    StageCopies& copies =
        copies_.try_emplace(header.stage, folder_, header.stage, begins_, keep_).first->second;
    if (checksum(bytes) != header.sum || header.first != copies.size()) {
      throw DeviceError(fmt::format("a piece of stage {}'s is not as it was sent", header.stage));
    }
    copies.append(bytes);
    if (!header.is_last) return;
    copies.finish(header.batches);
    // What the run goes on from may be open for as long as it lasts: it is nobody's to write over.
    if (header.batches <= begins_) copies_.erase(header.stage);
    link.send(MessageKind::copy_taken, Packer().add(header.stage).add(header.batches).take());
    const std::lock_guard lock(shared_->mutex);
    ++shared_->arrived;
    shared_->changed.notify_all();
  }

  RankGroup& group_;
  const std::string folder_;
  const std::int64_t begins_, keep_;
  const std::shared_ptr<Shared> shared_;
  std::map<std::size_t, StageCopies> copies_;
};

CopyExchange::CopyExchange(RankGroup& group, std::string folder, StagesOfRanks stages,
                           std::int64_t ramp, std::int64_t checkpoint)
    : group_(group),
      folder_(std::move(folder)),
      stages_(std::move(stages)),
      ramp_(ramp),
      shared_(std::make_shared<Shared>()) {
  table_ = exchange_rows(checkpoint);
  newest_ = table_->newest(stages_);
  if (newest_ && *newest_ < checkpoint) newest_.reset();
  neighbour_ = table_->neighbour(group_.rank());
  fetch();
  if (neighbour_) thread_ = std::jthread([this](const std::stop_token& stop) { send_given(stop); });
}

CopyExchange::~CopyExchange() {
  thread_.request_stop();
  bool over = false;
  {
    const std::lock_guard lock(shared_->mutex);
    over = std::exchange(shared_->over, true);
  }
  for (const auto& [rank, link] : links_) over ? link->close() : link->shut();
}

CopyTable CopyExchange::exchange_rows(std::int64_t& checkpoint) {
  const auto mine = [this] { return pack({folder_, readable_copies(folder_)}); };
  Packer packer;
  packer.add(checkpoint);
  for (const std::string& row : group_.gather(mine())) packer.add_text(row);
  const std::string all = group_.broadcast(packer.take());
  Unpacker from(all);
  checkpoint = from.get<std::int64_t>();
  std::vector<CopyTable::Row> rows;
  while (!from.empty()) rows.push_back(unpack_row(from.text()));
  return CopyTable(std::move(rows));
}

void CopyExchange::fetch() {
  const std::int32_t me = group_.rank(), ranks = group_.ranks();
  const std::int64_t begins = newest_.value_or(-1);
  const auto transfers =
      newest_ ? table_->transfers(*newest_, stages_) : std::vector<CopyTable::Transfer>();
  std::set<std::int32_t> others;
  if (neighbour_) others.insert(*neighbour_);
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    if (table_->neighbour(rank) == me) others.insert(rank);
  for (const CopyTable::Transfer& each : transfers) {
    if (each.source == me) others.insert(each.target);
    if (each.target == me) others.insert(each.source);
  }
  const auto inbox = std::make_shared<Inbox>(group_, folder_, begins, keep(), shared_);
  links_ = group_.link_to(others, [&](std::int32_t from, const Link& link) {
    const auto taken = [inbox, from, link = std::weak_ptr(link)](MessageKind kind,
                                                                 const std::string& message) {
      if (const Link here = link.lock()) inbox->hear(from, *here, kind, message);
    };
    const auto ended = [&group = group_, shared = shared_, from](const std::string& why) {
      {
        const std::lock_guard lock(shared->mutex);
        if (shared->over) return;
      }
      group.suspect(fmt::format("rank {}, which copies go to or come from, {}", from, why));
    };
    return ControlLink::Ears{.on_message = taken, .on_end = ended};
  });
  if (is_first_here()) {
    for (const StageCopy& copy : copies_in(folder_)) {
      std::error_code ignored;
      if (copy.batches > begins) std::filesystem::remove(copy.path, ignored);
    }
  }
  for (const CopyTable::Transfer& each : transfers)
    if (each.source == me) send(each.target, each.copy, {});
  const auto mine = std::ranges::count(transfers, me, &CopyTable::Transfer::target);
  wait_for([&] { return std::cmp_equal(shared_->arrived, mine); });
  group_.barrier();
}

const std::set<std::size_t>& CopyExchange::stages_read() const {
  return stages_.read_by[static_cast<std::size_t>(group_.rank())];
}

std::int64_t CopyExchange::keep() const {
  // What a neighbour has may be one behind.
  return copies_kept(ramp_) + (table_->hosts() > 1 ? 1 : 0);
}

std::set<std::size_t> CopyExchange::stages_here() const {
  const std::vector<std::int32_t>& beside = table_->ranks_beside(group_.rank());
  const auto is_here = [&](std::int32_t rank) {
    return std::ranges::find(beside, rank) != beside.end();
  };
  std::set<std::size_t> stages;
  for (const auto& [stage, rank] : stages_.written_by) {
    const auto neighbour = table_->neighbour(rank);
    if (is_here(rank) || (neighbour && is_here(*neighbour))) stages.insert(stage);
  }
  return stages;
}

bool CopyExchange::is_first_here() const {
  return table_->ranks_beside(group_.rank()).front() == group_.rank();
}

/// REQUIRES: the mutex is not held.
void CopyExchange::wait_for(const std::function<bool()>& there) {
  std::unique_lock lock(shared_->mutex);
  while (!there()) {
    group_.check();
    shared_->changed.wait_for(lock, kLookAgain);
  }
}

void CopyExchange::send(std::int32_t target, const StageCopy& copy,
                        const std::stop_token& stop) const {
  const Link& link = links_.at(target);
  const MappedFile file(copy.path);
  const std::string_view all = file.bytes();
  for (std::size_t first = 0; first < all.size() && !stop.stop_requested(); first += kCopyPiece) {
    const std::string_view bytes = all.substr(first, kCopyPiece);
    const PieceHeader header{.stage = copy.stage,
                             .batches = copy.batches,
                             .first = static_cast<std::int64_t>(first),
                             .sum = checksum(bytes),
                             .is_last = first + bytes.size() == all.size()};
    link->send_long(MessageKind::copy, Packer().add(header).add_text(bytes).take());
  }
}

void CopyExchange::pass_on(const StageCopy& copy) {
  if (!neighbour_) return;
  Shared& shared = *shared_;
  wait_for([&] {
    const auto given = shared.given.find(copy.stage);
    return given == shared.given.end() || shared.taken[copy.stage] == given->second;
  });
  const std::lock_guard lock(shared.mutex);
  shared.given[copy.stage] = copy.batches;
  queue_.push_back(copy);
  shared.changed.notify_all();
}

void CopyExchange::send_given(const std::stop_token& stop) {
  std::unique_lock lock(shared_->mutex);
  while (shared_->changed.wait(lock, stop, [this] { return !queue_.empty(); })) {
    const StageCopy copy = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    try {
      send(*neighbour_, copy, stop);
    } catch (const std::exception& error) {
      group_.blame(error.what());
    }
    lock.lock();
  }
}

void CopyExchange::finish(bool interrupted) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->over = interrupted;
    for (const StageCopy& copy : queue_) shared_->given.erase(copy.stage);
    queue_.clear();
  }
  if (interrupted) return;
  wait_for([this] {
    return std::ranges::all_of(shared_->given, [this](const auto& given) {
      return shared_->taken[given.first] == given.second;
    });
  });
  group_.barrier();  // who has gone takes nothing more
  const std::lock_guard lock(shared_->mutex);
  shared_->over = true;
}

}  // namespace tandem

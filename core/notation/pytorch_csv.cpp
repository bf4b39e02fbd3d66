#include "core/notation/pytorch_csv.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/notation/notation_words.h"
#include "core/schedules/common.h"
#include "core/text/csv.h"

namespace tandem {

namespace {

constexpr std::uint32_t kMostCsvStages = 65535;
constexpr std::uint32_t kMostCsvMicrobatches = 65535;  // one update covers them all
constexpr std::size_t kMostRanks = 4096;
constexpr std::string_view kPair = "OVERLAP_F_B";

/// What lower() derives, whoever wrote it down.
constexpr std::array<std::string_view, 7> kDerived{"UNSHARD", "RESHARD", "SEND_F",     "RECV_F",
                                                   "SEND_B",  "RECV_B",  "REDUCE_GRAD"};

/// "F", "B", "I" or "W"; empty where a cell has no word for the kind.
std::string_view letter_of(OpKind kind) {
  return is_compute(kind) ? traits(kind).pytorch : std::string_view();
}

bool has_words_for(const Schedule& schedule, const Op& op) {
  const bool this_batch = op.microbatch < schedule.microbatches && op.staleness == 0;
  return this_batch && (makes_version(op.kind) || (!letter_of(op.kind).empty() && op.span == 1));
}

/// A cell's action, or one of the two of a pair.
struct Action {
  OpKind kind;
  std::uint32_t stage, microbatch;
  std::uint8_t group;
  WordPlace place;
};

class PyTorchCsvParser {
 public:
  PyTorchCsvParser(std::string_view text, std::string_view file) : in_(text, file) {
    while (in_.next_line()) read_row();
    while (!rows_.empty() && rows_.back().empty()) rows_.pop_back();  // lines at the end
  }

  Schedule parse(std::string_view name) {
    if (rows_.empty())
      in_.diagnose_whole_text(
          "no actions: expected PyTorch's cells such as 0F0,0B0, or, in tandem's notation, the "
          "line `# NAME devices N microbatches M` first");
    if (end_of_line(name) != std::string_view::npos)
      in_.diagnose_whole_text("the file gives the schedule its name: expected one of one line");
    if (rows_.size() > kMostRanks)
      in_.diagnose_whole_text(fmt::format("{} ranks: at most {}", rows_.size(), kMostRanks));
    in_.finish();
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      for (const Action& action : rows_[rank]) place(rank, action);
    }
    check_stages();
    in_.finish();
    check_microbatches();
    in_.finish();
    return schedule(name);
  }

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, OpKind>;  // stage, microbatch

  void read_row() {
    rows_.emplace_back();
    group_ = 0;
    split_cells(in_.line(), ',', [this](std::string_view cell) {
      if (cell.empty() || in_.given_up()) return;
      try {
        cell.front() == '(' ? read_pair(cell) : read_action(cell, 0);
      } catch (const BadWord&) {  // the next cell may be good
      }
    });
  }

  void read_pair(std::string_view cell) {
    const std::size_t close = cell.find(')');
    if (close == std::string_view::npos || cell.substr(close + 1) != kPair)
      in_.fail(cell, fmt::format("\"{}\" is no pair", cell), "such as (0F7;7B3)OVERLAP_F_B");
    // Pairs that follow one another are told apart.
    group_ = static_cast<std::uint8_t>(group_ == 1 ? 2 : 1);
    const std::size_t before = rows_.back().size();
    split_cells(cell.substr(1, close - 1), ';',
                [this](std::string_view action) { read_action(action, group_); });
    const std::vector<Action>& row = rows_.back();
    const bool pair = row.size() == before + 2 && row[before].kind == OpKind::forward &&
                      makes_input_gradient(row[before + 1].kind);
    if (!pair) in_.fail(cell, "a pair is a forward and a backward", "such as (0F7;7B3)OVERLAP_F_B");
  }

  void read_action(std::string_view whole, std::uint8_t group) {
    std::string_view word = whole;
    const std::string_view stage = WordReader::take_digits(word);
    const std::string_view type = word.substr(0, word.find_first_of("0123456789"));
    const std::string_view microbatch = word.substr(type.size());
    if (std::find(kDerived.begin(), kDerived.end(), type) != kDerived.end()) return;
    const auto kind = kind_of(type);
    if (stage.empty() || !kind) {
      in_.fail(whole, fmt::format("\"{}\" is no action", whole),
               "a stage, F, B, I or W, and a microbatch, such as 0F7");
    }
    old_ = old_ || type == "BW";
    rows_.back().push_back({*kind, in_.number(stage, "a stage", 0, kMostCsvStages - 1),
                            in_.number(microbatch, "a microbatch", 0, kMostCsvMicrobatches - 1),
                            group, in_.place_of(whole)});
  }

  static std::optional<OpKind> kind_of(std::string_view type) {
    if (type == "BW") return OpKind::backward;  // the old dialect's B
    for (const OpTraits& row : kOpTraits) {
      if (!type.empty() && letter_of(row.kind) == type) return row.kind;
    }
    return std::nullopt;
  }

  void place(std::size_t rank, const Action& action) {
    const auto [stage, first] = stages_.emplace(action.stage, Home{rank, action.place});
    if (!first && stage->second.rank != rank) {
      in_.diagnose(action.place, fmt::format("stage {} is on rank {} already: a stage has one rank",
                                             action.stage, stage->second.rank));
    }
    if (!actions_.emplace(Key{action.stage, action.microbatch, action.kind}, action.place).second) {
      in_.diagnose(action.place, fmt::format("the {} of microbatch {} on stage {} is given twice",
                                             name(action.kind), action.microbatch, action.stage));
    }
    microbatches_ = std::max(microbatches_, action.microbatch + 1);
  }

  void check_stages() {
    std::uint32_t next = 0;
    for (const auto& [stage, home] : stages_) {
      if (stage != next) {
        return in_.diagnose(home.place,
                            fmt::format("there is a stage {}, and no stage {}", stage, next));
      }
      ++next;
    }
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      if (rows_[rank].empty()) in_.diagnose_whole_text(fmt::format("rank {} has no action", rank));
    }
  }

  bool has(std::uint32_t stage, std::uint32_t microbatch, OpKind kind) const {
    return actions_.contains({stage, microbatch, kind});
  }

  static bool says_whole(const WordPlace& place) {
    return place.word.find("BW") != std::string_view::npos;
  }

  /// In older files B is the half for the input: where a W belongs to it, and everywhere in a file
  /// that has a BW.
  bool is_half(std::uint32_t stage, std::uint32_t microbatch) const {
    const auto backward = actions_.find({stage, microbatch, OpKind::backward});
    return backward != actions_.end() && !says_whole(backward->second) &&
           !has(stage, microbatch, OpKind::backward_input) &&
           (old_ || has(stage, microbatch, OpKind::backward_weight));
  }

  void tell_half_beside_whole(const Key& half) {
    in_.diagnose(actions_.at(half),
                 fmt::format("microbatch {} has a whole backward on stage {} already",
                             std::get<1>(half), std::get<0>(half)));
  }

  void check_microbatches() {
    for (const auto& [stage, home] : stages_) {
      for (std::uint32_t i = 0; i < microbatches_ && !in_.given_up(); ++i) {
        const auto lacks = [&, number = stage](std::string_view what) {
          in_.diagnose(home.place,
                       fmt::format("stage {} lacks the {} of microbatch {}", number, what, i));
        };
        if (!has(stage, i, OpKind::forward)) lacks("forward");
        const bool whole = has(stage, i, OpKind::backward);
        const bool input = has(stage, i, OpKind::backward_input);
        if (!whole && !input) lacks("backward");
        if ((input || is_half(stage, i)) && !has(stage, i, OpKind::backward_weight))
          lacks("weight gradient (W)");
        if (whole && input) tell_half_beside_whole({stage, i, OpKind::backward_input});
        if (whole && !input && !is_half(stage, i) && has(stage, i, OpKind::backward_weight))
          tell_half_beside_whole({stage, i, OpKind::backward_weight});
      }
    }
  }

  Schedule schedule(std::string_view name) const {
    Schedule result;
    result.name = name;
    result.microbatches = static_cast<std::int32_t>(microbatches_);
    Placement& placement = result.placement;
    placement.devices = static_cast<std::uint16_t>(rows_.size());
    for (const auto& [stage, home] : stages_) {
      placement.device.push_back(id_at<DeviceId>(home.rank));
      placement.stage.push_back(id_at<StageId>(stage));
      if (stage > 0)
        placement.edges.push_back({id_at<ReplicaId>(stage - 1), id_at<ReplicaId>(stage)});
    }
    result.order.resize(rows_.size());
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      std::vector<Op>& order = result.order[id_at<DeviceId>(rank)];
      for (const Action& action : rows_[rank]) {
        const bool half =
            action.kind == OpKind::backward && is_half(action.stage, action.microbatch);
        order.push_back({.kind = half ? OpKind::backward_input : action.kind,
                         .group = action.group,
                         .replica = id_at<ReplicaId>(action.stage),
                         .microbatch = static_cast<std::int32_t>(action.microbatch)});
      }
      for (const ReplicaId replica : placement.replicas_on(id_at<DeviceId>(rank)))
        order.push_back(update(replica, result.microbatches - 1, result.microbatches));
    }
    return result;
  }

  struct Home {
    std::size_t rank;
    WordPlace place;  // of the stage's first action
  };

  WordReader in_;
  std::vector<std::vector<Action>> rows_;
  std::map<std::uint32_t, Home> stages_;
  std::map<Key, WordPlace> actions_;
  std::uint32_t microbatches_ = 0;
  std::uint8_t group_ = 0;
  bool old_ = false;  // a BW was seen
};

std::string_view stem(std::string_view file) {
  file.remove_prefix(file.find_last_of('/') + 1);
  return file.substr(0, file.find_last_of('.'));
}

}  // namespace

bool is_pytorch_csv(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  // A list of our notation that lacks its header line is still no CSV: cells have no "|".
  return first != std::string_view::npos && text[first] != '#' &&
         text.find('|') == std::string_view::npos;
}

/// A pair is a forward and then a backward; there are no other units.
static bool has_words_for_units(const std::vector<Op>& order) {
  std::size_t members = 0;  // of the unit so far
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint8_t group = order[i].group;
    const bool joins = i > 0 && group != 0 && order[i - 1].group == group;
    const bool goes_on = i + 1 < order.size() && order[i + 1].group == group;
    members = joins ? members + 1 : 1;
    if (group == 0) continue;
    if (members == 1 ? order[i].kind != OpKind::forward || !goes_on
                     : !makes_input_gradient(order[i].kind) || members > 2)
      return false;
  }
  return true;
}

static void check_words(const Schedule& schedule) {
  bool all = schedule.placement.stages() == schedule.placement.replicas() && schedule.slices == 1;
  for (const std::vector<Op>& order : schedule.order) {
    for (const Op& op : order) all = all && has_words_for(schedule, op);
    all = all && has_words_for_units(order);
  }
  if (all) return;
  throw InputError(fmt::format(
      "schedule {} can't be written as pytorch-csv: the format has no words for weight versions, "
      "batches that overlap, recomputation, evictions, replicas, slices, sums, or units but pairs",
      schedule.name));
}

void print_pytorch_csv(const Schedule& schedule, const TextSink& out) {
  check_words(schedule);
  for (const std::vector<Op>& order : schedule.order) {
    std::string_view between;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Op& op = order[i];
      if (makes_version(op.kind)) continue;
      const bool opens = op.group != 0 && (i == 0 || order[i - 1].group != op.group);
      const bool closes =
          op.group != 0 && (i + 1 == order.size() || order[i + 1].group != op.group);
      out(fmt::format("{}{}{}{}{}", op.group != 0 && !opens ? ";" : between, opens ? "(" : "",
                      index(op.replica), letter_of(op.kind), op.microbatch));
      if (closes) out(fmt::format("){}", kPair));
      between = ",";
    }
    out("\n");
  }
}

Schedule parse_pytorch_csv(std::string_view text, std::string_view file) {
  return PyTorchCsvParser(text, file).parse(stem(file));
}

}  // namespace tandem

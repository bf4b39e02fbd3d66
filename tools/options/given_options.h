#pragma once
// The options of a scenario that are given, each as what its text says: typed, parsed once. A sweep
// changes some of them from one configuration to the next; what they ask of a simulation together,
// a ScenarioRequest, scenario_options.h makes of them.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/lower/lower.h"
#include "core/memory/reserve.h"
#include "core/memory/storage.h"
#include "core/model/plan.h"
#include "core/schedule/options.h"
#include "planner/cluster/cluster_plan.h"
#include "planner/study/perturbation.h"
#include "simulator/cost/plain_costs.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// What --clip says.
struct Clipping {
  bool per_stage = false;  // each stage by the norm of its own gradients
  double norm = 1.0;
};

/// What is empty is not given; what can't be empty has its default then.
struct GivenOptions {
  std::string command;                            // for messages
  std::set<std::string, std::less<>> flags = {};  // of all that are given, whoever reads them
  std::string plan = {};                          // a file

  std::string schedule = {}, schedule_file = {};
  bool vanilla_only = false;
  std::optional<std::int64_t> devices = {}, microbatches = {};
  std::map<const ScheduleOption*, ScheduleRequest> of_schedule = {};  // each in one of its own
  std::optional<Clipping> clip = {};

  PlainTimes times = {};
  std::string costs = {};

  std::optional<double> link_rate = {};  // bytes/s
  TransferLanes lanes = TransferLanes::shared;
  std::int64_t microbatch_size = 1, batches = 1;
  std::optional<Bytes> memory = {};
  std::optional<Reserve> reserve = {};
  Storage storage = Storage::f32;
  std::map<PerturbationKind, std::vector<Perturbation>> perturbations = {};
  double compute_slowdown = 1.0;

  std::string model = {}, cluster = {}, gpu = {};
  std::optional<std::int64_t> depth = {}, tensor = {}, global_batch = {}, sequence = {};
  std::optional<NumberFormat> format = {};        // empty: auto, too
  std::optional<AttentionKernel> attention = {};  // the same
  std::optional<OptimizerKind> optimizer = {};
  std::optional<DelayCorrection> delay_correction = {};
  bool sequence_parallel = false, sharded_optimizer = false;
  FitsBy fits_by = FitsBy::framework;
  DeviceOrder device_order = DeviceOrder::replicas_first;
  std::string node_order = {};  // names, joined by commas
  StageCut cut = StageCut::balanced;
  std::vector<LayerRange> stages = {};
  bool blocking_transfers = false;
  std::optional<double> product_fraction = {}, memory_fraction = {}, link_fraction = {};
  std::string collectives = {}, calibration = {}, profile = {};

  bool has(std::string_view flag) const { return flags.contains(flag); }
  /// Whether updates wait for the norm of all gradients, as --clip has it; empty: no --clip.
  std::optional<bool> global_norm() const;
  bool post_validation() const;
  /// Whether this option of some schedules, --seed, is one of --scenarios, too, which are given.
  bool is_of_scenarios(std::string_view flag) const { return flag == "seed" && has("scenarios"); }
};

/// What the text of one option says, to be set in any number of GivenOptions.
using Setting = std::function<void(GivenOptions&)>;
template <class Member, class Value>
Setting setting(Member GivenOptions::* member, Value value) {
  return [member, value = std::move(value)](GivenOptions& given) { given.*member = value; };
}

/// A row: all that the command line and help know of an option.
struct ScenarioOption {
  std::string flag, argument, help;
  std::function<Setting(const OptionValue&)> read;  // throws UsageError
  Options::Use use = Options::Use::other;
};

/// An option whose value is that text, such as a file's name.
ScenarioOption text_option(std::string flag, std::string argument, std::string help,
                           std::string GivenOptions::* member,
                           Options::Use use = Options::Use::other);

/// One whose value is a whole number from 1 to `most`.
template <class Number>
ScenarioOption integer_option(std::string flag, std::string argument, std::string help,
                              Number GivenOptions::* member, std::int64_t most) {
  return {std::move(flag), std::move(argument), std::move(help),
          [=](const OptionValue& value) { return setting(member, value.integer(1, most)); }};
}

/// In the order of the rows.
void declare(Options& options, std::span<const ScenarioOption> rows);
/// One of them by its flag, which may be one of core/schedule/options.h.
void declare(Options& options, std::string_view flag);

/// What an option says that is one of a scenario; empty: it is none. Throws UsageError.
std::optional<Setting> setting_of(const OptionValue& value);

/// All that are given of these; where none is named, of all that a scenario has, and the plan.
/// Throws UsageError.
GivenOptions given_options(const Options& options, const std::vector<std::string_view>& which = {});

/// Throws UsageError: a message of this command.
[[noreturn]] void refuse(const GivenOptions& given, const std::string& why);
/// The same where a value is above what another option, or a file, leaves room for.
void check_most(const GivenOptions& given, std::string_view flag, std::int64_t value,
                std::int64_t most);

}  // namespace tandem::tools

#pragma once
// Replay: a recorded pipeline simulated again as it was, to see whether the simulation is right,
// and as it could have been, to see what its stragglers cost.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/model/recording.h"
#include "simulator/replay/recorded_program.h"

namespace tandem {

/// Whose computation was slow: a stage's device in all replicas, a replica, or one rank of both.
struct Straggler {
  std::optional<DeviceId> device;
  std::optional<std::int64_t> replica;
  friend bool operator==(const Straggler&, const Straggler&) = default;
};

/// What is done to the measured durations. "Usual" is what an op of a kind and stage takes: a
/// computation the mean over microbatches, steps and replicas, so that a stage has as much to
/// compute as it had; a transfer the median over those of a replica, and of these the median over
/// the replicas (of an even number the lower one), for the wait for a late partner is in some. A
/// computation is longer or shorter by its microbatch's content where all stages see it alike: that
/// is no straggler's, and stays.
struct ReplayVariation {
  enum class Durations : std::uint8_t {
    measured,  // but for those of `without`
    usual,     // each op and transfer what it usually takes: no stragglers
    balanced,  // and each computation the mean of all stages: no slow stage either
  };
  Durations durations = Durations::measured;
  /// These compute as the others do: a stage as the mean of the other stages, a replica or a rank
  /// as the other replicas.
  std::vector<Straggler> without = {};
};

/// One step, all replicas. Its pipeline phase lasts from the first start to the last end of a
/// forward or backward.
struct ReplayedStep {
  std::int64_t step = 0;
  Duration whole{};     // with all else that the recording has of it; 0: it does not say
  Duration measured{};  // pipeline phase
  Duration replayed{};
  /// (replayed − measured) / measured.
  double error() const;
};

class Replay {
 public:
  /// Transfers as seen where `transfers` is empty; pauses as in ReplayModel. Passes that are not
  /// whole are left out, with a warning; throws InputError when none is left.
  explicit Replay(const Recording& recording, std::optional<RecordedTransfers> transfers = {},
                  bool pauses = true);

  std::vector<ReplayedStep> steps() const;
  /// The pipeline phase of each step.
  std::vector<Duration> phases(const ReplayVariation& variation) const;

  std::size_t passes() const { return passes_.size(); }
  std::int64_t step_of(std::size_t pass) const { return passes_[pass].step; }
  std::int64_t replica_of(std::size_t pass) const { return passes_[pass].replica; }
  const RecordedProgram& pass(std::size_t pass) const { return passes_[pass].recorded; }
  CostTable costs(std::size_t pass, const ReplayVariation& variation) const;

  /// What an op usually takes, with or without one replica (of a computation). Where that is the
  /// only one it counts.
  Duration usual(OpKind kind, ReplicaId replica, std::optional<std::int64_t> except = {}) const;
  /// Its mean over all stages, or those that are not on one device. Where that is the only one it
  /// counts.
  Duration usual_elsewhere(OpKind kind, std::optional<DeviceId> except = {}) const;

  /// By how much forwards differ by their microbatch's content: the standard deviation of a factor
  /// of mean 1.
  double content_variation() const;

  RecordedTransfers transfers() const { return transfers_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct Pass {
    std::int64_t step = 0, replica = 0;
    RecordedProgram recorded;
    Duration replayed{};  // as measured
    std::array<std::vector<double>, kOpKinds> content = {};  // of each microbatch: a factor
  };
  struct Sum {
    Duration time{};
    std::int64_t count = 0;
    void add(const Sum& more) { time += more.time, count += more.count; }
    Duration mean() const { return count == 0 ? Duration{} : time / count; }
  };
  /// What ops of a kind and stage take: of computations their sum, of transfers the median, by
  /// replica.
  struct Usual {
    std::map<std::int64_t, Sum> of_replica;
    Sum all;
    Duration median{};
  };

  void measure_usual();
  void measure_content();
  Duration cost(const Pass& pass, InstructionId id, const ReplayVariation& variation) const;
  template <class Length>
  std::vector<Duration> phases_by(const Length& length) const;

  RecordedTransfers transfers_;
  std::vector<Pass> passes_;  // by step
  std::map<std::int64_t, Duration> whole_steps_;
  std::vector<std::string> warnings_;
  std::array<Table<ReplicaId, Usual>, kOpKinds> usual_;
  std::array<Table<DeviceId, Sum>, kOpKinds> on_device_;  // of the stages' usual times
  std::array<Sum, kOpKinds> on_all_;
};

}  // namespace tandem

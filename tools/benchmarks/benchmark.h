#pragma once
// What a benchmark is: a function that measures and returns rows. Machines differ and are noisy, so
// a floor is set on a ratio to a reference measured in the same process, never on an absolute rate.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::benchmarks {

/// One measured figure.
struct Row {
  std::string what;
  double value = 0.0;
  std::string unit;               // of `value`: "M instructions/s", "s", "MiB"
  std::string of{};               // what `ratio` is relative to; empty: there is no ratio
  double ratio = 0.0;             // how many times better than it
  std::optional<double> floor{};  // `ratio`, or else `value`, must reach it …
  bool at_most = false;           // … or must not exceed it
};

/// Rows that belong together, and what was run.
struct Section {
  std::string title;
  std::vector<Row> rows;
};

struct Settings {
  int repetitions = 5;                                      // of each loop; the best counts
  std::vector<std::string> pythons = {"/usr/bin/python3"};  // whose PyTorch are peers in training
};

/// Takes a section as soon as it is made.
using Show = std::function<void(const Section&)>;

struct Benchmark {
  std::string_view name, summary;
  void (*run)(const Settings&, const Show&);
};

/// All of them, in the order in which they are listed.
std::span<const Benchmark> benchmarks();

// No rows, and the reason, where there is no GPU.
void bench_gpu(const Settings& settings, const Show& show);
void bench_gpu_gpt2(const Settings& settings, const Show& show);
void bench_gpu_stage(const Settings& settings, const Show& show);
std::vector<Section> bench_checkpoint(const Settings& settings);
std::vector<Section> bench_pipeline(const Settings& settings);
std::vector<Section> bench_ranks(const Settings& settings);
std::vector<Section> bench_schedules(const Settings& settings);
std::vector<Section> bench_simulator(const Settings& settings);
std::vector<Section> bench_training(const Settings& settings);

/// What bench_simulator() says of transfers that share links: rates, and SimGrid's times beside
/// ours.
std::vector<Section> contention_sections(const Settings& settings);

/// Processor time of this process so far.
double processor_seconds();

/// Seconds of each function's fastest run out of `repetitions`, the functions taking turns so that
/// a busy spell of the machine meets all of them. By the processor time of the process: for
/// functions of one thread. Throws what a function throws.
std::vector<double> best_processor_seconds(int repetitions,
                                           const std::vector<std::function<void()>>& functions);

/// Keeps the compiler from leaving out the work that made `value`.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

/// The row meets its floor, or has none.
bool met(const Row& row);

}  // namespace tandem::benchmarks

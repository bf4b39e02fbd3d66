// tandem_bench: runs the benchmarks and prints their rows, for people or as JSON.
// `tools/scripts/bench` builds and runs it.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "tools/benchmarks/benchmark.h"
#include "tools/cli/json_output.h"
#include "tools/cli/split.h"

namespace tandem::benchmarks {

namespace {

using tools::Json;

/// Of a benchmark whose sections are known together.
template <std::vector<Section> (*kRun)(const Settings&)>
void when_ended(const Settings& settings, const Show& show) {
  for (const Section& section : kRun(settings)) show(section);
}

constexpr Benchmark kBenchmarks[] = {
    {"simulator", "rates of generating, lowering, verifying and simulating",
     when_ended<bench_simulator>},
    {"schedules", "seconds that automatic schedulers take", when_ended<bench_schedules>},
    {"pipeline", "two stages on two cores beside their simulated ideal",
     when_ended<bench_pipeline>},
    {"ranks", "hand-overs and pipelines over loopback, beside threads", when_ended<bench_ranks>},
    {"checkpoint", "what checkpoints cost a run, and how fast they reach the disk",
     when_ended<bench_checkpoint>},
    {"gpu", "kernels of a GPU beside the best that it does", bench_gpu},
    {"gpu-gpt2", "steps of GPT-2 124 M on a GPU, beside PyTorch", bench_gpu_gpt2},
    {"gpu-stage", "steps of a stage of GPT 1.3 B on a GPU, beside PyTorch", bench_gpu_stage},
    {"training", "tokens a second on the CPU, beside PyTorch and the cores' peak",
     when_ended<bench_training>},
};

struct Request {
  std::vector<const Benchmark*> chosen;
  Settings settings;
  bool json = false, check = false, help = false;
};

void print_help() {
  fmt::print(
      "usage: tandem_bench [NAME...] [--repetitions N] [--python FILE] [--check] [--json]\n\n"
      "Runs the benchmarks named, or all of them.\n"
      "  --repetitions N  runs of each loop, the best of which counts (default {})\n"
      "  --python FILE    whose PyTorch is a peer in training; may be given again (default {})\n"
      "  --check          exit code 6 if a floor is missed\n"
      "  --json           one JSON object on stdout\n\nBenchmarks:\n",
      Settings{}.repetitions, Settings{}.pythons.front());
  for (const Benchmark& row : benchmarks()) fmt::print("  {:<10} {}\n", row.name, row.summary);
}

int repetitions_of(const std::string& text) {
  const int number = number_in<int>(text).value_or(0);
  if (number < 1 || number > 1000)
    throw UsageError(fmt::format("--repetitions: expected 1 to 1000, found \"{}\"", text));
  return number;
}

const Benchmark& find_benchmark(const std::string& name) {
  std::vector<std::string> known;
  for (const Benchmark& row : benchmarks()) {
    if (row.name == name) return row;
    known.emplace_back(row.name);
  }
  throw UsageError(fmt::format("no benchmark \"{}\"{}", name, did_you_mean(name, known)));
}

Request parse(const std::vector<std::string>& arguments) {
  Request request;
  bool names_pythons = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--json") {
      request.json = true;
    } else if (word == "--check") {
      request.check = true;
    } else if (word == "--help" || word == "-h") {
      request.help = true;
    } else if (word == "--repetitions") {
      request.settings.repetitions =
          repetitions_of(++i < arguments.size() ? arguments[i] : std::string());
    } else if (word == "--python") {
      if (++i == arguments.size()) throw UsageError("--python: expected a file");
      if (!std::exchange(names_pythons, true)) request.settings.pythons.clear();
      request.settings.pythons.push_back(arguments[i]);
    } else if (word.starts_with("-")) {
      throw UsageError(fmt::format("unknown option {}", word));
    } else {
      request.chosen.push_back(&find_benchmark(word));
    }
  }
  if (request.chosen.empty()) {
    for (const Benchmark& row : benchmarks()) request.chosen.push_back(&row);
  }
  return request;
}

std::string floor_of(const Row& row) {
  if (!row.floor) return "";
  return fmt::format("{} {}{}", row.at_most ? "at most" : "at least", *row.floor,
                     met(row) ? "" : "  MISSED");
}

void print_section(const Section& section) {
  fmt::print("\n{}\n", section.title);
  for (const Row& row : section.rows) {
    const std::string ratio =
        row.of.empty() ? std::string() : fmt::format("{:.4g} x {}", row.ratio, row.of);
    fmt::print("  {:<44} {:>10.4g} {:<18} {:<32} {}\n", row.what, row.value, row.unit, ratio,
               floor_of(row));
  }
  std::fflush(stdout);
}

Json section_json(const Section& section) {
  const auto row_json = [](const Row& row) {
    Json one = {{"what", row.what}, {"value", row.value}, {"unit", row.unit}};
    if (!row.of.empty()) {
      one["of"] = row.of;
      one["ratio"] = row.ratio;
    }
    if (row.floor) {
      one[row.at_most ? "at_most" : "at_least"] = *row.floor;
      one["met"] = met(row);
    }
    return one;
  };
  return {{"title", section.title}, {"rows", tools::array_of(section.rows, row_json)}};
}

int run(const Request& request) {
  bool good = true;
  Json results = Json::array();
  for (const Benchmark* benchmark : request.chosen) {
    Json sections = Json::array();
    benchmark->run(request.settings, [&](const Section& section) {
      for (const Row& row : section.rows) good = good && met(row);
      if (request.json)
        sections.push_back(section_json(section));
      else
        print_section(section);
    });
    results.push_back({{"benchmark", benchmark->name}, {"sections", std::move(sections)}});
  }
  if (request.json) {
    tools::print_result("bench", {{"repetitions", request.settings.repetitions}}, Json::object(),
                        {{"good", good}, {"benchmarks", std::move(results)}});
  }
  return request.check && !good ? static_cast<int>(ExitCode::differences) : 0;
}

}  // namespace

std::span<const Benchmark> benchmarks() { return kBenchmarks; }

double processor_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

std::vector<double> best_processor_seconds(int repetitions,
                                           const std::vector<std::function<void()>>& functions) {
  std::vector<double> best(functions.size(), std::numeric_limits<double>::infinity());
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t i = 0; i < functions.size(); ++i) {
      const double start = processor_seconds();
      functions[i]();
      best[i] = std::min(best[i], processor_seconds() - start);
    }
  }
  return best;
}

bool met(const Row& row) {
  if (!row.floor) return true;
  const double measured = row.of.empty() ? row.value : row.ratio;
  return row.at_most ? measured <= *row.floor : measured >= *row.floor;
}

}  // namespace tandem::benchmarks

int main(int argc, char** argv) {
  using namespace tandem;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool json = std::ranges::find(arguments, "--json") != arguments.end();
  try {
    const benchmarks::Request request = benchmarks::parse(arguments);
    if (!request.help) return benchmarks::run(request);
    benchmarks::print_help();
    return 0;
  } catch (const Error& error) {
    return tools::report_failure(error.code(), error.what(), {}, json);
  } catch (const std::exception& error) {
    return tools::report_failure(ExitCode::failed, error.what(), {}, json);
  }
}

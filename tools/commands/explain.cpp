// tandem explain idle: what each bubble of a device waited for.

#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/text/count_text.h"
#include "simulator/analysis/binding_graph.h"
#include "simulator/analysis/idle.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/options/scenario_options.h"
#include "tools/print/scenario_summary.h"
#include "tools/print/simulation_report.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kMostPrinted = 40;  // bubbles, for people
constexpr std::size_t kMostOfChain = 6;   // ops of one, for people

std::int64_t microbatch_of(const Program& program, const Span& span) {
  return span.body * program.microbatches() + program[span.instruction].op.microbatch;
}

std::string name_of(const Program& program, const Span& span) {
  return cause(program, span.instruction, fmt::format(" #{}", microbatch_of(program, span)));
}

std::string chain_text(const Program& program, const Bubble& bubble) {
  if (bubble.last) return "nothing: other devices finish the run";
  std::string text;
  for (std::size_t i = 0; i < bubble.chain.size() && i < kMostOfChain; ++i) {
    const HeldUp& held = bubble.chain[i];
    text += fmt::format("{}{} ({})", i == 0 ? "" : " < ", name_of(program, held.span),
                        print_duration(held.time));
  }
  if (bubble.chain.size() > kMostOfChain)
    text += fmt::format(" < {} more", bubble.chain.size() - kMostOfChain);
  return text;
}

Duration total(const std::vector<Bubble>& bubbles) {
  Duration sum{};
  for (const Bubble& bubble : bubbles) sum += bubble.time();
  return sum;
}

double percent(Duration part, Duration whole) {
  return whole.count() == 0
             ? 0.0
             : 100.0 * static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

void print_text(const Program& program, DeviceId device, const SimulationResult& result,
                const std::vector<Bubble>& bubbles) {
  const Duration idle = total(bubbles);
  fmt::print("device {} of {} is idle for {} of {} ({:.1f} %), in {}\n", index(device),
             schedule_heading(program.schedule()), print_duration(idle),
             print_duration(result.makespan), percent(idle, result.makespan),
             counted(bubbles.size(), "bubble"));
  if (bubbles.empty()) return;
  fmt::print("\n{:>11} {:>8} {:>8}  {}\n", "time", "of idle", "bubbles", "waited for");
  for (const Cause& cause : causes_of(program, bubbles)) {
    fmt::print("{:>11} {:>6.1f} % {:>8}  {}\n", print_duration(cause.time),
               percent(cause.time, idle), cause.bubbles, cause.name);
  }
  fmt::print("\n{:>11} {:>11}  {:<28} {}\n", "from", "for", "then",
             "waited for, which waited for …");
  for (std::size_t i = 0; i < bubbles.size() && i < kMostPrinted; ++i) {
    const Bubble& bubble = bubbles[i];
    fmt::print(
        "{:>11} {:>11}  {:<28} {}\n", print_duration(bubble.start), print_duration(bubble.time()),
        bubble.last ? "the end" : name_of(program, bubble.next), chain_text(program, bubble));
  }
  if (bubbles.size() > kMostPrinted)
    fmt::print("and {} more (--json has them all)\n", bubbles.size() - kMostPrinted);
}

Json op_json(const Program& program, const Span& span) {
  const Instruction& instruction = program[span.instruction];
  const CostKey& key = program.cost_keys()[instruction.cost];
  Json json{{"op", name(key.kind)},
            {"stage", index(instruction.op.replica)},
            {"microbatch", microbatch_of(program, span)},
            {"device", index(key.source)}};
  if (is_transfer(key.kind)) json["to_device"] = index(key.target);
  json["start_s"] = to_seconds(span.start);
  json["end_s"] = to_seconds(span.end);
  return json;
}

Json bubbles_json(const Program& program, DeviceId device, const SimulationResult& result,
                  const std::vector<Bubble>& bubbles) {
  const auto cause_json = [](const Cause& cause) -> Json {
    return {{"cause", cause.name}, {"time_s", to_seconds(cause.time)}, {"bubbles", cause.bubbles}};
  };
  const auto held_json = [&](const HeldUp& held) {
    Json op = op_json(program, held.span);
    op["held_up_s"] = to_seconds(held.time);
    return op;
  };
  const auto bubble_json = [&](const Bubble& bubble) -> Json {
    return {{"start_s", to_seconds(bubble.start)},
            {"end_s", to_seconds(bubble.end)},
            {"next", bubble.last ? Json() : op_json(program, bubble.next)},
            {"waited_for", array_of(bubble.chain, held_json)}};
  };
  return {{"device", index(device)},
          {"makespan_s", to_seconds(result.makespan)},
          {"idle_s", to_seconds(total(bubbles))},
          {"causes", array_of(causes_of(program, bubbles), cause_json)},
          {"bubbles", array_of(bubbles, bubble_json)}};
}

}  // namespace

Options options_of_explain() {
  Options options("explain", "idle [PLAN] --device D [options of simulate]",
                  "Says what each bubble of a device waited for, up to the cause.");
  add_scenario_options(options);
  options.value("device", "D", "the device to explain").words("PLAN", 0, 2).first_word({"idle"});
  return options;
}

int run_explain(const Options& given) {
  Options options = given;
  const std::string action = options.take_word();
  if (action.empty()) refuse(options, "idle is missing (usage: tandem explain idle …)");
  if (action != "idle")
    refuse(options, "unknown action \"{}\"{}", action, did_you_mean(action, {"idle"}));
  if (!options.has("device")) refuse(options, "--device is missing");
  if (names_several_schedules(options))
    refuse(options, "--schedule: expected one name, found several");
  const GivenOptions asked = given_options(options);
  const std::int64_t batches = asked.batches;
  check_most(asked, "batches", batches, kMostTraced);
  const ScenarioRequest request = scenario_request(asked);
  const PreparedScenario prepared = prepare(request);
  const Scenario& scenario = prepared.scenario;
  const Program& program = scenario.program;
  const auto device = id_at<DeviceId>(static_cast<std::size_t>(
      options.integer("device", 0, std::int64_t{program.placement().devices} - 1, 0)));
  check_traceable(program, "a run", batches);
  const SimulationResult result = simulate(scenario, {.batches = batches, .record = true});
  const std::vector<Bubble> bubbles = bubbles_of(program, *result.timeline, device);
  if (options.has("json")) {
    Json config = config_json(request, prepared);
    config["batches"] = batches;
    print_result("explain idle", std::move(config), assumptions_json(request, prepared),
                 bubbles_json(program, device, result, bubbles));
  } else {
    print_text(program, device, result, bubbles);
  }
  return prepared.search ? search_exit_code(*prepared.search) : 0;
}

}  // namespace tandem::tools

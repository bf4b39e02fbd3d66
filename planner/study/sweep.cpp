#include "planner/study/sweep.h"

#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/base/table.h"

namespace tandem {

namespace {

SweepAnswer answer_of(SweepRun run, const SearchWatch& watch) {
  PreparedScenario prepared = prepare_scenario(run.request, watch);
  if (prepared.search && prepared.search->interrupted) throw Interrupted("interrupted");
  SimulationResult result = simulate(prepared.scenario, {.batches = run.batches});
  std::optional<SimulationResult> healthy = simulate_healthy(prepared.scenario, run.batches);
  return {std::move(run), std::move(prepared), std::move(result), std::move(healthy)};
}

}  // namespace

SweepOutcome sweep_outcome(const std::function<SweepRun()>& run, const SearchWatch& watch) {
  try {
    return {.answer = answer_of(run(), watch)};
  } catch (const ShapeError& error) {
    return {.failure = {error.code(), error.what(), error.diagnostics(), true}};
  } catch (const InputError& error) {
    return {.failure = {error.code(), error.what(), error.diagnostics()}};
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    return {.failure = {error.code(), error.what()}};
  } catch (const std::bad_alloc&) {
    return {.failure = {ExitCode::failed, "out of memory"}};
  }
}

}  // namespace tandem

// Reads a model, prices its training on a cluster, simulates it, and writes plan and timeline.

#include <cstdio>

#include <tandem/core/files/read.h>
#include <tandem/core/import/models.h>
#include <tandem/core/model/catalog.h>
#include <tandem/core/text/files.h>
#include <tandem/planner/cluster/priced_plan.h>
#include <tandem/simulator/simulate.h>
#include <tandem/traces/chrome/chrome_trace.h>

int main() {
  const tandem::Cluster cluster(tandem::cluster_of_nodes("p3.16xlarge"));
  tandem::Plan plan{.model = tandem::read_model("model.json"), .schedule = "1f1b"};
  plan.request = {.devices = 4, .microbatches = 8, .width = 2};
  const auto priced = tandem::price_on_cluster(plan, cluster, tandem::NumberFormat::fp16);
  const auto result =
      tandem::simulate(priced.program, priced.prices, {.batches = 1, .record = true});
  tandem::write_file("plan.json", tandem::plan_text(priced.plan));
  const tandem::TraceRun run{.timeline = &*result.timeline};
  tandem::write_chrome_trace("1f1b.json", priced.program, {&run, 1});
  std::printf("%.9f s, %s\n", tandem::to_seconds(result.makespan),
              priced.fits() ? "fits" : "does not fit");
}

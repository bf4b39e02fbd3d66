// tandem import --from FORMAT FILE: what other programs say, in our formats.

#include <fmt/format.h>

#include "core/io/files.h"
#include "core/notation.h"
#include "tools/collective_report.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/output_file.h"
#include "tools/schedule_file.h"

namespace tandem::tools {

namespace {

constexpr int kMostFiles = 1000;

void import_schedule(const Options& options) {
  if (options.words().size() > 1)
    throw UsageError("tandem import: a schedule is one FILE of pytorch-csv");
  const std::string output = options.text("output", "/dev/stdout");
  check_can_write(output);
  write_file(output, print_schedule(read_pytorch_csv(options.words()[0])));
}

}  // namespace

int run_import(const Arguments& arguments) {
  Options options("import", "--from FORMAT FILE... [--output FILE]",
                  "Reads what another program wrote: a schedule, which it writes in tandem's "
                  "notation, or logs of all-reduces, to which it fits the constants of simulate "
                  "--collectives.");
  options.words("FILE", 1, kMostFiles);
  options
      .value("from", "FORMAT",
             "pytorch-csv: PyTorch's pipelining CSV, old and new; nccl-tests: logs of "
             "all_reduce_perf")
      .value("output", "FILE",
             "where to write the schedule (default: standard output) or the constants (default: "
             "nowhere)");
  options.parse(arguments);
  if (!options.has("from")) throw UsageError("tandem import: --from is missing");
  if (options.choice("from", {"pytorch-csv", "nccl-tests"}) == "nccl-tests") {
    import_collectives(options);
  } else {
    import_schedule(options);
  }
  return 0;
}

}  // namespace tandem::tools

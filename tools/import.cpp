// tandem import --from FORMAT FILE: schedules of others, in our notation.

#include <fmt/format.h>

#include "core/io/files.h"
#include "core/notation.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/output_file.h"
#include "tools/schedule_file.h"

namespace tandem::tools {

int run_import(const Arguments& arguments) {
  Options options("import", "--from FORMAT FILE [--output FILE]",
                  "Reads a schedule from another program's format and writes it in tandem's "
                  "notation.");
  options.words("FILE", 1, 1);
  options.value("from", "FORMAT", "pytorch-csv: PyTorch's pipelining CSV, old and new")
      .value("output", "FILE", "where to write it (default: standard output)");
  options.parse(arguments);
  if (!options.has("from")) throw UsageError("tandem import: --from is missing");
  options.choice("from", {"pytorch-csv"});
  const std::string output = options.text("output", "/dev/stdout");
  check_can_write(output);
  write_file(output, print_schedule(read_pytorch_csv(options.words()[0])));
  return 0;
}

}  // namespace tandem::tools

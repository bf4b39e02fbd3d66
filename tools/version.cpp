// tandem version, tandem doctor: what this build is, and what it can do here.

#include <thread>

#include <fmt/format.h>

#include "tandem_build_info.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/options.h"

namespace tandem::tools {

int run_version(const Arguments& arguments) {
  Options options("version", "[--json]", "The version of this build.");
  options.parse(arguments);
  if (options.has("json")) {
    print_result("version", Json::object(), Json::object(),
                 {{"version", build_info::kVersion},
                  {"revision", build_info::kRevision},
                  {"compiler", build_info::kCompiler},
                  {"build_type", build_info::kBuildType}});
    return 0;
  }
  fmt::print("tandem {} ({})\n", build_info::kVersion, build_info::kRevision);
  return 0;
}

int run_doctor(const Arguments& arguments) {
  Options options("doctor", "[--json]", "What this build and this machine can do.");
  options.parse(arguments);
  const unsigned cores = std::thread::hardware_concurrency();
  if (options.has("json")) {
    print_result("doctor", Json::object(), Json::object(),
                 {{"version", build_info::kVersion},
                  {"revision", build_info::kRevision},
                  {"compiler", build_info::kCompiler},
                  {"build_type", build_info::kBuildType},
                  {"sanitizers", build_info::kSanitizers},
                  {"cores", cores},
                  {"cuda", build_info::kCuda},
                  {"cuda_reason", build_info::kCudaReason},
                  {"nccl", build_info::kNccl},
                  {"nccl_reason", build_info::kNcclReason},
                  {"mpi", "no"},
                  {"cpu_kernels", {"portable"}},
                  {"backends", {"cpu"}},
                  {"transports", {"threads"}}});
    return 0;
  }
  fmt::print("tandem {} ({})\n", build_info::kVersion, build_info::kRevision);
  fmt::print("  built with   {}, {}, sanitizers: {}\n", build_info::kCompiler,
             build_info::kBuildType, build_info::kSanitizers);
  fmt::print("  cores        {}\n", cores);
  fmt::print(
      "  backends     cpu (portable kernels, float and double); cuda is not in this version\n");
  fmt::print("  transports   threads\n");
  fmt::print("  CUDA         {} ({})\n", build_info::kCuda, build_info::kCudaReason);
  fmt::print("  NCCL         {} ({})\n", build_info::kNccl, build_info::kNcclReason);
  return 0;
}

}  // namespace tandem::tools

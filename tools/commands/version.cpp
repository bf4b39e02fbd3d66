// tandem version, tandem doctor: what this build is, and what it can do here.

#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "executor/cpu/onednn.h"
#include "executor/cpu/products.h"
#include "executor/train.h"
#include "tandem_build_info.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"

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

namespace {

/// Of training here, by the names of --transport.
std::vector<std::string> transports(bool gpus, const FoundLibrary& nccl) {
  std::vector<std::string> names{"threads"};
  if (gpus) names.emplace_back("peer");
  if (gpus && nccl.why_absent.empty()) names.emplace_back("nccl");
  return names;
}

/// "2.28.9", or why there is none.
const std::string& describe(const FoundLibrary& library) {
  return library.why_absent.empty() ? library.version : library.why_absent;
}

}  // namespace

int run_doctor(const Arguments& arguments) {
  Options options("doctor", "[--json]", "Says what this build and this machine can do.");
  options.parse(arguments);
  const unsigned cores = std::thread::hardware_concurrency();
  const cpu::ChosenProducts products = cpu::products();
  const std::string onednn = cpu::onednn_version(), no_bf16 = cpu::why_no_bf16();
  const std::string no_cuda = why_no_cuda();
  const FoundLibrary nccl = find_nccl();
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
                  {"nccl_library", describe(nccl)},
                  {"mpi", "no"},
                  {"cpu_kernels", cpu::describe(products.engine)},
                  {"cpu_kernels_reason", products.reason},
                  {"onednn", onednn.empty() ? "no" : onednn},
                  {"bf16_products", no_bf16.empty() ? "yes" : no_bf16},
                  {"backends", no_cuda.empty() ? Json{"cpu", "cuda"} : Json{"cpu"}},
                  {"backend_cuda", no_cuda.empty() ? "yes" : no_cuda},
                  {"transports", transports(no_cuda.empty(), nccl)}});
    return 0;
  }
  fmt::print("tandem {} ({})\n", build_info::kVersion, build_info::kRevision);
  fmt::print("  built with   {}, {}, sanitizers: {}\n", build_info::kCompiler,
             build_info::kBuildType, build_info::kSanitizers);
  fmt::print("  cores        {}\n", cores);
  fmt::print("  backends     cpu{}\n",
             no_cuda.empty() ? ", cuda" : fmt::format("; cuda: {}", no_cuda));
  fmt::print("  products     {} ({})\n", cpu::describe(products.engine), products.reason);
  fmt::print("  oneDNN       {}; bf16 products: {}\n", onednn.empty() ? "no" : onednn,
             no_bf16.empty() ? "yes" : no_bf16);
  fmt::print("  transports   {}\n", fmt::join(transports(no_cuda.empty(), nccl), ", "));
  fmt::print("  CUDA         {} ({})\n", build_info::kCuda, build_info::kCudaReason);
  fmt::print("  NCCL         {} ({}); found now: {}\n", build_info::kNccl, build_info::kNcclReason,
             describe(nccl));
  return 0;
}

}  // namespace tandem::tools

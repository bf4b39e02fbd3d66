// tandem version, tandem doctor: what this build is, and what it can do here.

#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"
#include "executor/backends.h"
#include "executor/cpu/onednn.h"
#include "executor/cpu/products.h"
#include "executor/data/tokenizer/nfc.h"
#include "executor/data/tokenizer/split_pattern.h"
#include "tandem_build_info.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"

namespace tandem::tools {

static Json build_json() {
  return {{"version", build_info::kVersion},
          {"revision", build_info::kRevision},
          {"compiler", build_info::kCompiler},
          {"build_type", build_info::kBuildType}};
}

Options options_of_version() { return {"version", "[--json]", "The version of this build."}; }

int run_version(const Options& options) {
  if (options.has("json")) {
    print_result("version", Json::object(), Json::object(), build_json());
    return 0;
  }
  fmt::print("tandem {} ({})\n", build_info::kVersion, build_info::kRevision);
  return 0;
}

namespace {

/// Those that are here, then why the others are not: "cpu, cuda", "cpu; cuda: no GPU".
std::string describe_backends() {
  std::string here, absent;
  for (const BackendTraits& backend : backends()) {
    if (const std::string reason = backend.reason_absent(); !reason.empty())
      absent += fmt::format("; {}: {}", backend.name, reason);
    else
      here += fmt::format("{}{}", here.empty() ? "" : ", ", backend.name);
  }
  return here + absent;
}

/// The same as members of doctor's answer.
void add_backends(Json& result) {
  result["backends"] = Json::array();
  for (const BackendTraits& backend : backends()) {
    const std::string reason = backend.reason_absent();
    if (reason.empty()) result["backends"].push_back(backend.name);
    if (backend.why_absent != nullptr)
      result[fmt::format("backend_{}", backend.name)] = reason.empty() ? "yes" : reason;
  }
  result["transports"] = transports_here();
}

/// "2.28.9", or why there is none, of a package's library that is looked for while the program
/// runs; empty: none is.
std::string found_now(const build_info::Package& package) {
  const auto said = [](const FoundLibrary& library) {
    return library.why_absent.empty() ? library.version : library.why_absent;
  };
  if (package.name == "NCCL") return said(find_nccl());
  if (package.name == "cuDNN") return said(find_cudnn());
  return {};
}

}  // namespace

Options options_of_doctor() {
  return {"doctor", "[--json]", "Says what this build and this machine can do."};
}

int run_doctor(const Options& options) {
  const unsigned cores = std::thread::hardware_concurrency();
  const cpu::ChosenProducts products = cpu::products();
  const std::string onednn = cpu::onednn_version(), no_bf16 = cpu::why_no_bf16();
  if (options.has("json")) {
    Json result = build_json();
    result.update({{"sanitizers", build_info::kSanitizers}, {"cores", cores}});
    for (const build_info::Package& package : build_info::kPackages) {
      const std::string key = lower_case(package.name), found = found_now(package);
      result.update({{key, package.version}, {key + "_reason", package.reason}});
      if (!found.empty()) result[key + "_library"] = found;
    }
    const FoundLibrary mpi = find_transport("mpi").library();
    result.update({{"mpi", mpi.why_absent.empty() ? mpi.version : "no"},
                   {"mpi_reason", mpi.why_absent.empty() ? "found now" : mpi.why_absent},
                   {"cpu_kernels", cpu::describe(products.engine)},
                   {"cpu_kernels_reason", products.reason},
                   {"onednn", onednn.empty() ? "no" : onednn},
                   {"bf16_products", no_bf16.empty() ? "yes" : no_bf16},
                   {"pcre2", SplitPattern::library_version()},
                   {"utf8proc", nfc_library_version()}});
    add_backends(result);
    print_result("doctor", Json::object(), Json::object(), std::move(result));
    return 0;
  }
  fmt::print("tandem {} ({})\n", build_info::kVersion, build_info::kRevision);
  fmt::print("  built with   {}, {}, sanitizers: {}\n", build_info::kCompiler,
             build_info::kBuildType, build_info::kSanitizers);
  fmt::print("  cores        {}\n", cores);
  fmt::print("  backends     {}\n", describe_backends());
  fmt::print("  products     {} ({})\n", cpu::describe(products.engine), products.reason);
  fmt::print("  oneDNN       {}; bf16 products: {}\n", onednn.empty() ? "no" : onednn,
             no_bf16.empty() ? "yes" : no_bf16);
  fmt::print("  tokenizers   PCRE2 {} (Unicode {}), utf8proc {}\n", SplitPattern::library_version(),
             SplitPattern::unicode_version(), nfc_library_version());
  fmt::print("  transports   {}\n", fmt::join(transports_here(), ", "));
  const FoundLibrary mpi = find_transport("mpi").library();
  fmt::print("  MPI          {}\n",
             mpi.why_absent.empty() ? mpi.version : "no (" + mpi.why_absent + ")");
  for (const build_info::Package& package : build_info::kPackages) {
    const std::string found = found_now(package);
    fmt::print("  {:<12} {} ({}){}\n", package.name, package.version, package.reason,
               found.empty() ? "" : "; found now: " + found);
  }
  return 0;
}

}  // namespace tandem::tools

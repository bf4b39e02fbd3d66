#include "tools/options/backend_options.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem::tools {

void add_storage_option(Options& options) {
  options.value("storage", "TYPE",
                "f32|bf16: how activations, and the weights that products read, are stored "
                "(default f32); trained weights are f32; bf16 is for --backend cuda");
}

void add_backend_options(Options& options) {
  options.value("backend", "NAME", "cpu|cuda (default cpu)")
      .value("transport", "NAME", "threads (cpu); peer, nccl (cuda)");
  add_storage_option(options);
}

std::string backend_of(const Options& options) {
  return options.choice("backend", {"cpu", "cuda"});
}

Storage storage_of(const Options& options) {
  return options.choice("storage", {"f32", "bf16"}) == "bf16" ? Storage::bf16 : Storage::f32;
}

std::vector<std::string> storage_warnings(Storage storage) {
  if (storage == Storage::f32) return {};
  return {"--storage bf16: memory is counted for it, but times are those of the profile, which "
          "measured f32; train the plan with --backend cuda --storage bf16"};
}

void check_backend(const Options& options) {
  const bool on_gpus = backend_of(options) == "cuda";
  const auto transport = options.choice("transport", {"threads", "tcp", "mpi", "peer", "nccl"});
  if (transport == "tcp" || transport == "mpi")
    throw UsageError(fmt::format("tandem train: --transport {} is not in this version", transport));
  if (options.has("transport") && on_gpus != (transport == "peer" || transport == "nccl"))
    throw UsageError("tandem train: --transport threads is for --backend cpu, peer|nccl for cuda");
  if (storage_of(options) == Storage::bf16 && !on_gpus)
    throw UsageError("tandem train: --storage bf16 is for --backend cuda");
  if (storage_of(options) == Storage::bf16 && transport == "nccl")
    throw UsageError("tandem train: --storage bf16 needs --transport peer in this version");
  if (on_gpus && options.has("verify"))
    throw UsageError(
        "tandem train: --verify compares bits with the CPU, and a GPU rounds otherwise");
}

}  // namespace tandem::tools

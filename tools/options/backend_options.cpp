#include "tools/options/backend_options.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "executor/cpu/products.h"
#include "tools/options/given_options.h"

namespace tandem::tools {

namespace {

/// A backend's transports; the first is its default.
std::vector<std::string> transports_of(std::string_view backend) {
  std::vector<std::string> names;
  for (const TransportTraits& transport : transports()) {
    if (transport.backend == backend) names.emplace_back(transport.name);
  }
  return names;
}

bool carries(const TransportTraits& transport, Storage storage) {
  return std::ranges::find(transport.storages, storage) != transport.storages.end();
}

std::string transport_of(const Options& options) {
  std::vector<std::string> names;
  for (const TransportTraits& transport : transports()) names.emplace_back(transport.name);
  return options.choice("transport", names);
}

/// "threads (cpu); peer, nccl (cuda)".
std::string transports_by_backend() {
  std::string text;
  for (const BackendTraits& backend : backends()) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ",
                        fmt::join(transports_of(backend.name), ", "), backend.name);
  }
  return text;
}

}  // namespace

void add_backend_option(Options& options) {
  options.value(
      "backend", "NAME",
      fmt::format("{} (default {})", fmt::join(backend_names(), "|"), backends().front().name));
}

void add_backend_options(Options& options) {
  add_backend_option(options);
  options.value("transport", "NAME", transports_by_backend());
  declare(options, "storage");
}

const BackendTraits& backend_of(const Options& options) {
  return find_backend(options.choice("backend", backend_names()));
}

Storage storage_of(const OptionValue& value) {
  return value.choice({"f32", "bf16"}) == "bf16" ? Storage::bf16 : Storage::f32;
}

Storage storage_of(const Options& options) {
  return options.has("storage") ? storage_of(options["storage"]) : Storage::f32;
}

bool by_messages(const Options& options) {
  return find_transport(transport_of(options)).by_messages;
}

void check_backend(const Options& options) {
  const BackendTraits& backend = backend_of(options);
  const TransportTraits& transport = find_transport(transport_of(options));
  const Storage storage = storage_of(options);
  const auto refuse_run = [](const std::string& why) { throw UsageError("tandem train: " + why); };
  if (transport.backend.empty())
    refuse_run(fmt::format("--transport {} is not in this version", transport.name));
  if (options.has("transport") && transport.backend != backend.name)
    refuse_run(fmt::format("--transport {} needs --backend {}", transport.name, transport.backend));
  if (!backend.offers(storage))
    refuse_run(fmt::format("--storage {} is for --backend {}", name(storage),
                           backend_offering(storage).name));
  if (options.has("transport") && !carries(transport, storage)) {
    const auto other = std::ranges::find_if(transports(), [&](const TransportTraits& one) {
      return one.backend == backend.name && carries(one, storage);
    });
    refuse_run(fmt::format("--storage {} needs --transport {} in this version", name(storage),
                           other->name));
  }
  if (options.has("verify") && !backend.why_other_bits.empty())
    refuse_run(fmt::format("--verify compares bits with the CPU, and {}", backend.why_other_bits));
}

void add_kernel_options(Options& options) {
  options
      .value(
          "kernels", "NAME",
          "auto|portable|onednn: library for matrix products on the CPU (default: TANDEM_KERNELS "
          "of the environment, or auto)")
      .value("products", "TYPE",
             "f32|bf16: how the factors of products are rounded; sums and weights are f32 (default "
             "f32)");
}

void choose_kernels(const Options& options, bool on_host) {
  const bool rounds = options.choice("products", {"f32", "bf16"}) == "bf16";
  const cpu::Precision precision = rounds ? cpu::Precision::bf16 : cpu::Precision::f32;
  const std::string engine = options.choice("kernels", {"auto", "portable", "onednn"});
  if (on_host) return cpu::set_products({.engine = engine, .precision = precision});
  if (options.has("kernels"))
    throw UsageError(
        fmt::format("tandem {}: --kernels is for --backend cpu: on GPUs cuBLASLt computes products",
                    options.command()));
  cpu::set_product_precision(precision);
}

}  // namespace tandem::tools

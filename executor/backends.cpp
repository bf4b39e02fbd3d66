#include "executor/backends.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "executor/ranks/mpi_module.h"
#include "executor/train.h"

namespace tandem {

namespace {

constexpr std::array kWide{Storage::f32};
constexpr std::array kBoth{Storage::f32, Storage::bf16};

MeasuredProfile measure_cpu_profile(ProfileRequest request) {
  return {measure_profile(request, *make_cpu_trainer()), {}};
}

FoundLibrary find_mpi_library() {
  const FoundMpi& found = find_mpi();
  if (found.module == nullptr) return {.why_absent = found.why_absent};
  return {.version = found.module->version()};
}

constexpr std::array<BackendTraits, 2> kBackends{{
    {.name = "cpu",
     .storages = kWide,
     .why_other_bits = {},
     .on_host = true,
     .why_absent = nullptr,
     .make = make_cpu_trainer,
     .measure = measure_cpu_profile},
    {.name = "cuda",
     .storages = kBoth,
     .why_other_bits = "a GPU rounds otherwise",
     .on_host = false,
     .why_absent = why_no_cuda,
     .make = make_cuda_trainer,
     .measure = measure_cuda_profile},
}};

constexpr std::array<TransportTraits, 5> kTransports{{
    {.name = "threads", .backend = "cpu", .storages = kWide},
    {.name = "tcp",
     .backend = "cpu",
     .storages = kWide,
     .within_process = false,
     .between_ranks = true},
    {.name = "mpi",
     .backend = "cpu",
     .storages = kWide,
     .within_process = false,
     .between_ranks = true,
     .by_launcher = true,
     .library = find_mpi_library},
    {.name = "peer", .backend = "cuda", .storages = kBoth},
    {.name = "nccl",
     .backend = "cuda",
     .storages = kWide,
     .by_messages = true,
     .between_ranks = true,
     .library = find_nccl,
     .prepare = prepare_nccl},
}};

template <class Rows>
const auto& row_of(const Rows& rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, [](const auto& row) { return row.name; });
  TANDEM_CHECK(found != rows.end(), name);
  return *found;
}

}  // namespace

bool BackendTraits::offers(Storage storage) const {
  return std::ranges::find(storages, storage) != storages.end();
}

std::span<const BackendTraits> backends() { return kBackends; }

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BackendTraits& backend : kBackends) names.emplace_back(backend.name);
  return names;
}

const BackendTraits& find_backend(std::string_view name) { return row_of(kBackends, name); }

const BackendTraits& backend_offering(Storage storage) {
  const auto found = std::ranges::find_if(
      kBackends, [storage](const BackendTraits& backend) { return backend.offers(storage); });
  TANDEM_CHECK(found != kBackends.end(), index(storage));
  return *found;
}

void check_present(const BackendTraits& backend) {
  if (const std::string reason = backend.reason_absent(); !reason.empty())
    throw AbsentError(fmt::format("backend {}: {}; use --backend {}", backend.name, reason,
                                  kBackends.front().name));
}

MeasuredProfile measure_on(const BackendTraits& backend, ProfileRequest request) {
  MeasuredProfile measured = backend.measure(std::move(request));
  measured.profile.backend = backend.name;
  return measured;
}

std::span<const TransportTraits> transports() { return kTransports; }

const TransportTraits& find_transport(std::string_view name) { return row_of(kTransports, name); }

std::vector<std::string> transports_here() {
  std::vector<std::string> names;
  for (const TransportTraits& transport : kTransports) {
    if (!find_backend(transport.backend).reason_absent().empty()) continue;
    if (transport.library == nullptr || transport.library().why_absent.empty())
      names.emplace_back(transport.name);
  }
  return names;
}

}  // namespace tandem

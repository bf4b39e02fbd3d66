#include "tools/options/rank_options.h"

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/files/read.h"
#include "core/text/files.h"
#include "core/text/json_document.h"
#include "executor/ranks/device_ranks.h"
#include "executor/ranks/local_ranks.h"
#include "executor/ranks/shared_secret.h"
#include "executor/run/run_shape.h"
#include "tools/cli/machine.h"
#include "tools/cli/memory_limit.h"
#include "tools/cli/notices.h"

namespace tandem::tools {

namespace {

/// Where ranks may differ: names of files and folders, and what each is told for itself.
constexpr std::array<std::string_view, 14> kOwn = {
    "checkpoint", "init",        "inject",      "json",      "log",   "metrics", "rendezvous",
    "resume",     "secret-file", "tensorboard", "tokenizer", "trace", "data",    "output"};

std::uint64_t hash_of_options(const Options& options) {
  std::vector<std::string> given;
  for (const std::string& name : options.given()) {
    if (std::ranges::find(kOwn, name) == kOwn.end())
      given.push_back(name + "=" + options.text(name));
  }
  std::ranges::sort(given);
  return hash_of_text(fmt::format("{}", fmt::join(given, "\n")));
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string secret_of(const Options& options, const RankPlace& place) {
  const auto secret = shared_secret(
      environment_variable,
      options.has("secret-file") ? std::optional(options.text("secret-file")) : std::nullopt);
  if (secret) return *secret;
  if (is_loopback(place.rendezvous_host)) return {};
  throw InputError(
      fmt::format("ranks that meet at {} need a secret that they share, or anyone could join them: "
                  "--secret-file FILE (of mode 600), or TANDEM_SECRET in the environment",
                  place.rendezvous_host));
}

}  // namespace

void add_rank_options(Options& options) {
  options.value("ranks", "MAP",
                "devices of each rank, as 0-1/2,3 (default: as even as can be); ranks are started "
                "by tandem launch, torchrun, mpirun or srun");
  add_meeting_options(options);
  options.value("inject", "FAULT",
                "for tests: do something wrong once, as corrupt:frame=17 or kill:op=40");
}

void add_meeting_options(Options& options) {
  options.value("rendezvous", "HOST:PORT", "where rank 0 listens (default: as the launcher says)")
      .input("secret-file", "FILE",
             "secret that the ranks share (default: TANDEM_SECRET of the environment)");
}

std::optional<RankPlace> rank_place_of(const Options& options) {
  const std::string asked = options.text("rendezvous");
  std::optional<RankPlace> place = find_rank_place([&asked](const char* name) {
    return !asked.empty() && std::string_view(name) == "TANDEM_RENDEZVOUS"
               ? std::optional(asked)
               : environment_variable(name);
  });
  if (!place || place->ranks == 1) {
    refuse_given(
        options, {"ranks", "rendezvous", "secret-file", "inject"},
        "--{} is for several ranks: start them by tandem launch, torchrun, mpirun or srun");
    return std::nullopt;
  }
  return place;
}

RankGroupSetup group_setup(const Options& options, const RankPlace& place) {
  RankGroupSetup setup{.rank = place.rank,
                       .ranks = place.ranks,
                       .rendezvous_host = place.rendezvous_host,
                       .rendezvous_port = place.rendezvous_port,
                       .secret = secret_of(options, place),
                       .identity = {{"version", hash_of_text(tool_name())},
                                    {"set of options", hash_of_options(options)}},
                       .on_notice = print_note};
  if (place.launcher != "tandem") {  // which watches its ranks itself
    setup.local_ranks = [place, rendezvous = options.text("rendezvous")] {
      return find_local_ranks(place, rendezvous);
    };
  }
  return setup;
}

Ranks::Ranks(const Options& options, const RankPlace& place, const std::string& path)
    : map_(options.text("ranks")) {
  if (options.has("inject") && place.restarts == 0)
    faults_ = std::make_unique<FaultInjector>(parse_fault(options.text("inject")));
  RankGroupSetup setup = group_setup(options, place);
  setup.identity.emplace_back("plan", hash_of_text(read_file(path, kLargestJson)));
  setup.faults = faults_.get();
  if (options.text("transport") == "mpi") setup.mpi = find_mpi().module;
  group_ = std::make_unique<RankGroup>(std::move(setup));
  name_process(group_->name(group_->rank()));
}

void Ranks::fail(const std::exception& error) const {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  group_->fail(no_memory ? "out of memory" : error.what());
}

DeviceRanks Ranks::device_ranks(const Program& program) const {
  const std::size_t devices = std::size_t{program.placement().devices} * width_of(program);
  return map_.empty() ? even_device_ranks(devices, count())
                      : parse_device_ranks(map_, devices, count());
}

RankRun& Ranks::connect(const Program& program, bool by_messages) {
  DeviceRanks of = device_ranks(program);
  CommunicatorPlans plans(program, width_of(program), of);
  if (by_messages) plans = plans.norms();
  run_ = std::make_unique<RankRun>(*group_, std::move(plans), std::move(of), print_last_error);
  return *run_;
}

}  // namespace tandem::tools

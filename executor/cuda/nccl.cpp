#include "executor/cuda/nccl.h"

#include <cstring>

#include <fmt/format.h>
#include <nccl.h>

#include "core/base/error.h"
#include "executor/cuda/cuda.h"
#include "executor/cuda/runtime/library.h"

namespace tandem::cuda {
namespace {

static_assert(static_cast<int>(NcclResult::success) == ncclSuccess);
static_assert(static_cast<int>(NcclResult::gpu_failed) == ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclResult::system_failed) == ncclSystemError);
static_assert(static_cast<int>(NcclResult::invalid_usage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::remote_failed) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::in_progress) == ncclInProgress);
static_assert(Nccl::kNoPart == NCCL_SPLIT_NOCOLOR);
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

NcclResult result_of(ncclResult_t result) { return static_cast<NcclResult>(result); }

std::string print_version(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

/// `name` outlives it.
ncclConfig_t configuration(const CommunicatorPlace& place) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (place.most_blocks > 0) config.maxCTAs = place.most_blocks;
  config.commName = place.name.c_str();
  return config;
}

class LoadedNccl final : public Nccl {
 public:
  explicit LoadedNccl(std::span<const std::string> libraries) : library_("NCCL", libraries) {
    // It does not know the configuration of a later one.
    if (number() >= NCCL_VERSION_CODE) return;
    throw AbsentError(fmt::format("{} is NCCL {}, and this build is of {}", library_.path(),
                                  version(), print_version(NCCL_VERSION_CODE)));
  }

  std::string version() const override { return print_version(number()); }
  std::string describe(NcclResult result) const override {
    return error_string_(static_cast<ncclResult_t>(result));
  }
  std::string last_error(NcclHandle handle) const override {
    const char* const more = last_error_(handle);
    return more == nullptr ? std::string() : std::string(more);
  }
  NcclResult make_id(NcclId& id) override {
    ncclUniqueId made{};
    const NcclResult result = result_of(make_id_(&made));
    std::memcpy(id.data(), made.internal, id.size());
    return result;
  }
  NcclResult init(NcclHandle& made, const NcclId& id, const CommunicatorPlace& place) override {
    ncclConfig_t config = configuration(place);
    ncclUniqueId its{};
    std::memcpy(its.internal, id.data(), id.size());
    return result_of(init_(&made, place.ranks, its, place.rank, &config));
  }
  NcclResult split(NcclHandle parent, int part, NcclHandle& made,
                   const CommunicatorPlace& place) override {
    ncclConfig_t config = configuration(place);
    return result_of(split_(parent, part, place.rank, &made, &config));
  }
  NcclResult size(NcclHandle handle, int& ranks, int& rank) override {
    const ncclResult_t counted = count_(handle, &ranks);
    return result_of(counted == ncclSuccess ? rank_(handle, &rank) : counted);
  }
  NcclResult async_error(NcclHandle handle, NcclResult& state) override {
    ncclResult_t found = ncclSuccess;
    const NcclResult result = result_of(async_error_(handle, &found));
    state = result_of(found);
    return result;
  }
  NcclResult finalize(NcclHandle handle) override { return result_of(finalize_(handle)); }
  NcclResult destroy(NcclHandle handle) override { return result_of(destroy_(handle)); }
  NcclResult abort(NcclHandle handle) override { return result_of(abort_(handle)); }
  NcclResult group_start() override { return result_of(group_start_()); }
  NcclResult group_end() override { return result_of(group_end_()); }
  NcclResult send(std::span<const std::byte> bytes, int to, NcclHandle handle,
                  GpuStream stream) override {
    return result_of(send_(bytes.data(), bytes.size(), ncclUint8, to, handle, stream));
  }
  NcclResult receive(std::span<std::byte> into, int from, NcclHandle handle,
                     GpuStream stream) override {
    return result_of(receive_(into.data(), into.size(), ncclUint8, from, handle, stream));
  }
  NcclResult sum(std::span<float> values, NcclHandle handle, GpuStream stream) override {
    return result_of(all_reduce_(values.data(), values.data(), values.size(), ncclFloat32, ncclSum,
                                 handle, stream));
  }

 private:
  int number() const {
    int number = 0;
    version_(&number);
    return number;
  }

  Library library_;
  decltype(&ncclGetVersion) version_ = library_["ncclGetVersion"];
  decltype(&ncclGetErrorString) error_string_ = library_["ncclGetErrorString"];
  decltype(&ncclGetLastError) last_error_ = library_["ncclGetLastError"];
  decltype(&ncclGetUniqueId) make_id_ = library_["ncclGetUniqueId"];
  decltype(&ncclCommInitRankConfig) init_ = library_["ncclCommInitRankConfig"];
  decltype(&ncclCommSplit) split_ = library_["ncclCommSplit"];
  decltype(&ncclCommCount) count_ = library_["ncclCommCount"];
  decltype(&ncclCommUserRank) rank_ = library_["ncclCommUserRank"];
  decltype(&ncclCommGetAsyncError) async_error_ = library_["ncclCommGetAsyncError"];
  decltype(&ncclCommFinalize) finalize_ = library_["ncclCommFinalize"];
  decltype(&ncclCommDestroy) destroy_ = library_["ncclCommDestroy"];
  decltype(&ncclCommAbort) abort_ = library_["ncclCommAbort"];
  decltype(&ncclGroupStart) group_start_ = library_["ncclGroupStart"];
  decltype(&ncclGroupEnd) group_end_ = library_["ncclGroupEnd"];
  decltype(&ncclSend) send_ = library_["ncclSend"];
  decltype(&ncclRecv) receive_ = library_["ncclRecv"];
  decltype(&ncclAllReduce) all_reduce_ = library_["ncclAllReduce"];
};

}  // namespace

std::unique_ptr<Nccl> load_nccl(std::span<const std::string> libraries) {
  return std::make_unique<LoadedNccl>(libraries);
}

std::vector<std::string> nccl_libraries() {
  return library_places(fmt::format("libnccl.so.{}", NCCL_MAJOR), {"NCCL_HOME"});
}

Nccl& nccl() {
  static const std::unique_ptr<Nccl> loaded = load_nccl(nccl_libraries());
  return *loaded;
}

}  // namespace tandem::cuda

namespace tandem {

FoundLibrary find_nccl() {
  try {
    return {.version = cuda::nccl().version()};
  } catch (const AbsentError& error) {
    return {.why_absent = error.what()};
  }
}

}  // namespace tandem

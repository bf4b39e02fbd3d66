#include "executor/cuda/kernels/fused_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/cuda/runtime/check.h"
#include "executor/cuda/runtime/library.h"

// Where the frontend looks for cuDNN's functions.
void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace tandem::cuda {
namespace {

namespace fe = cudnn_frontend;
using Graph = fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int kOldest = 90800;  // describes a device, and knows a deterministic backward

/// The library, loaded at the first call for the life of the process. Throws AbsentError.
const Library& cudnn() {
  static const Library loaded = [] {
    // cuDNN compiles kernels by it, and asks for it by name alone, which a package of Python is no
    // place for. Absent: cuDNN says so where it needs it.
    static const Library compiler = [] {
      try {
        return Library("NVRTC",
                       library_places(fmt::format("libnvrtc.so.{}", CUDART_VERSION / 1000)));
      } catch (const AbsentError&) {
        return Library();
      }
    }();
    Library library("cuDNN", library_places("libcudnn.so.9", {"CUDNN_HOME"}));
    fe::cudnn_dlhandle = library.handle();
    if (const auto version = fe::detail::get_backend_version(); version < kOldest) {
      throw AbsentError(
          fmt::format("{} is cuDNN {}, and 9.8 or newer is needed", library.path(), version));
    }
    return library;
  }();
  return loaded;
}

/// Throws DeviceError with cuDNN's words.
void check(fe::error_t error, const char* what) {
  if (error.is_bad()) throw DeviceError(fmt::format("cuDNN: {}: {}", what, error.get_message()));
}
void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw DeviceError(fmt::format("{}: {}", call, fe::detail::get_error_string(status)));
}

struct DestroyHandle {
  void operator()(cudnnHandle_t handle) const { fe::detail::destroy_handle(handle); }
};
using Handle = std::unique_ptr<cudnnContext, DestroyHandle>;

Handle make_handle() {
  cudnnHandle_t handle = nullptr;
  check(fe::detail::create_handle(&handle), "cudnnCreate");
  return Handle(handle);
}

/// What tensors of a graph are called: where a call finds their memory.
enum Name : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOutput,
  kLogSum,
  kOutputGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient
};

/// One graph of cuDNN's and its plan.
class Plan {
 public:
  explicit Plan(const AttentionShape& shape) : shape_(shape) {
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void add_forward() {
    auto [output, log_sum] =
        graph_.sdpa(in_qkv("q", kQuery), in_qkv("k", kKey), in_qkv("v", kValue),
                    fe::graph::SDPA_attributes()
                        .set_name("attention")
                        .set_generate_stats(true)
                        .set_causal_mask(true)
                        .set_attn_scale(scale()));
    as_output(output, kOutput, token_strides(1));
    log_sum->set_output(true)
        .set_uid(kLogSum)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(row_sizes())
        .set_stride(row_strides());
  }

  void add_backward() {
    const Tensor log_sum = graph_.tensor(fe::graph::Tensor_attributes()
                                             .set_name("log_sum")
                                             .set_uid(kLogSum)
                                             .set_data_type(fe::DataType_t::FLOAT)
                                             .set_dim(row_sizes())
                                             .set_stride(row_strides()));
    auto [dq, dk, dv] =
        graph_.sdpa_backward(in_qkv("q", kQuery), in_qkv("k", kKey), in_qkv("v", kValue),
                             in_y("y", kOutput), in_y("dy", kOutputGradient), log_sum,
                             fe::graph::SDPA_backward_attributes()
                                 .set_name("gradient of attention")
                                 .set_causal_mask(true)
                                 .set_attn_scale(scale())
                                 .set_deterministic_algorithm(true));
    as_output(dq, kQueryGradient, token_strides(3));
    as_output(dk, kKeyGradient, token_strides(3));
    as_output(dv, kValueGradient, token_strides(3));
  }

  /// For the device of a handle; null: for the kind that `properties` describes.
  void build(cudnnHandle_t handle, const std::shared_ptr<const fe::DeviceProperties>& properties) {
    if (properties) graph_.set_device_properties(properties);
    check(graph_.validate(), "validate");
    check(handle ? graph_.build_operation_graph(handle) : graph_.build_operation_graph(),
          "build_operation_graph");
    check(graph_.create_execution_plans({fe::HeurMode_t::A}), "create_execution_plans");
    check(graph_.check_support(), "check_support");
    check(graph_.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE), "build_plans");
  }

  Bytes workspace() const { return graph_.get_workspace_size(); }

  void run(cudnnHandle_t handle, std::unordered_map<std::int64_t, void*> memory,
           std::byte* workspace, const char* what) const {
    check(graph_.execute(handle, memory, workspace), what);
  }

 private:
  using Numbers = std::vector<std::int64_t>;

  std::int64_t channels() const { return shape_.width / shape_.heads; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(channels())); }
  Numbers sizes() const { return {shape_.batch, shape_.heads, shape_.sequence, channels()}; }
  /// Where a token has `parts` times the width.
  Numbers token_strides(std::int64_t parts) const {
    const std::int64_t token = parts * shape_.width;
    return {shape_.sequence * token, channels(), token, 1};
  }
  Numbers row_sizes() const { return {shape_.batch, shape_.heads, shape_.sequence, 1}; }
  Numbers row_strides() const { return {shape_.heads * shape_.sequence, shape_.sequence, 1, 1}; }

  Tensor input(const char* name, Name uid, const Numbers& strides) {
    return graph_.tensor(
        fe::graph::Tensor_attributes().set_name(name).set_uid(uid).set_dim(sizes()).set_stride(
            strides));
  }
  Tensor in_qkv(const char* name, Name uid) { return input(name, uid, token_strides(3)); }
  Tensor in_y(const char* name, Name uid) { return input(name, uid, token_strides(1)); }
  void as_output(const Tensor& tensor, Name uid, const Numbers& strides) const {
    tensor->set_output(true).set_uid(uid).set_dim(sizes()).set_stride(strides);
  }

  AttentionShape shape_;
  Graph graph_;
};

class Calls : public FusedAttentionCalls {
 public:
  Calls(const Plan& forward, const Plan& backward, std::int64_t width, cudaStream_t stream)
      : forward_(forward), backward_(backward), width_(width), handle_(make_handle()) {
    check(fe::detail::set_stream(handle_.get(), stream), "cudnnSetStream");
  }

  void forward(const AttentionForward<Bf16, float>& spans, std::byte* workspace) override {
    Bf16* const qkv = writable(spans.qkv);
    forward_.run(handle_.get(),
                 {{kQuery, qkv},
                  {kKey, qkv + width_},
                  {kValue, qkv + 2 * width_},
                  {kOutput, spans.y.data()},
                  {kLogSum, spans.log_sum.data()}},
                 workspace, "attention");
  }
  void backward(const AttentionBackward<Bf16, float>& spans, std::byte* workspace) override {
    Bf16* const qkv = writable(spans.qkv);
    Bf16* const dqkv = spans.dqkv.data();
    backward_.run(handle_.get(),
                  {{kQuery, qkv},
                   {kKey, qkv + width_},
                   {kValue, qkv + 2 * width_},
                   {kOutput, writable(spans.y)},
                   {kLogSum, writable(spans.log_sum)},
                   {kOutputGradient, writable(spans.dy)},
                   {kQueryGradient, dqkv},
                   {kKeyGradient, dqkv + width_},
                   {kValueGradient, dqkv + 2 * width_}},
                  workspace, "gradient of attention");
  }

 private:
  /// cuDNN takes what it only reads as what it may write.
  template <class T>
  static T* writable(std::span<const T> values) {
    return const_cast<T*>(values.data());
  }

  const Plan& forward_;
  const Plan& backward_;
  std::int64_t width_;
  Handle handle_;
};

class Plans : public FusedAttention {
 public:
  Plans(const AttentionShape& shape, cudnnHandle_t handle,
        const std::shared_ptr<const fe::DeviceProperties>& properties)
      : shape_(shape), forward_(shape), backward_(shape) {
    forward_.add_forward();
    backward_.add_backward();
    forward_.build(handle, properties);
    backward_.build(handle, properties);
  }

  const AttentionShape& shape() const override { return shape_; }
  Bytes workspace() const override { return std::max(forward_.workspace(), backward_.workspace()); }
  std::unique_ptr<FusedAttentionCalls> on(cudaStream_t stream) const override {
    return std::make_unique<Calls>(forward_, backward_, shape_.width, stream);
  }

 private:
  AttentionShape shape_;
  Plan forward_, backward_;
};

/// What `make` makes, or why it can't. Whatever cuDNN has against a shape, there are other kernels.
template <class Make>
FoundAttention found(const Make& make) {
  try {
    return {make(), ""};
  } catch (const std::exception& error) {
    return {nullptr, error.what()};
  }
}

}  // namespace

FoundAttention find_fused_attention(const AttentionShape& shape) {
  using Key = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  static std::mutex mutex;
  static std::map<Key, FoundAttention> known;
  int gpu = 0;
  cuda::check(cudaGetDevice(&gpu), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  const auto [place, is_new] =
      known.try_emplace(Key{gpu, shape.batch, shape.sequence, shape.heads, shape.width});
  if (is_new) {
    place->second = found([&] {
      cudnn();
      return std::make_shared<const Plans>(shape, make_handle().get(), nullptr);
    });
  }
  return place->second;
}

FoundAttention plan_fused_attention(const AttentionShape& shape, const std::string& properties) {
  return found([&] {
    cudnn();
    const auto device = std::make_shared<fe::DeviceProperties>();
    check(device->deserialize({properties.begin(), properties.end()}), "properties of a device");
    return std::make_shared<const Plans>(shape, nullptr, device);
  });
}

std::string cudnn_version() {
  cudnn();
  const auto version = fe::detail::get_backend_version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace tandem::cuda

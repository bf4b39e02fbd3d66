// Floating-point operations of a transformer's forward, of products alone.

#include "core/model/model.h"
#include "simulator/cost/analytic.h"
#include "simulator/cost/transformer_share.h"

namespace tandem {

double forward_flops(const ModelSpec& model, LayerKind kind) {
  if (kind == LayerKind::dense_mlp) return forward_flops(with_dense_mlp(model), LayerKind::mlp);
  const TransformerShare shape = share_of(model, 1, 1);
  const double s = shape.sequence, d = shape.width;
  double flops = 0.0;
  switch (kind) {
    case LayerKind::attention:
      for (const HiddenMatrices& of : hidden_matrices(model, kind))
        flops += 2 * s * static_cast<double>(of.parameters());
      return flops + 2 * s * s * (shape.queries + shape.attended);
    case LayerKind::mlp:
      return 2 * d *
             (shape.mlp_rows * (shape.inner + shape.mlp) +
              s * (shape.shared_inner + shape.shared + shape.built.experts));
    case LayerKind::head:
      return 2 * s * d * shape.vocabulary + (shape.built.masked_head ? 2 * s * d * d : 0);
    case LayerKind::embedding:
      return 0.0;
    case LayerKind::dense_mlp:
    case LayerKind::linear:
    case LayerKind::squared_error:
      check_transformer(model);
  }
  return 0.0;
}

double forward_flops(const ModelSpec& model) {
  double flops = 0.0;
  for (const LayerKind kind : layers_of(model)) flops += forward_flops(model, kind);
  return flops;
}

double model_flops(const ModelSpec& model) { return 3 * forward_flops(model); }

}  // namespace tandem

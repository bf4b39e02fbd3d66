#pragma once
// Predictions of published figures, made by commands of this program.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "simulator/cost/prediction_errors.h"
#include "tools/validation/published_set.h"

namespace tandem::tools {

struct ComparedRow {
  std::string name;  // empty: of a table
  double published = 0.0, predicted = 0.0;
  double error() const { return predicted / published - 1.0; }
};

/// A set, or why it was not compared.
struct ComparedSet {
  const PublishedSet* set = nullptr;
  std::vector<ComparedRow> rows = {};
  std::string not_compared = {};
  PredictionErrors errors = {};
  double rank_correlation = 0.0;
  std::vector<std::string> worse = {}, better = {};  // than recorded, in words
};

/// The JSON that a command of these words prints, `--json` not among them. Throws InputError with
/// what it said where it failed.
using RunTandem = std::function<nlohmann::ordered_json(const std::vector<std::string>& words)>;

/// Whether a set's rows differ from the recorded errors by more than a tenth of a percent stands in
/// `worse` and `better`. `data`: the folder that {data} means, or empty.
ComparedSet compare_set(const PublishedSet& set, const RunTandem& run, const std::string& data);

}  // namespace tandem::tools

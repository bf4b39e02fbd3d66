#pragma once
// Runs beside the one asked for, one thing changed in each: what a report's sliders show.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/options/scenario.h"

namespace tandem::tools {

class WhatIfs {
 public:
  struct Position {
    std::string label;
    bool as_asked = false;
    double boxes = 1.0;  // times those of the run asked for, about
    std::function<Scenario()> scenario = {};
  };
  struct Question {
    std::string name, asked;
    bool list = false;                // its positions have no order
    std::vector<Position> positions;  // one of them as asked
  };
  struct Run {
    Scenario scenario;
    SimulationResult result;
  };

  /// `boxes`: of the run asked for. REQUIRES: `options` and `scenario` outlive this.
  WhatIfs(const Options& options, const Scenario& scenario, const SimulationRequest& request,
          std::size_t boxes);
  WhatIfs(const WhatIfs&) = delete;  // positions refer to it
  WhatIfs& operator=(const WhatIfs&) = delete;

  const std::vector<Question>& questions() const { return questions_; }

  /// Simulated, with its timeline; empty where such a run is refused, or too large to draw beside
  /// those before it.
  std::optional<Run> at(const Position& position);

  /// How many of those asked for so far were too large, why, and what to do; empty where none was.
  std::string left_out() const;

 private:
  void ask_about_links();
  void ask_about_amount(const std::string& option, const std::string& name);
  void ask_about_schedules();

  const Options& options_;
  const Scenario& scenario_;
  SimulationRequest request_;
  double boxes_, drawn_;
  std::size_t too_large_ = 0;
  std::vector<Question> questions_;
};

}  // namespace tandem::tools

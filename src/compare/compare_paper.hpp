// The paper's figures for the Neuron Inverter, beside which our runs are printed. Private to src/compare*.cpp.
#pragma once

#include <array>

#include "src/run/records.hpp"

namespace mrmf {

/// One column of Tables 5 and 7 ("Multi-Resolution Model Fusion", section 4.2; 16 A100, seconds on Perlmutter).
/// Negative: the paper gives no figure.
struct PaperColumn {
  double validation_loss = -1;
  int coarse_epochs = -1, dense_epochs = -1, after_epochs = -1;
  std::array<double, 2> stage_seconds{-1, -1};
  double finetune_seconds = -1, total_seconds = -1;
  bool other_run = false;  ///< the seconds per stage are those of Table 7, of another run than Table 5's
};

/// The paper's column for what this run did, or null: another network, another top, more fusions.
const PaperColumn* paper_figures(const RunResult& result);
const PaperColumn& paper_baseline();
const PaperColumn& paper_mrt();

}  // namespace mrmf

#include "src/fusion.hpp"

#include <algorithm>

#include "src/interpolate.hpp"

namespace mrmf {
namespace {

void require_equal(const Group& coarse, const Group& dense) {
  for (std::size_t i = 0; i < std::min(coarse.signatures.size(), dense.signatures.size()); ++i)
    if (coarse.signatures[i] != dense.signatures[i])
      throw ConfigError("the bottom layers of the coarse and the dense model differ: \"" + coarse.signatures[i] +
                        "\" and \"" + dense.signatures[i] + "\"; set model.cut to a layer before them");
  MRMF_CHECK(coarse.signatures.size() == dense.signatures.size(), "bottoms of different length");
}

// The same places as a model's bottom parameters, in another arena of the same layout.
Span bottom_of(Model& model, Span arena) {
  const Span bottom = model.bottom().params;
  return arena.subspan(static_cast<std::size_t>(bottom.data() - model.params().data()), bottom.size());
}

}  // namespace

void fuse(Backend& backend, Learner& coarse, Learner& dense, const FuseStep& step) {
  const Group from = coarse.model.bottom();
  const Group to = dense.model.bottom();
  require_equal(from, to);
  backend.swap(from.params, to.params);
  backend.swap(from.state, to.state);

  const bool carry = step.moments == Moments::carry;
  const std::vector<Span> coarse_moments = coarse.optimizer.moments();
  const std::vector<Span> dense_moments = dense.optimizer.moments();
  if (carry) {
    for (std::size_t i = 0; i < coarse_moments.size(); ++i)
      backend.swap(bottom_of(coarse.model, coarse_moments[i]), bottom_of(dense.model, dense_moments[i]));
  }
  if (step.matching || step.top == TopRule::interpolated) {
    const TopTransfer top{coarse.model.network(), dense.model.network(), step.matching};
    transfer_top(top, Content::params, coarse.model.params(), dense.model.params());
    transfer_top(top, Content::state, coarse.model.state(), dense.model.state());
    if (carry)
      for (std::size_t i = 0; i < coarse_moments.size(); ++i)
        transfer_top(top, Content::moments, coarse_moments[i], dense_moments[i]);
  }
  if (carry)
    dense.optimizer.set_steps(std::max(coarse.optimizer.steps(), dense.optimizer.steps()));
  else
    dense.optimizer.reset();
  dense.trained = true;
}

}  // namespace mrmf

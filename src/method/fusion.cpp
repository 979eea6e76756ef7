#include "src/method/fusion.hpp"

#include "src/method/interpolate.hpp"

namespace mrmf {
namespace {

// The same places as a model's bottom parameters, in another arena of the same layout.
Span bottom_of(Model& model, Span arena) {
  const Span bottom = model.bottom().params;
  return arena.subspan(static_cast<std::size_t>(bottom.data() - model.params().data()), bottom.size());
}

}  // namespace

void require_fusible(const Network& coarse, const Network& dense, const FuseStep& step) {
  MRMF_CHECK(coarse.size() == dense.size() && coarse.cut() == dense.cut(), "models of different lists");
  for (std::size_t i = 0; i < coarse.cut(); ++i) {
    const Entry& from = coarse.entry(i);
    const std::string a = from.layer->signature(), b = dense.entry(i).layer->signature();
    if (a != b)
      throw ConfigError("layer " + from.name + " is below model.cut and differs between the resolutions (" + a +
                        " and " + b + "), so it cannot be handed over; set model.cut to " + from.name +
                        " or a layer before it");
  }
  if (!step.matching && step.top == TopRule::interpolated) require_transferable({coarse, dense});
}

void fuse(Backend& backend, Learner& coarse, Learner& dense, const FuseStep& step) {
  require_fusible(coarse.model.network(), dense.model.network(), step);
  const bool carry = step.moments == Moments::carry;
  MRMF_CHECK(!carry || !step.matching, "moments of one age in layers that are carried over and layers that are not");
  const Group from = coarse.model.bottom();
  const Group to = dense.model.bottom();
  backend.swap(from.params, to.params);
  backend.swap(from.state, to.state);

  const std::vector<Span> coarse_moments = coarse.optimizer.moments();
  const std::vector<Span> dense_moments = dense.optimizer.moments();
  if (carry) {
    for (std::size_t i = 0; i < coarse_moments.size(); ++i)
      backend.swap(bottom_of(coarse.model, coarse_moments[i]), bottom_of(dense.model, dense_moments[i]));
  }
  if (step.matching || step.top == TopRule::interpolated) {
    const TopTransfer top{coarse.model.network(), dense.model.network(), step.matching};
    transfer_top(backend, top, Content::params, coarse.model.params(), dense.model.params());
    transfer_top(backend, top, Content::state, coarse.model.state(), dense.model.state());
    if (carry)
      for (std::size_t i = 0; i < coarse_moments.size(); ++i)
        transfer_top(backend, top, Content::moments, coarse_moments[i], dense_moments[i]);
  }
  const MomentAges from_coarse = coarse.optimizer.ages(), own = dense.optimizer.ages();
  if (carry)
    dense.optimizer.set_ages({from_coarse.bottom, step.top == TopRule::interpolated ? from_coarse.top : own.top});
  else
    dense.optimizer.reset();
}

}  // namespace mrmf

#include "src/method/hand_round.hpp"

#include <array>
#include <vector>

namespace mrmf {
namespace {

Group group_of(Model& model, LearnerPart part) {
  if (part == LearnerPart::bottom) return model.bottom();
  if (part == LearnerPart::top) return model.top();
  return {model.params(), model.state(), {}};
}

std::vector<Span> spans_of(Learner& learner, LearnerPart part, bool moments) {
  const Group group = group_of(learner.model, part);
  std::vector<Span> spans{group.params, group.state};
  const Span params = learner.model.params();
  const auto first = static_cast<std::size_t>(group.params.data() - params.data());
  if (moments)
    for (const Span all : learner.optimizer.moments()) spans.push_back(all.subspan(first, group.params.size()));
  return spans;
}

// One broadcast of them all.
void share(Backend& backend, const std::vector<Span>& spans, Comm& world, int root) {
  std::size_t count = 0;
  for (const Span span : spans) count += span.size();
  std::vector<float> values(count);
  std::size_t at = 0;
  for (const Span span : spans) {
    if (world.rank() == root) backend.read(span, std::span(values).subspan(at, span.size()));
    at += span.size();
  }
  world.broadcast(values, root);
  at = 0;
  for (const Span span : spans) {
    if (world.rank() != root) backend.write(std::span(values).subspan(at, span.size()), span);
    at += span.size();
  }
}

}  // namespace

void hand_round(Backend& backend, Learner& learner, LearnerPart part, bool moments, Comm& world, int root) {
  share(backend, spans_of(learner, part, moments), world, root);
  const MomentAges& mine = learner.optimizer.ages();
  std::array<std::int64_t, 2> ages{static_cast<std::int64_t>(mine.bottom), static_cast<std::int64_t>(mine.top)};
  world.broadcast(ages, root);
  learner.optimizer.set_ages({static_cast<std::uint64_t>(ages[0]), static_cast<std::uint64_t>(ages[1])});
}

}  // namespace mrmf

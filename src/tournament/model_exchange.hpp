// How models travel between trainers: parameters, running statistics, moments and the optimizer's step numbers, from
// each number to the same offset of the other's model.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/training/model_and_optimizer.hpp"

namespace mrmf {

/// The parts of a model that travel: all of it, or the layers that names stand for.
class ExchangedTensors {
 public:
  /// Names as BottomSettings::layers has them; none: the whole model. Keeps references. ConfigError for a name that
  /// stands for no layer.
  ExchangedTensors(ModelState& model_state, const std::vector<std::string>& names);

  std::vector<Span> model() const;    ///< parameters and running statistics
  std::vector<Span> moments() const;  ///< of those parameters
  /// The ages of the moments that this trainer has after it took `visitor`'s: those of a part of the network that
  /// travels whole.
  MomentAges ages(const MomentAges& own, const MomentAges& visitor) const;

 private:
  ModelState& model_state_;
  std::vector<ArenaSpan> params_, state_;
  bool bottom_ = false, top_ = false;  // whether all of its parameters travel
};

/// ConfigError, naming tournament.exchange, for a name that stands for no layer of the network.
void require_layers(const std::vector<std::string>& names, const Network& network);

std::size_t floats_of(const std::vector<Span>& spans);

/// Ranks between which models travel, of one or more trainers. Each of several senders gives what it has to all others,
/// piece by piece, so that one piece of each is all that is kept beside what arrives.
class Route {
 public:
  /// `roots`: the rank of each sender; `mine`: which of them this rank belongs to, or -1: it only receives.
  Route(Comm ranks, std::vector<int> roots, int mine)
      : ranks_(std::move(ranks)), roots_(std::move(roots)), mine_(mine) {}

  /// Calls `arrived` on every rank for each piece that another sender than its own gives, with its offset from the
  /// first float of the spans. A piece is read everywhere before any float at its offset is written. `gives`: which
  /// senders give anything. Collective.
  using Arrived = std::function<void(std::size_t first, ConstSpan values)>;
  void send(Backend& backend, const std::vector<Span>& from, const std::vector<bool>& gives, const Arrived& arrived);
  /// Numbers of every sender, on every rank. Collective.
  std::vector<std::vector<std::int64_t>> tell(const std::vector<std::int64_t>& mine);

  std::size_t senders() const { return roots_.size(); }
  int mine() const { return mine_; }
  Comm& ranks() { return ranks_; }

 private:
  Comm ranks_;
  std::vector<int> roots_;
  int mine_;
};

/// Writes values behind the first float of the spans.
void write_to(Backend& backend, const std::vector<Span>& spans, std::size_t first, ConstSpan values);
/// Exchanges the spans' contents with `values`, which are as many.
void swap_with(Backend& backend, const std::vector<Span>& spans, std::vector<float>& values);

}  // namespace mrmf

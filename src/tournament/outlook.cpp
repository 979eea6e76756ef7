#include "src/tournament/outlook.hpp"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "io/rows/row_piece.hpp"
#include "kernels/backend.hpp"
#include "layers/network.hpp"
#include "src/tournament/exchange.hpp"
#include "src/tournament/trainer_runs.hpp"
#include "src/training/optimizer.hpp"

namespace mrmf {
namespace {

// Floats of the layers that travel: parameters, and statistics beside them.
struct TravelSize {
  Index params = 0, state = 0;
};

TravelSize size_of(const TournamentConfig& tournament, const Network& network) {
  require_layers(tournament.exchange, network);
  TravelSize all;
  for (const LayerEntry& entry : network.entries()) {
    bool travels = tournament.exchange.empty();
    for (const std::string& name : tournament.exchange) travels = travels || names_layer(name, entry.spec);
    if (travels) all.params += entry.params.count, all.state += entry.state.count;
  }
  return all;
}

}  // namespace

std::optional<TournamentOutlook> tournament_outlook(const Config& config, const Plan& plan, const Shape& sample,
                                                    std::optional<Index> samples) {
  const TournamentConfig& tournament = config.tournament;
  if (tournament.trainers == 1) return {};
  TournamentOutlook outlook{.trainers = tournament.trainers, .meets = tournament.selection != Selection::none};
  const auto backend = make_reference_backend();
  const Network network(*backend, network_settings(config, plan, sample, plan.last.resolution));
  const auto [params, state] = size_of(tournament, network);
  constexpr Index bytes = sizeof(float);
  if (tournament.selection == Selection::pairwise) outlook.visitor_bytes = bytes * (params + state);
  if (outlook.meets)
    outlook.sent_bytes =
        bytes * (params * (1 + moment_count(config.training.optimizer, config.training.update_in_place)) + state);
  if (!samples) return outlook;
  RowPiece piece = trainer_config(config, 0).data.train.piece;
  std::vector<Index> rows(static_cast<std::size_t>(*samples));
  std::iota(rows.begin(), rows.end(), Index{0});
  outlook.trained = std::ssize(rows_of_piece(piece, rows));
  piece.held = true;
  outlook.held_out = std::ssize(rows_of_piece(piece, std::move(rows)));
  const int models = tournament.selection == Selection::pairwise ? 2 : outlook.meets ? 1 : 0;
  if (outlook.trained > 0)
    outlook.meeting_cost =
        static_cast<double>(models * outlook.held_out) / static_cast<double>(3 * outlook.trained);  // backward is two
  return outlook;
}

std::string to_text(const TournamentOutlook& outlook) {
  std::string text = fmt::format("tournament: {} trainers", outlook.trainers);
  if (outlook.trained > 0)
    text += fmt::format(", of which the first trains on {} rows and holds out {}", outlook.trained, outlook.held_out);
  if (!outlook.meets) return text + "; they do not meet\n";
  if (outlook.trained > 0) text += fmt::format("; a meeting costs {:.3f} of its epochs", outlook.meeting_cost);
  text += fmt::format("; a rank sends {:.3g} MB", static_cast<double>(outlook.sent_bytes) / 1e6);
  if (outlook.visitor_bytes > 0)
    text += fmt::format(", and keeps another model, {:.3g} MB, while both are compared: less than it takes to be saved",
                        static_cast<double>(outlook.visitor_bytes) / 1e6);
  return text + "\n";
}

}  // namespace mrmf

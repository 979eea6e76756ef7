#include "src/cli/tune_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

using Json = nlohmann::ordered_json;

double all_cost(const std::vector<Rung>& rungs) {
  double cost = 0;
  for (const Rung& rung : rungs) cost += rung.trials * rung.cost;
  return cost;
}

// What the same trials would cost without rungs.
double full_length_cost(const std::vector<Rung>& rungs) { return rungs.front().trials * rungs.back().cost; }

std::string heading(const Rung& rung, int axes) {
  return fmt::format("{} x {}", resolution_text(rung.resolution, axes), rung.epochs);
}

std::string table(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes) {
  std::string text = fmt::format("{:>10} {:>6}  {:<9}", "rate", "batch", "rule");
  for (const Rung& rung : rungs) text += fmt::format(" {:>14}", heading(rung, axes));
  text += "\n";
  for (const Trial& trial : trials) {
    text += fmt::format("{:>10.3g} {:>6}  {:<9}", trial.learning_rate, trial.batch, to_string(trial.rule));
    for (const double loss : trial.losses) text += fmt::format(" {:>14.5g}", loss);
    text += "\n";
  }
  return text;
}

std::string agreement_text(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, std::size_t rung,
                           std::size_t other, int axes) {
  const int both = rungs[other].trials;  // the finer rung's trials have come through the coarser one
  const double agreement = rank_agreement(trials, rung, other);
  std::string text = fmt::format("Spearman {:.2f} over {} trials", agreement, both);
  if (both < kFewestForAgreement)
    text = fmt::format("{} trials are too few to say", both);
  else if (std::isnan(agreement))
    text = fmt::format("{} trials with equal losses have no order", both);
  return fmt::format("order of {} against {}: {}\n", heading(rungs[rung], axes), heading(rungs[other], axes), text);
}

// The agreement of every rung with the next one, which more trials have reached, and with the last one.
std::string agreements(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes) {
  const std::size_t last = rungs.size() - 1;
  std::string text;
  for (std::size_t r = 0; r < last; ++r) {
    if (r + 1 < last) text += agreement_text(trials, rungs, r, r + 1, axes);
    text += agreement_text(trials, rungs, r, last, axes);
  }
  return text;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json price(const std::vector<Rung>& rungs, int axes) {
  Json json{{"rungs", Json::array()}};
  for (const Rung& rung : rungs)
    json["rungs"].push_back({{"resolution", factors(rung.resolution, axes)},
                             {"epochs", rung.epochs},
                             {"trials", rung.trials},
                             {"cost_epochs", rung.cost}});
  json["cost_epochs"] = all_cost(rungs);
  json["full_length_cost_epochs"] = full_length_cost(rungs);
  return json;
}

}  // namespace

std::string price_text(const std::vector<Rung>& rungs, int axes, const std::string& made) {
  const auto some = [](int trials) { return trials == 1 ? "trial" : "trials"; };
  std::string text = fmt::format("{} {} ({}); costs are in epochs at full resolution, by arithmetic:\n",
                                 rungs.front().trials, some(rungs.front().trials), made);
  for (std::size_t r = 0; r < rungs.size(); ++r)
    text += fmt::format("  rung {} of {}: {:>3} {} of {} epochs at resolution {}, {:.1f} each, {:.1f} in all\n", r + 1,
                        rungs.size(), rungs[r].trials, some(rungs[r].trials), rungs[r].epochs,
                        resolution_text(rungs[r].resolution, axes), rungs[r].cost, rungs[r].trials * rungs[r].cost);
  if (rungs.size() == 1)
    return text + fmt::format("cost: {:.1f}; so few trials are all trained in full\n", all_cost(rungs));
  return text + fmt::format("cost: {:.1f}; all trials at full length would cost {:.1f}\n", all_cost(rungs),
                            full_length_cost(rungs));
}

std::string price_json(const std::vector<Rung>& rungs, int axes) { return price(rungs, axes).dump(2) + "\n"; }

std::string result_text(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes) {
  return table(trials, rungs, axes) + "\n" + agreements(trials, rungs, axes);
}

std::string result_json(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes,
                        const std::string& best) {
  Json json = price(rungs, axes);
  for (std::size_t r = 0; r < rungs.size(); ++r) {
    Json& rung = json["rungs"][r];
    rung["agreement"] = number(rank_agreement(trials, r, rungs.size() - 1));
    rung["agreement_with_next"] = number(rank_agreement(trials, r, std::min(r + 1, rungs.size() - 1)));
  }
  json["trials"] = Json::array();
  for (const Trial& trial : trials) {
    Json losses = Json::array();  // as far as it got; null where it diverged
    for (const double loss : trial.losses) losses.push_back(number(loss));
    json["trials"].push_back({{"learning_rate", trial.learning_rate},
                              {"batch", trial.batch},
                              {"rule", to_string(trial.rule)},
                              {"losses", losses}});
  }
  json["best"] = best;
  return json.dump(2) + "\n";
}

}  // namespace mrmf

// How long a sum over ranks takes, by the way in which its values travel: for `mrmf bench network`, and for
// training.communication = "auto".
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Times of one sum on the slowest rank: the median of several.
struct SumTrial {
  Communication scheme = Communication::fp32;
  double seconds = 0;  ///< from its start until every rank has the result
  double packing = 0;  ///< of these: what a rank encodes, adds and decodes, measured without messages
  double sent = 0;     ///< bytes that a rank sends
};

/// Sums of as many values on every rank, each several times. Collective, the same on every rank.
SumTrial try_sum(Communication scheme, std::size_t values, int times, Comm& team);

/// Seconds that a rank computes for each value of such sums, by the name of the way. Collective.
std::map<std::string, double> coding_times(Comm& team);

/// Bytes per second that each rank sends, where all send to all at once. Collective.
double measured_link(Comm& team);

/// What training.communication = "auto" takes for a model of so many parameters: fp32, unless another way takes at most
/// kWorthIt of its time. Of gradients that is bf16; of Lion's directions, levels8.
constexpr double kWorthIt = 0.8;
/// Shorter sums, and smaller gains, are a matter of chance.
constexpr std::size_t kFewest = std::size_t{1} << 16;
constexpr double kLeastGain = 1e-3;  ///< seconds of a sum
struct CommunicationChoice {
  Communication scheme = Communication::fp32;
  std::string text;  ///< a line for the run's log
};
CommunicationChoice choose_communication(const TrainingConfig& training, std::size_t values, Comm& team);

}  // namespace mrmf

// Momenta that each worker has of its own gradients: when they are averaged, and how far apart they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/run/model_file.hpp"
#include "src/run/records.hpp"

namespace mrmf {

/// Whether the momenta are averaged after this step, from 1. A function of the step alone, so that a run continues as
/// if it had never stopped. spaced: after step 1, and 2^(j / k) steps, for j = 0, 1, ..., from one to the next.
bool averages_momenta(const MomentaSettings& settings, std::uint64_t step);

/// The share of so many steps after which they are averaged.
double averages_share(const MomentaSettings& settings, double steps);

/// Whether a name is what a pattern stands for, in which * is any characters.
bool matches(std::string_view pattern, std::string_view name);
/// What is averaged of momenta with so many floats, whose tensors these are: all, or those that settings.tensors name.
/// Neighbours together.
std::vector<ArenaSpan> averaged_spans(const MomentaSettings& settings, const std::vector<TensorSpan>& tensors,
                                      Index floats);
/// How many values that are, of a whole network's; 0 where none is ever averaged.
double averaged_count(const MomentaSettings& settings, const Network& network);
/// ConfigError for a name in settings.tensors that no parameter of the network has.
void require_averaged_tensors(const MomentaSettings& settings, const Network& network);

/// Every worker's momentum becomes the sum of all, times their weights, which are this rank's workers'. `all` workers
/// of the team. The momenta are in the backend's memory, and are added in the host's. Collective; returns the bytes
/// that a rank sends for it.
double average_momenta(Backend& backend, const std::vector<Span>& momenta, const std::vector<float>& weights, int all,
                       Comm& team);

/// All workers' momenta become their mean, as they do where a phase ends. Collective; returns the bytes as above.
double average_momenta(Backend& backend, const std::vector<Span>& momenta, int all, Comm& team);

/// How far the momenta of each tensor are apart: of some thousand of its values. Collective, the same on every rank.
std::vector<MomentaSpread> momenta_spread(Backend& backend, const std::vector<Span>& momenta, int all,
                                          const std::vector<TensorSpan>& tensors, Comm& team);

}  // namespace mrmf

// TensorBoard's event files: the epochs of a run as scalars. TFRecord frames around protobuf messages (Event, Summary),
// of which only the few fields that scalars need are written, by hand.
#pragma once

#include <string>
#include <vector>

#include "src/run/train_state.hpp"

namespace mrmf {

/// The file's name in a run folder. TensorBoard takes every file with "tfevents" in its name.
inline constexpr const char* kEventFile = "events.out.tfevents.mrmf";

/// What the file begins with: the version of its form.
std::string event_file_start();

/// One epoch: losses, metric and learning rate, and its seconds under a name for its phase. `step` counts the run's
/// epochs from 1. The time of the event is that of the record: seconds since the run began, so the same records make
/// the same bytes.
std::string epoch_event(const EpochRecord& record, Index step);

/// The whole file for these phases, in their order.
std::string event_file(const std::vector<PhaseHistory>& phases);

}  // namespace mrmf

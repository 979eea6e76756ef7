// What a run's log says before training begins.
#pragma once

#include <string>
#include <vector>

#include "src/method/resolved_run.hpp"
#include "src/run/run_log.hpp"

namespace mrmf {

class Backend;
class Data;

/// What a longer last phase does with the learning rate.
void tell_more_epochs(const Plan& plan, RunLog& log);

/// Reasons of "auto", the machine and the data. Teams (`by_teams`) read theirs later.
void tell_data(RunLog& log, const ResolvedRun& run, Data& data, const Backend& backend, int ranks, bool by_teams);

/// How ranks share samples, and shards.
void tell_sharing(RunLog& log, const ResolvedRun& run, bool shard_replicas, int ranks);

}  // namespace mrmf

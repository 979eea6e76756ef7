#include "src/ensemble/ensemble.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <unordered_set>
#include <vector>

#include "generated/version.hpp"
#include "io/files/output_file.hpp"
#include "io/files/work_folder.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/errors.hpp"
#include "kernels/timer.hpp"
#include "src/run/signals.hpp"
#include "src/system/backend_choice.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

constexpr int kCollectTries = 3;

/// What the root holds while an ensemble runs.
struct Held {
  std::optional<FolderOwner> owner;
  std::optional<WorkFolder> work;
};

void hold(const Ensemble& ensemble, const ArrayTask& part, Held& held) {
  open_folder(ensemble.spec, ensemble.points);
  make_folders(ensemble.folder);
  // Who comes says so, then looks for others: of two who come at once, one at least sees the other.
  held.owner.emplace(ensemble.folder);
  if (part.count > 1) require_nobody(ensemble.spec.folder);
  for (const std::string& folder : all_folders(ensemble.spec))
    if (part.count == 1 && folder != ensemble.folder) require_nobody(folder);
  if (part.count == 1) remove_unfinished(ensemble.folder);
  if (!ensemble.spec.simulate) held.work.emplace(ensemble.folder + "/work");
}

/// Members that are neither done nor given up.
void find_pending(Ensemble& ensemble, const Members& members, const EnsembleRun& run) {
  const Range share = piece(std::ssize(ensemble.points), run.part.index, run.part.count);
  ensemble.pending.clear();
  ensemble.attempts.assign(ensemble.points.size(), 0);
  for (Index m = share.first; m < share.first + share.count; ++m) {
    const MemberState& state = members.states[static_cast<std::size_t>(m)];
    if (state.done || (state.attempts > ensemble.spec.retries && !run.retry_failed)) continue;
    ensemble.attempts[static_cast<std::size_t>(m)] =
        run.retry_failed && state.attempts > ensemble.spec.retries ? 0 : state.attempts;
    ensemble.pending.push_back(m);
  }
}

void say(const EnsembleRun& run, Comm& world, const std::string& line) {
  if (world.root() && run.out != nullptr) *run.out << line << std::endl;
}

[[noreturn]] void stop(const EnsembleRun& run, Comm& world, int signal) {
  say(run, world,
      fmt::format("{}: stopped; what is done is kept, and the same command continues", signal_name(signal)));
  throw Stopped{signal};
}

/// Makes the pending members on all ranks. Throws Stopped on all of them when one got a signal.
Index make_all_pending(const Ensemble& ensemble, const EnsembleRun& run, Held& held, Comm& world) {
  if (ensemble.pending.empty()) return 0;
  Timer told;
  const Made made = make_pending(ensemble, world, [&](Index so_far) {
    if (held.owner) held.owner->still_here();
    if (!run.terminal || run.out == nullptr || !world.root() || told.seconds() < 0.2) return;
    told = {};
    *run.out << fmt::format("\r{} of {} members", std::min(so_far * world.size(), std::ssize(ensemble.pending)),
                            ensemble.pending.size())
             << std::flush;
  });
  if (run.terminal && run.out != nullptr && world.root()) *run.out << "\r\x1b[K" << std::flush;
  if (made.signal != 0) stop(run, world, made.signal);
  return made.members;
}

EnsembleReport report_of(const Ensemble& ensemble, const Members& members, const ArrayTask& part) {
  EnsembleReport report;
  const Range share = piece(std::ssize(ensemble.points), part.index, part.count);
  report.members = share.count;
  report.twice = members.twice;
  for (Index m = share.first; m < share.first + share.count; ++m) {
    const MemberState& state = members.states[static_cast<std::size_t>(m)];
    if (state.done)
      ++report.done, report.member_seconds += state.seconds;
    else
      report.failed.emplace_back(m, state.reason);
  }
  return report;
}

void write_records(const Ensemble& ensemble, const Members& members, const EnsembleReport& report) {
  write_file(ensemble.spec.folder + "/members.csv", members_csv(ensemble.spec, ensemble.points, members),
             Replace::file);
  write_file(ensemble.spec.folder + "/result.json", to_json(report, std::string("mrmf ") + kVersion), Replace::file);
}

void take_rows(const EnsembleSpec& spec, const std::string& part, const std::vector<Attempt>& attempts) {
  std::error_code none;
  if (!fs::exists(part + kRowsName, none)) return;
  const auto bytes = static_cast<std::size_t>(bytes_of(row_arrays_of(spec)));
  const RowFile from(part + kRowsName, bytes), to(spec.folder + kRowsName, bytes);
  std::vector<std::byte> row(bytes);
  for (const Attempt& attempt : attempts) {
    const auto member = static_cast<std::uint64_t>(attempt.member);
    if (attempt.done && from.read(member, row) && row_checksum(row) == attempt.row) to.write(member, row);
  }
  to.sync();
}

// The runs of trainings, which a part may have left before their end.
void take_runs(const EnsembleSpec& spec, const std::string& part) {
  const fs::path from = fs::path(part) / "members", to = fs::path(spec.folder) / "members";
  std::error_code error;
  if (!fs::exists(from, error)) return;
  make_folders(to.string());
  for (const auto& entry : fs::directory_iterator(from, error))
    move_folder(entry.path().string(), (to / entry.path().filename()).string());
}

void take(const EnsembleSpec& spec, const std::string& part, const std::vector<std::string>& journals) {
  std::vector<Attempt> attempts;
  for (const std::string& file : journals) std::ranges::move(read_journal(file).attempts, std::back_inserter(attempts));
  if (part != spec.folder) {
    take_rows(spec, part, attempts);
    take_runs(spec, part);
  }
  std::unordered_set<std::uint64_t> there;  // an earlier start may have been killed before it removed what it took
  for (const Attempt& attempt : read_journal(spec.folder + kJournalName).attempts) there.insert(attempt.line);
  std::erase_if(attempts, [&](const Attempt& attempt) { return !there.insert(attempt.line).second; });
  Journal(spec.folder + kJournalName).append(attempts);
}

/// Takes what ranks and parts have kept of members into the ensemble's own journal and rows, and removes it there, so
/// that few files are left, however many took part: the journals of ranks, and of parts where nobody works journals,
/// rows and the runs of trainings. On the root, which owns the ensemble's folder. A kill at any time loses nothing:
/// what is in two places counts once. DataError where it cannot be read or written; what was not taken stays.
void gather(const EnsembleSpec& spec) {
  std::error_code none;
  for (const std::string& folder : all_folders(spec)) {
    std::vector<std::string> journals = journals_in(folder);
    if (folder == spec.folder) {
      std::erase(journals, folder + kJournalName);
      if (!journals.empty()) take(spec, folder, journals);
      for (const std::string& file : journals) fs::remove(file, none);
    } else if (!somebody_works(folder)) {
      take(spec, folder, journals);
      remove_folder(folder);
    }
  }
}

Members all_members(const Ensemble& ensemble, const EnsembleRun& run, Comm& world) {
  collective_try(world, [&] {
    if (world.root() && run.part.count == 1) gather(ensemble.spec);
  });
  const Members members = members_from_root(ensemble.spec, std::ssize(ensemble.points), world);
  for (const std::string& line : members.damaged)
    say(run, world, line + ": damaged; a member that it named counts as not done, and is made anew");
  return members;
}

/// Makes and collects until all rows are what their journals say.
Members make_and_collect(Ensemble& ensemble, const EnsembleRun& run, Held& held, Comm& world, EnsembleReport& report) {
  std::vector<Index> damaged;
  for (int attempt = 0; attempt < kCollectTries; ++attempt) {
    Members members = all_members(ensemble, run, world);
    for (const Index member : damaged) members.states[static_cast<std::size_t>(member)].done = false;
    find_pending(ensemble, members, run);
    if (attempt == 0)
      say(run, world,
          fmt::format("{} members; {} are done, {} to be made", ensemble.points.size(), members.done(),
                      ensemble.pending.size()));
    report.made += make_all_pending(ensemble, run, held, world);
    members = all_members(ensemble, {run.part}, world);
    collective_try(world, [&] {
      if (world.root()) require_own_names(ensemble.spec.folder);
    });
    if (run.part.count > 1) return members;
    damaged = collect(ensemble.spec, ensemble.points, members, world);
    if (damaged.empty()) return members;
    say(run, world,
        fmt::format("the rows of {} members are damaged, of {} first; they are made anew", damaged.size(),
                    damaged.front()));
  }
  throw DataError(fmt::format("{}{}: rows are damaged again and again, that of member {} first; is the disk sound?",
                              ensemble.spec.folder, kRowsName, damaged.front()));
}

/// Whether this part of an ensemble is the last to end, which collects; another may have begun to.
bool is_last_part(const Ensemble& ensemble, const Members& members, Held& held, Comm& world) {
  if (members.done() + members.failed(ensemble.spec.retries) < std::ssize(ensemble.points)) return false;
  bool holds = false;
  collective_try(world, [&] {
    if (!world.root()) return;
    held.work.reset(), held.owner.reset();
    try {
      held.owner.emplace(ensemble.spec.folder);
      holds = true;
    } catch (const ConfigError&) {  // another part collects
    }
  });
  return world.any(holds);
}

void collect_parts(const Ensemble& ensemble, Members& members, Comm& world) {
  members = all_members(ensemble, {}, world);
  const std::vector<Index> damaged = collect(ensemble.spec, ensemble.points, members, world);
  if (!damaged.empty())
    throw DataError(
        fmt::format("{}: the rows of {} members are damaged, that of {} first; call mrmf ensemble without "
                    "--part, which makes them anew",
                    ensemble.spec.folder, damaged.size(), damaged.front()));
}

void check_sharing(const Ensemble& ensemble, const EnsembleRun& run, Comm& world) {
  const EnsembleSpec& spec = ensemble.spec;
  if (run.part.count > std::ssize(ensemble.points))
    throw ConfigError(fmt::format("--part of {}: there are only {} members", run.part.count, ensemble.points.size()));
  if (run.part.count > 1 && spec.rounds.count > 0)
    throw ConfigError(spec.origin + ": ensemble.rounds needs all members at once; leave --part out");
  if (spec.ranks_per_member == 1) return;
  if (!spec.train)
    throw ConfigError(spec.origin + ": ensemble.ranks_per_member is for trainings, by [train]; leave it out");
  if (world.size() % spec.ranks_per_member != 0)
    throw ConfigError(fmt::format("{}: {} ranks are not whole groups of ensemble.ranks_per_member = {}", spec.origin,
                                  world.size(), spec.ranks_per_member));
}

/// Adds the points of rounds that were completed; returns how many.
int take_rounds(Ensemble& ensemble, Comm& world) {
  const RoundPoints added = rounds_from_root(ensemble.spec, world);
  ensemble.points.resize(static_cast<std::size_t>(ensemble.designed));
  ensemble.points.insert(ensemble.points.end(), added.points.begin(), added.points.end());
  return added.rounds;
}

/// A round of the surrogate, on the root's cores.
void go_round(const Ensemble& ensemble, int round, const EnsembleRun& run, Held& held, Comm& world) {
  const StopSignals signals(false);
  std::atomic<bool> stopping{false};
  std::string line;
  const int threads = choose_threads(0, world);
  bool stopped = false;
  {
    const std::jthread watcher([&](const std::stop_token& ended) {
      while (!ended.stop_requested()) {
        if (signals.received() != 0) stopping = true;
        if (held.owner) held.owner->still_here();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    collective_try_on_root(world, [&] {
      try {
        line = add_round(ensemble.spec, ensemble.points, round, {ensemble.folder, stopping, threads});
      } catch (const Stopped&) {
        stopped = true;
      }
    });
  }
  if (world.any(stopped)) stop(run, world, std::max(1, static_cast<int>(world.max(signals.received()))));
  say(run, world, line);
}

}  // namespace

EnsembleReport run_ensemble(EnsembleSpec spec, const EnsembleRun& run, Comm& world) {
  const Timer timer;
  world.limit(0);  // ranks wait for each other's members, however long they take
  Ensemble ensemble;
  ensemble.spec = std::move(spec);
  collective_try(world, [&] {
    ensemble.points = make_design(ensemble.spec);
    row_arrays_of(ensemble.spec);
  });
  ensemble.designed = std::ssize(ensemble.points);
  if (!world.all_equal(checksum(ensemble.points)) ||
      !world.all_equal(std::hash<std::string>{}(identity(ensemble.spec))))
    throw FaultError(ensemble.spec.origin + ": the ranks read different designs; is the file the same on every node?");
  check_sharing(ensemble, run, world);
  ensemble.folder = folder_of(ensemble.spec, run.part);
  Held held;
  collective_try(world, [&] {
    if (world.root()) hold(ensemble, run.part, held);
  });
  int rounds = 0;
  if (run.part.count == 1) rounds = take_rounds(ensemble, world);
  EnsembleReport made;
  Members members = make_and_collect(ensemble, run, held, world, made);
  const bool collects = run.part.count == 1 || is_last_part(ensemble, members, held, world);
  if (collects && run.part.count > 1) collect_parts(ensemble, members, world);
  while (run.part.count == 1 && rounds < ensemble.spec.rounds.count) {
    go_round(ensemble, rounds + 1, run, held, world);
    rounds = take_rounds(ensemble, world);
    members = make_and_collect(ensemble, run, held, world, made);
  }
  EnsembleReport report = report_of(ensemble, members, run.part), whole = report_of(ensemble, members, {});
  if (collects) report.members = whole.members, report.done = whole.done, report.failed = whole.failed;
  report.made = whole.made = made.made, report.seconds = whole.seconds = timer.seconds();
  if (collects && whole.done > 0) report.data = whole.data = ensemble.spec.folder + "/data.h5";
  collective_try(world, [&] {
    if (world.root() && collects) write_records(ensemble, members, whole);
  });
  return report;
}

std::string to_json(const EnsembleReport& report, const std::string& program) {
  nlohmann::ordered_json json;
  if (!program.empty()) json["program"] = program;
  json.update({{"members", report.members},
               {"done", report.done},
               {"made", report.made},
               {"seconds", report.seconds},
               {"member_seconds", report.member_seconds},
               {"data", report.data}});
  json["failed"] = nlohmann::ordered_json::array();
  for (const auto& [member, reason] : report.failed) json["failed"].push_back({{"member", member}, {"reason", reason}});
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string failed_text(const EnsembleReport& report, int retries) {
  constexpr std::size_t most = 10;
  std::vector<Index> named;
  for (std::size_t i = 0; i < std::min(most, report.failed.size()); ++i) named.push_back(report.failed[i].first);
  const std::size_t more = report.failed.size() - named.size();
  return fmt::format("{} of {} members failed after {} {}: {}{}; member {}: {}", report.failed.size(), report.members,
                     retries + 1, retries == 0 ? "try" : "tries", fmt::join(named, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "", report.failed.front().first,
                     report.failed.front().second);
}

}  // namespace mrmf

// Output of a run: its messages to people, the records in its folder, and the same epochs as TensorBoard's event
// files.
#include "src/run/run_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <ostream>

#include "io/files/output_file.hpp"
#include "kernels/timer.hpp"
#include "src/run/run_folder.hpp"

namespace mrmf {
namespace {

// "a.h5, b.h5" or, of many, "a.h5 and 99999 more"
std::string files_text(const std::vector<std::string>& files) {
  constexpr std::size_t kNamed = 4;
  if (files.size() <= kNamed) return fmt::format("{}", fmt::join(files, ", "));
  return fmt::format("{} and {} more", files.front(), files.size() - 1);
}

std::string data_text(const DataConfig& data) {
  const auto names = [](const DatasetSpec& spec) { return spec.samples + ", " + spec.labels_text(); };
  const std::string more =
      data.validation.files == data.train.files ? ";" : "; " + files_text(data.validation.files) + ":";
  return files_text(data.train.files) + ": " + names(data.train) + more + " " + names(data.validation);
}

std::string target_line(const RunResult& result) {
  if (const auto& target = result.metric_target; target && result.metric)
    return fmt::format("target validation {} {:g}: {} ({})", to_string(target->metric), target->least,
                       result.target_reached ? "reached" : "NOT reached", score_text(result.metric->value));
  if (!result.target) return "no target validation loss was set";
  return fmt::format("target validation loss {:g}: {}", *result.target,
                     result.target_reached ? "reached" : "NOT reached");
}

namespace fs = std::filesystem;
constexpr const char *kLog = "log.txt", *kTeamFolder = "team";

// A live line that wraps could not be cleared.
std::string cut_to_terminal(const std::string& line) {
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return line;
  return line.substr(0, window.ws_col - std::size_t{1});
}

}  // namespace

RunResult make_result(const Config& config, const std::vector<PhaseRecord>& phases, double total_seconds) {
  RunResult result;
  result.method = config.method.name;
  result.top = config.method.top;
  result.resolutions = config.method.resolutions;
  result.axes = std::max(1, config.method.axes);
  result.seed = config.training.seed;
  result.model = config.model.preset.empty() ? "custom" : config.model.preset;
  result.data = data_text(config.data);
  result.phases = phases;
  result.total_seconds = total_seconds;
  result.target = config.method.target;
  result.metric_target = config.method.metric_target;
  if (!phases.empty()) {
    result.validation_loss = phases.back().last.validation_loss;
    result.metric = phases.back().last.metric;
    result.ranks = phases.back().last.ranks;
  }
  result.target_reached =
      (result.target && result.validation_loss <= *result.target) ||
      (result.metric_target && result.metric && result.metric_target->reached(result.metric->value));
  return result;
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string epoch_line(const EpochRecord& r) {
  const double speed = r.seconds > 0 ? static_cast<double>(r.samples) / r.seconds : 0;
  const std::string metric =
      r.metric ? fmt::format(" {} {}", to_string(r.metric->metric), score_text(r.metric->value)) : "";
  return fmt::format(
      "stage {} {:<8} {:<8} epoch {:>3}  train {:<8} validation {:<8}{}  {:.2f} s  {:.0f} samples/s  rate {:.2e}",
      r.stage, to_string(r.role), resolution_text(r.resolution, r.axes), r.epoch, score_text(r.train_loss),
      score_text(r.validation_loss), metric, r.seconds, speed, r.learning_rate);
}

std::string progress_line(const Progress& now, double samples_per_second, double seconds_left,
                          const std::optional<TimeLeft>& left) {
  const Phase& phase = *now.training;
  return fmt::format("stage {} {} {} epoch {}/{}  step {}/{}  loss {}  {:.0f} samples/s  left: epoch {}{}", phase.stage,
                     to_string(phase.role), resolution_text(phase.resolution, phase.axes), now.epoch + 1,
                     phase.stop.epochs, now.step, now.steps, score_text(now.loss), samples_per_second,
                     duration_text(seconds_left), left ? ", " + time_left_text(*left) : "");
}

std::string result_table(const RunResult& result) {
  std::string text =
      fmt::format("{:<6} {:<9} {:<10} {:>6} {:>10} {:>10} {:>10} {:>10} {:>11}  {}\n", "stage", "role", "resolution",
                  "epochs", "seconds", "I/O", "compute", "comm.", "validation", "ended by");
  int epochs = 0;
  double seconds = 0;
  for (const PhaseRecord& s : result.phases) {
    text += fmt::format("{:<6} {:<9} {:<10} {:>6} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>11}  {}\n", s.stage,
                        to_string(s.role), resolution_text(s.resolution, s.axes), s.epochs, s.seconds,
                        s.time_shares.io.mean, s.time_shares.compute.mean, s.time_shares.communication.mean,
                        score_text(s.last.validation_loss), s.reason);
    epochs += s.epochs;
    seconds += s.seconds;
  }
  const auto at_once = [&](const PhaseRecord& s) { return s.last.ranks < result.ranks; };
  const bool teams = std::any_of(result.phases.begin(), result.phases.end(), at_once);
  text += teams ? fmt::format("{:<27} {:>6} {:>10.2f}", "in all, teams at once", epochs, result.total_seconds)
                : fmt::format("{:<27} {:>6} {:>10.2f}", "sum", epochs, seconds);
  for (const PhaseRecord& s : result.phases)
    if (s.last.ranks < result.ranks)
      text += fmt::format("\nstage {}: the {} team, {} of {} ranks, waited {:.2f} s for the other", s.stage,
                          to_string(s.role), s.last.ranks, result.ranks, s.waited);
  if (const auto& best = result.best)
    text += best->epoch == best->epochs ? "\nthe last epoch was the best" : "\nthe best model is of " + to_text(*best);
  text += fmt::format("\n{}, seed {}: final validation loss {} after {:.2f} s; {}", to_string(result.method),
                      result.seed, score_text(result.validation_loss), result.total_seconds, target_line(result));
  return text;
}

struct RunLog::State {
  fs::path folder;
  std::vector<PhaseHistory> phases;  // the contents of epochs.jsonl and stages.jsonl
  std::ostream* out;
  bool terminal;
  LineFile epochs, stages, log;
  std::optional<RecordFile> events;
  TimeEstimate estimate;
  bool live = false;  // a progress line is on the terminal
  Timer epoch_start, shown;
  const Phase* training = nullptr;  // phase of the epoch that is shown
  int epoch = 0;
  Index first_step = 0, rows = 0;

  State(const RunLogSettings& settings, const fs::path& at, bool continued)
      : folder(at),
        out(settings.out),
        terminal(settings.terminal),
        epochs((at / "epochs.jsonl").string(), LineFile::Start::append),
        stages((at / "stages.jsonl").string(), LineFile::Start::append),
        log((at / kLog).string(), continued ? LineFile::Start::append : LineFile::Start::empty),
        estimate(settings.estimate) {
    if (settings.tensorboard) events.emplace((at / kEventFile).string(), RecordFile::Start::append);
  }

  PhaseHistory& history(int stage, Role role) {
    const auto found = std::ranges::find_if(
        phases, [&](const PhaseHistory& p) { return p.record.stage == stage && p.record.role == role; });
    if (found != phases.end()) return *found;
    return phases.emplace_back(PhaseHistory{.record = {.stage = stage, .role = role}, .epochs = {}});
  }

  void rewrite() {
    std::vector<std::string> epoch_lines, stage_lines;
    for (const PhaseHistory& phase : phases) {
      for (const EpochRecord& record : phase.epochs) epoch_lines.push_back(to_json(record));
      if (!phase.record.reason.empty()) stage_lines.push_back(to_json(phase.record));
    }
    epochs.replace(epoch_lines);
    stages.replace(stage_lines);
    if (events) events->replace(event_file(phases));
  }

  void add(const EpochRecord& record) {
    epochs.write(to_json(record));
    history(record.stage, record.role).epochs.push_back(record);
    if (!events) return;
    Index step = 0;
    for (const PhaseHistory& phase : phases) step += std::ssize(phase.epochs);
    events->append(epoch_event(record, step));
  }

  void say(const std::string& text) {
    log.write(text);
    if (!out) return;
    if (live) *out << "\r\033[K";
    live = false;
    *out << text << '\n' << std::flush;
  }
};

RunLog::RunLog() = default;
RunLog::RunLog(const RunLogSettings& settings) : settings_(settings) {}
RunLog::RunLog(RunLog&&) noexcept = default;
RunLog& RunLog::operator=(RunLog&&) noexcept = default;

RunLog::~RunLog() {
  // A following error message must start on its own line.
  if (state_ && state_->live && state_->out) *state_->out << "\r\033[K" << std::flush;
}

RunLog::RunLog(const RunLogSettings& settings, const std::string& config_toml, const std::string& plan_json,
               const std::vector<PhaseHistory>& earlier)
    : settings_(settings) {
  const fs::path folder = settings.folder;
  if (earlier.empty()) remove_team_records(settings.folder);
  remove_result(settings.folder, earlier.empty() ? Models::remove : Models::keep);
  if (!settings.tensorboard) remove_events(settings.folder);
  state_ = std::make_unique<State>(settings, folder, !earlier.empty() || settings.continues);
  state_->phases = earlier;
  state_->rewrite();
  if (!config_toml.empty()) write_file((folder / "config.toml").string(), config_toml, Replace::file);
  write_file((folder / "plan.json").string(), plan_json, Replace::file);
}

void RunLog::line(const std::string& text) {
  if (state_) state_->say(text);
}

void RunLog::progress(const Progress& now) {
  if (!state_ || !state_->terminal || !state_->out) return;
  State& s = *state_;
  if (now.training != s.training || now.epoch != s.epoch) {
    s.training = now.training;
    s.epoch = now.epoch;
    s.epoch_start = {};
    s.first_step = now.step;
    s.rows = 0;  // the first step's own time is unknown
    return;
  }
  s.rows += now.rows;
  constexpr double kRefresh = 0.1;  // seconds; faster is not readable
  if (s.live && s.shown.seconds() < kRefresh && now.step < now.steps) return;
  const double elapsed = s.epoch_start.seconds();
  const double left =
      elapsed / static_cast<double>(now.step - s.first_step) * static_cast<double>(now.steps - now.step);
  const double speed = elapsed > 0 ? static_cast<double>(s.rows) / elapsed : 0;
  const RunPosition position{
      .stage = now.training->stage,
      .role = now.training->role,
      .epochs = now.epoch + static_cast<double>(now.step) / static_cast<double>(now.steps),
      .ranks = now.ranks,
      .epoch_seconds = elapsed / static_cast<double>(now.step - s.first_step) * static_cast<double>(now.steps)};
  const std::string line = progress_line(now, speed, left, s.estimate.left(s.phases, position));
  *s.out << "\r\033[K" << cut_to_terminal(line) << std::flush;
  s.live = true;
  s.shown = {};
}

void RunLog::epoch(const EpochRecord& record, bool ends) {
  if (!state_) return;
  State& s = *state_;
  s.add(record);
  RunPosition position{.stage = record.stage, .role = record.role, .epochs = 1.0 * record.epoch, .ranks = record.ranks};
  if (ends) position.epochs = std::numeric_limits<double>::infinity();
  const std::optional<TimeLeft> left = s.estimate.left(s.phases, position);
  const bool done = left && left->last_phase && ends;
  s.say(epoch_line(record) + (left && !done ? "  left: " + time_left_text(*left) : ""));
}

void RunLog::phase(const PhaseRecord& record) {
  if (!state_) return;
  state_->stages.write(to_json(record));
  state_->history(record.stage, record.role).record = record;
}

RunLog RunLog::of_team(bool continued) const {
  RunLog log;
  if (!settings_) return log;
  RunLogSettings settings = *settings_;
  settings.folder = (fs::path(settings.folder) / kTeamFolder).string();
  settings.terminal = false;     // a terminal can show only one live line
  settings.tensorboard = false;  // the run's log writes the file when it takes these records over
  make_folders(settings.folder);
  log.state_ = std::make_unique<State>(settings, settings.folder, continued);
  log.state_->rewrite();
  return log;
}

std::string RunLog::log_text() const {
  if (!state_) return {};
  std::ifstream file(state_->folder / kLog);
  return {std::istreambuf_iterator<char>(file), {}};
}

void RunLog::take_over(const std::vector<PhaseHistory>& phases, const std::string& log) {
  if (!state_) return;
  for (const PhaseHistory& phase : phases) state_->history(phase.record.stage, phase.record.role) = phase;
  // Within a stage, the plan's order of roles is alphabetical: coarse, dense.
  std::ranges::sort(state_->phases, {}, [](const PhaseHistory& s) { return std::pair(s.record.stage, s.record.role); });
  state_->rewrite();
  if (!log.empty()) state_->log.write(log.substr(0, log.size() - 1));  // without the last line break
  remove_team_records(state_->folder.string());
}

void RunLog::finish(const RunResult& result) {
  if (!state_) return;
  state_->say(result_table(result));
  // The run's checkpoints are removed after this, so the records must survive a crash of the machine by themselves.
  for (const LineFile* lines : {&state_->epochs, &state_->stages, &state_->log}) lines->sync();
  if (state_->events) state_->events->sync();
  write_file((state_->folder / "result.json").string(), to_json(result) + "\n", Replace::file);
}

// Open MPI gives a rank a pseudo-terminal as standard output even if mpirun's own goes to a file. A rank's standard
// error is a pipe, however.
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1 && isatty(STDERR_FILENO) == 1; }

// TensorBoard's event files: the epochs of a run as scalars. Declared in run_log.hpp.

namespace {

// CRC-32C (Castagnoli), which the frames are checked by.
constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}

std::uint32_t crc32c(const std::string& bytes) {
  static constexpr auto kTable = make_table();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU];
  return ~crc;
}

// Turned and shifted, as the format asks: a checksum of data that holds checksums would be weak.
std::uint32_t masked_crc(const std::string& bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// A TFRecord: length, its checksum, data, their checksum.
std::string frame(const std::string& data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(masked_crc(length)) + data + little_endian(masked_crc(data));
}

/// A protobuf message in the making.
class ProtoMessage {
 public:
  ProtoMessage& text(int field, const std::string& value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }
  ProtoMessage& integer(int field, std::int64_t value) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& real64(int field, double value) {
    tag(field, 1);
    bytes_ += little_endian(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& real32(int field, float value) {
    tag(field, 5);
    bytes_ += little_endian(std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire) { varint(static_cast<std::uint64_t>(field * 8 + wire)); }
  void varint(std::uint64_t value) {
    for (; value > 0x7F; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// The fields' numbers in tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto.
enum Event { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum Summary { kValue = 1 };
enum Value { kTag = 1, kSimpleValue = 2 };

ProtoMessage& add(ProtoMessage& summary, const std::string& tag, double value) {
  if (std::isnan(value)) return summary;  // nothing to score
  return summary.message(kValue, ProtoMessage().text(kTag, tag).real32(kSimpleValue, static_cast<float>(value)));
}

}  // namespace

std::string event_file_start() {
  return frame(ProtoMessage().real64(kWallTime, 0).text(kFileVersion, "brain.Event:2").bytes());
}

std::string epoch_event(const EpochRecord& record, Index step) {
  ProtoMessage values;
  add(values, "loss/training", record.train_loss);
  add(values, "loss/validation", record.validation_loss);
  if (record.metric) add(values, "metric/validation_" + to_string(record.metric->metric), record.metric->value);
  add(values, "learning_rate", record.learning_rate);
  add(values, fmt::format("seconds_per_epoch/stage_{}_{}", record.stage, to_string(record.role)), record.seconds);
  return frame(
      ProtoMessage().real64(kWallTime, record.total_seconds).integer(kStep, step).message(kSummary, values).bytes());
}

std::string event_file(const std::vector<PhaseHistory>& phases) {
  std::string bytes = event_file_start();
  Index step = 0;
  for (const PhaseHistory& phase : phases)
    for (const EpochRecord& record : phase.epochs) bytes += epoch_event(record, ++step);
  return bytes;
}

}  // namespace mrmf

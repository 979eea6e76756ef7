#include "tests/emulated/capture.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/emulated/settings.hpp"

namespace mrmf::emulated {
namespace {

void insert(std::vector<std::size_t>& set, std::size_t value) {
  const auto at = std::lower_bound(set.begin(), set.end(), value);
  if (at == set.end() || *at != value) set.insert(at, value);
}

/// Marks the nodes of `from` and everything before them.
std::vector<bool> ancestors(const std::vector<Node>& nodes, std::vector<std::size_t> from) {
  std::vector<bool> marked(nodes.size(), false);
  while (!from.empty()) {
    const std::size_t node = from.back();
    from.pop_back();
    if (marked[node]) continue;
    marked[node] = true;
    from.insert(from.end(), nodes[node].after.begin(), nodes[node].after.end());
  }
  return marked;
}

}  // namespace

cudaStreamCaptureMode& thread_capture_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

void invalidate(Capture& capture) { capture.invalid = true; }

void add_node(CUstream_st& stream, Work work, const std::string& name) {
  Capture& capture = *stream.capture;
  require(!capture.invalid, cudaErrorStreamCaptureInvalidated, "the capture was invalidated by an earlier call");
  capture.nodes.push_back({std::move(work), stream.tail, name});
  stream.tail = {capture.nodes.size() - 1};
}

void join(CUstream_st& stream, const CUevent_st& event) {
  require(!event.capture->ended, cudaErrorCapturedEvent, "the event was recorded in a capture that has ended");
  if (stream.capture && stream.capture != event.capture) {
    invalidate(*stream.capture);
    invalidate(*event.capture);
    throw Failure(cudaErrorStreamCaptureMerge, "the wait would merge two captures");
  }
  require(!event.capture->invalid, cudaErrorStreamCaptureInvalidated, "the capture was invalidated by an earlier call");
  if (!stream.capture) stream.tail.clear();
  stream.capture = event.capture;
  for (std::size_t node : event.nodes) insert(stream.tail, node);
}

void forbid_when_capturing(const CUstream_st& stream, const char* what) {
  if (!stream.capture) return;
  invalidate(*stream.capture);
  throw Failure(cudaErrorStreamCaptureUnsupported, std::string(what) + " on a stream that is being captured");
}

void forbid_in_capture(Machine& machine, const char* what) {
  const cudaStreamCaptureMode own = thread_capture_mode();
  if (own == cudaStreamCaptureModeRelaxed) return;
  for (const auto& capture : machine.captures) {
    const bool same_thread = capture->thread == std::this_thread::get_id();
    const bool hits = same_thread ? capture->mode != cudaStreamCaptureModeRelaxed
                                  : capture->mode == cudaStreamCaptureModeGlobal && own == cudaStreamCaptureModeGlobal;
    if (!hits) continue;
    invalidate(*capture);
    throw Failure(cudaErrorStreamCaptureUnsupported, std::string(what) + " during a stream capture");
  }
}

std::vector<Node> end_capture(Machine& machine, CUstream_st& origin) {
  const auto capture = origin.capture;
  require(capture != nullptr, cudaErrorIllegalState, "the stream is not being captured");
  require(capture->origin == &origin, cudaErrorStreamCaptureUnmatched, "the capture began in another stream");
  require(capture->mode == cudaStreamCaptureModeRelaxed || capture->thread == std::this_thread::get_id(),
          cudaErrorStreamCaptureWrongThread, "the capture began in another thread");
  const auto joined = ancestors(capture->nodes, origin.tail);
  bool unjoined = false;
  machine.each_stream([&](CUstream_st& stream) {
    if (stream.capture != capture) return;
    for (std::size_t node : stream.tail) unjoined = unjoined || !joined[node];
    stream.capture.reset();
    stream.tail.clear();
  });
  capture->ended = true;
  std::erase(machine.captures, capture);
  require(!capture->invalid, cudaErrorStreamCaptureInvalidated, "the capture was invalidated by an earlier call");
  require(!unjoined, cudaErrorStreamCaptureUnjoined, "a stream that took part in the capture was not joined back");
  return std::move(capture->nodes);
}

GraphRun::GraphRun(std::shared_ptr<const std::vector<Node>> nodes)
    : nodes_(std::move(nodes)), missing_(nodes_->size()), successors_(nodes_->size()) {
  for (std::size_t node = 0; node < nodes_->size(); ++node) {
    missing_[node] = (*nodes_)[node].after.size();
    for (std::size_t before : (*nodes_)[node].after) successors_[before].push_back(node);
    if (missing_[node] == 0) ready_.push_back(node);
  }
}

bool GraphRun::run_one() {
  for (std::size_t i = ready_.size(); i-- > 0;) {
    const std::size_t node = ready_[i];
    DeviceClock& clock = Machine::get().clock;
    const double begin = clock.now();
    if (!(*nodes_)[node].work()) continue;
    clock.add_work();
    if (kernels_file()) KernelTable::get().add(nodes_, node, clock.now() - begin);
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(i));
    for (std::size_t next : successors_[node])
      if (--missing_[next] == 0) insert(ready_, next);
    return true;
  }
  return false;
}

KernelTable& KernelTable::get() {
  static KernelTable* const table = new KernelTable;  // like the machine, never destroyed
  return *table;
}

KernelTable::KernelTable() {
  std::atexit([] { get().write(); });
}

void KernelTable::add(const std::shared_ptr<const std::vector<Node>>& graph, std::size_t node, double seconds) {
  const auto known =
      std::find_if(graphs_.begin(), graphs_.end(), [&](const auto& each) { return each.first == graph; });
  auto& rows = known != graphs_.end() ? known->second : graphs_.emplace_back(graph, graph->size()).second;
  ++rows[node].count;
  rows[node].seconds += seconds;
}

void KernelTable::write() const {
  std::FILE* const file = std::fopen(kernels_file(), "w");
  if (!file) return;
  std::fprintf(file, "graph\tcount\tus\tgap_us\tregisters\tblock\tgrid\tshared\tname\n");
  for (std::size_t graph = 0; graph < graphs_.size(); ++graph)
    for (std::size_t node = 0; node < graphs_[graph].second.size(); ++node) {
      const Row& row = graphs_[graph].second[node];
      std::fprintf(file, "%zu\t%ld\t%.3f\t0\t0\t0\t0\t0\t%s\n", graph + 1, row.count,
                   row.count ? 1e6 * row.seconds / static_cast<double>(row.count) : 0.0,
                   (*graphs_[graph].first)[node].name.c_str());
    }
  std::fclose(file);
}

bool GraphRun::advance() {
  while (!ready_.empty())
    if (!run_one()) return false;
  return true;
}

}  // namespace mrmf::emulated

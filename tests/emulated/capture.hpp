#pragma once
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulated/machine.hpp"

namespace mrmf::emulated {

/// A captured operation and the nodes that it comes after.
struct Node {
  Work work;
  std::vector<std::size_t> after;
  std::string name;  ///< what it does, for the table of kernels
};

/// A capture in progress.
struct Capture {
  cudaStream_t origin = nullptr;
  std::thread::id thread;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool invalid = false, ended = false;
  std::vector<Node> nodes;
};

void add_node(CUstream_st& stream, Work work, const std::string& name);
void invalidate(Capture& capture);
/// The stream takes part in the event's capture from here on, after what the event was recorded behind.
void join(CUstream_st& stream, const CUevent_st& event);
/// Ends the stream's capture. Throws when it is invalid or some stream was not joined back.
std::vector<Node> end_capture(Machine& machine, CUstream_st& origin);
/// Throws, and invalidates the capture, where CUDA forbids `what` in the calling thread during a capture.
void forbid_in_capture(Machine& machine, const char* what);
/// Throws, and invalidates, when this very stream is being captured.
void forbid_when_capturing(const CUstream_st& stream, const char* what);
cudaStreamCaptureMode& thread_capture_mode();

/// Runs the nodes of a graph once, always the last captured of those that may run: as unlike the order of capture as
/// the recorded dependencies allow, so that a missing one shows.
class GraphRun {
 public:
  explicit GraphRun(std::shared_ptr<const std::vector<Node>> nodes);
  bool advance();  ///< false: every node that may run waits for something outside

 private:
  bool run_one();
  std::shared_ptr<const std::vector<Node>> nodes_;
  std::vector<std::size_t> missing_;  // per node: predecessors still to run
  std::vector<std::vector<std::size_t>> successors_;
  std::vector<std::size_t> ready_;  // ascending
};

/// One line per node of the graphs that are replayed, in the order of capture: how often it ran and how long it took.
/// Written to settings' kernels_file() when the process ends, as tests/gpu/kernel_trace.cpp does on a real device.
class KernelTable {
 public:
  static KernelTable& get();
  void add(const std::shared_ptr<const std::vector<Node>>& graph, std::size_t node, double seconds);

 private:
  KernelTable();
  void write() const;
  struct Row {
    long count = 0;
    double seconds = 0;
  };
  std::vector<std::pair<std::shared_ptr<const std::vector<Node>>, std::vector<Row>>> graphs_;
};

}  // namespace mrmf::emulated

struct CUgraph_st {
  std::shared_ptr<const std::vector<mrmf::emulated::Node>> nodes;
};

struct CUgraphExec_st {
  std::shared_ptr<const std::vector<mrmf::emulated::Node>> nodes;
  mrmf::emulated::MarkerPtr last;  // a graph does not run beside itself
};

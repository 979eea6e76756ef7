// A table of the kernels in replayed CUDA graphs, by CUPTI: what nsys would say, where nsys can make no reports. Loaded
// into any program by the driver itself:
//
//   CUDA_INJECTION64_PATH=libmrmf_kernel_trace.so MRMF_KERNEL_TABLE=table.tsv mrmf bench training --device cuda ...
//
// The table (written when the program ends; tests/gpu/results.py reads it) has a line per node of each graph, in the
// order of their first start: graph, count, us (mean), gap_us (mean idle time of the device before it), registers,
// block, grid, shared (bytes), name. Work that no graph launched is left out.
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Span {
  std::uint64_t start, end;  // ns
};

struct Facts {
  unsigned registers = 0, block = 0, grid = 0, shared = 0;
};

struct Row {
  std::size_t order = 0;
  long count = 0;
  double nanoseconds = 0, gap = 0;
  Facts facts;
  std::string name;
};

/// What CUPTI's threads report; one for the process, as CUPTI's callbacks take no argument of ours.
class Table {
 public:
  static Table& get() {
    static Table* const table = new Table;  // never destroyed: CUPTI's threads may outlive main
    return *table;
  }

  void take(std::uint8_t* records, std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(records, bytes, &record) == CUPTI_SUCCESS) {
      if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const auto& k = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
        add({k.graphId, k.graphNodeId}, {k.start, k.end}, k.name,
            {k.registersPerThread, static_cast<unsigned>(k.blockX * k.blockY * k.blockZ),
             static_cast<unsigned>(k.gridX * k.gridY * k.gridZ),
             static_cast<unsigned>(k.staticSharedMemory + k.dynamicSharedMemory)});
      } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const auto& m = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
        add({m.graphId, m.graphNodeId}, {m.start, m.end}, "[memcpy]", {});
      } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const auto& m = *reinterpret_cast<const CUpti_ActivityMemset4*>(record);
        add({m.graphId, m.graphNodeId}, {m.start, m.end}, "[memset]", {});
      }
    }
  }

  void write() {
    const char* const path = std::getenv("MRMF_KERNEL_TABLE");
    std::FILE* const file = path ? std::fopen(path, "w") : nullptr;
    if (!file) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::map<std::pair<std::uint32_t, std::size_t>, const Row*> sorted;
    for (const auto& [node, row] : rows_) sorted[{node.first, row.order}] = &row;
    std::fprintf(file, "graph\tcount\tus\tgap_us\tregisters\tblock\tgrid\tshared\tname\n");
    for (const auto& [key, row] : sorted) {
      const double scale = 1e-3 / static_cast<double>(row->count);
      std::fprintf(file, "%u\t%ld\t%.3f\t%.3f\t%u\t%u\t%u\t%u\t%s\n", key.first, row->count, row->nanoseconds * scale,
                   row->gap * scale, row->facts.registers, row->facts.block, row->facts.grid, row->facts.shared,
                   row->name.c_str());
    }
    std::fclose(file);
  }

 private:
  using Node = std::pair<std::uint32_t, std::uint64_t>;  // graph, node

  // The end of what came before is known only in the order of the records, which is nearly that of time; a gap longer
  // than a step is the host's.
  void add(const Node& node, const Span& span, const char* name, const Facts& facts) {
    constexpr std::uint64_t longest_gap = 1'000'000;
    if (node.first != 0) {
      const auto [at, fresh] = rows_.try_emplace(node);
      Row& row = at->second;
      if (fresh) row.order = rows_.size(), row.name = name ? name : "?", row.facts = facts;
      ++row.count;
      row.nanoseconds += static_cast<double>(span.end - span.start);
      if (last_end_ != 0 && span.start > last_end_ && span.start - last_end_ < longest_gap)
        row.gap += static_cast<double>(span.start - last_end_);
    }
    if (span.end > last_end_) last_end_ = span.end;
  }

  std::mutex mutex_;
  std::map<Node, Row> rows_;
  std::uint64_t last_end_ = 0;
};

void request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  *bytes = std::size_t{8} << 20;
  *records = 0;  // as many as fit
  *buffer = static_cast<std::uint8_t*>(::operator new (*bytes, std::align_val_t{64}));
}

void complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t used) {
  Table::get().take(buffer, used);
  ::operator delete (buffer, std::align_val_t{64});
}

void finish() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  Table::get().write();
}

}  // namespace

/// The driver calls this before the program's first call of CUDA is done. 1: continue.
extern "C" [[gnu::visibility("default")]] int InitializeInjection() {
  cuptiActivityRegisterCallbacks(request, complete);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    cuptiActivityEnable(kind);
  std::atexit(finish);
  return 1;
}

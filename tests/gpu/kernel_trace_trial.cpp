// Records of two replays of a graph in CUPTI's place, for kernel_trace.cpp: it is linked with these functions instead
// of CUPTI's, and writes its table of them when this program ends (test_kernel_trace.py).
#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" int InitializeInjection();

namespace {

struct Callbacks {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::vector<CUpti_ActivityKind> kinds;  // that were asked for
};

/// CUPTI's callbacks take no argument of ours.
Callbacks& callbacks() {
  static auto* const given = new Callbacks;  // used when the program ends
  return *given;
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
    default: return sizeof(CUpti_ActivityMemset4);
  }
}

/// The records that were asked for, one behind the other.
class Records {
 public:
  template <class Record>
  void add(Record record, CUpti_ActivityKind kind, std::uint32_t graph, std::uint64_t node, std::uint64_t start,
           std::uint64_t end) {
    if (std::ranges::find(callbacks().kinds, kind) == callbacks().kinds.end()) return;
    record.kind = kind;
    record.graphId = graph;
    record.graphNodeId = node;
    record.start = start;
    record.end = end;
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&record);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof record);
  }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

CUpti_ActivityKernel10 kernel(const char* name) {
  CUpti_ActivityKernel10 record{};
  record.name = name;
  record.registersPerThread = 40;
  record.blockX = 32, record.blockY = 4, record.blockZ = 1;
  record.gridX = 10, record.gridY = 3, record.gridZ = 2;
  record.staticSharedMemory = 100, record.dynamicSharedMemory = 28;
  return record;
}

/// A step of 10 us by its start: a copy, two kernels of one name, a fill; and a kernel that no graph launched.
void add_step(Records& records, std::uint64_t at) {
  const CUpti_ActivityKind of_kernel = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  records.add(CUpti_ActivityMemcpy6{}, CUPTI_ACTIVITY_KIND_MEMCPY, 7, 21, at, at + 500);
  records.add(kernel("sum"), of_kernel, 7, 22, at + 1'000, at + 3'000);
  records.add(kernel("sum"), of_kernel, 7, 20, at + 3'250, at + 9'250);
  records.add(CUpti_ActivityMemset4{}, CUPTI_ACTIVITY_KIND_MEMSET, 7, 23, at + 9'250, at + 10'000);
  records.add(kernel("eager"), of_kernel, 0, 0, at + 10'000, at + 11'000);
}

}  // namespace

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  callbacks().request = request;
  callbacks().complete = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  callbacks().kinds.push_back(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes, CUpti_Activity** record) {
  auto* next = buffer;
  if (*record != nullptr) next = reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  if (next >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  Records records;
  constexpr std::uint64_t begin = 1'000'000'000, host_pause = 5'000'000;  // ns
  add_step(records, begin);
  add_step(records, begin + host_pause);
  std::uint8_t* buffer = nullptr;
  std::size_t room = 0, most = 0;
  callbacks().request(&buffer, &room, &most);
  if (room < records.bytes().size()) return CUPTI_ERROR_OUT_OF_MEMORY;
  std::memcpy(buffer, records.bytes().data(), records.bytes().size());
  callbacks().complete(nullptr, 0, buffer, room, records.bytes().size());
  return CUPTI_SUCCESS;
}
}

int main() { return InitializeInjection() == 1 ? 0 : 1; }

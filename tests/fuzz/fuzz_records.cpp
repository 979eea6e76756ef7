// Records of any bytes are a DataError or records, which their own text gives back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "kernels/errors.hpp"
#include "src/config/config.hpp"
#include "src/plan/plan.hpp"
#include "src/run/records_and_train_state.hpp"

namespace {

template <typename Read>
void check(const Read& read, const std::string& text) {
  try {
    const std::string written = mrmf::to_json(read(text));
    if (mrmf::to_json(read(written)) != written) std::abort();
  } catch (const mrmf::DataError&) {
  }
}

}  // namespace

/// The first byte says what the rest is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  static const mrmf::Phase phase;
  switch (data[0] % 5) {
    case 0: check([](const std::string& of) { return mrmf::epoch_from_json(of, "epochs.jsonl"); }, text); break;
    case 1: check([](const std::string& of) { return mrmf::phase_from_json(of, "stages.jsonl"); }, text); break;
    case 2: check([](const std::string& of) { return mrmf::result_from_json(of, "result.json"); }, text); break;
    case 3:
      check([](const std::string& of) { return mrmf::train_state_from_json(of, phase, "phase-1.h5"); }, text);
      break;
    default: check([](const std::string& of) { return mrmf::phase_history_from_json(of, "phase-1.h5"); }, text);
  }
  return 0;
}

#include "src/ensemble/gather.hpp"

#include <algorithm>
#include <filesystem>
#include <unordered_set>
#include <vector>

#include "io/output_file.hpp"
#include "io/work_folder.hpp"
#include "src/ensemble/collect.hpp"
#include "src/ensemble/folder.hpp"
#include "src/ensemble/journal.hpp"
#include "src/ensemble/members.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

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

}  // namespace mrmf

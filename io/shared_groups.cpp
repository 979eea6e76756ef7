#include "io/shared_groups.hpp"

#include <map>
#include <memory>
#include <string>

#include "io/sample_order.hpp"

namespace mrmf {
namespace {

/// Texts, whatever they hold, as one: each after its length.
std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += std::to_string(text.size()) + ':' + text;
  return all;
}

std::vector<std::string> parted(const std::string& all) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t colon = all.find(':', at), size = std::stoull(all.substr(at, colon - at));
    texts.push_back(all.substr(colon + 1, size));
    at = colon + 1 + size;
  }
  return texts;
}

std::string types_text(const GroupsAsRows& file) {
  std::vector<std::string> texts;
  for (const auto& [name, type] : file.types) {
    texts.push_back(name);
    texts.push_back(std::to_string(static_cast<int>(type)));
  }
  return joined(texts);
}

std::map<std::string, ElementType> types_of(const std::string& text) {
  std::map<std::string, ElementType> types;
  const std::vector<std::string> texts = parted(text);
  for (std::size_t i = 0; i + 1 < texts.size(); i += 2)
    types[texts[i]] = static_cast<ElementType>(std::stoi(texts[i + 1]));
  return types;
}

}  // namespace

std::vector<GroupsAsRows> share_groups(const std::vector<GroupsAsRows>& groups, Comm& comm) {
  std::vector<GroupsAsRows> all(groups.size());
  for (int rank = 0; rank < comm.size() && !groups.empty(); ++rank) {
    const Range files = piece(std::ssize(groups), rank, comm.size());
    std::vector<std::int64_t> counts(static_cast<std::size_t>(files.count));
    std::string names;
    for (std::size_t i = 0; i < counts.size() && rank == comm.rank(); ++i) {
      const GroupsAsRows& file = groups[static_cast<std::size_t>(files.first) + i];
      const std::vector<std::string>& own = *file.names;
      counts[i] = std::ssize(own);
      names += joined(own) + joined({types_text(file)});
    }
    comm.broadcast(std::span(counts), rank);
    comm.broadcast(names, rank);
    const std::vector<std::string> found = parted(names);
    auto next = found.begin();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      GroupsAsRows& file = all[static_cast<std::size_t>(files.first) + i];
      file.names = std::make_shared<const std::vector<std::string>>(next, next + counts[i]);
      next += counts[i];
      file.types = types_of(*next++);
    }
  }
  return all;
}

}  // namespace mrmf

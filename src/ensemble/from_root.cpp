#include "src/ensemble/from_root.hpp"

#include <nlohmann/json.hpp>

namespace mrmf {
namespace {

using Json = nlohmann::ordered_json;

Json packed(const Members& members) {
  Json states = Json::array();
  for (const MemberState& state : members.states)
    states.push_back({state.done, state.attempts, state.seconds, state.row, state.folder_index, state.reason});
  return {std::move(states), members.folders, members.twice, members.damaged};
}

void unpack(const Json& json, Members& members) {
  for (const Json& state : json[0])
    members.states.push_back({state[0].get<bool>(), state[1].get<int>(), state[2].get<double>(),
                              state[3].get<std::uint64_t>(), state[4].get<std::size_t>(), state[5].get<std::string>()});
  json[1].get_to(members.folders);
  json[2].get_to(members.twice);
  json[3].get_to(members.damaged);
}

Json packed(const RoundPoints& rounds) { return {rounds.points, rounds.rounds}; }

void unpack(const Json& json, RoundPoints& rounds) {
  json[0].get_to(rounds.points);
  json[1].get_to(rounds.rounds);
}

template <class Read>
auto from_root(Comm& world, Read&& read) {
  decltype(read()) found;
  std::string bytes;
  collective_try_on_root(world, [&] {
    found = read();
    if (world.size() > 1) Json::to_msgpack(packed(found), bytes);
  });
  if (world.size() == 1) return found;
  world.broadcast(bytes, 0);
  if (!world.root()) unpack(Json::from_msgpack(bytes), found);
  return found;
}

}  // namespace

Members members_from_root(const EnsembleSpec& spec, Index members, Comm& world) {
  return from_root(world, [&] { return read_members(spec, members); });
}

RoundPoints rounds_from_root(const EnsembleSpec& spec, Comm& world) {
  return from_root(world, [&] { return read_rounds(spec); });
}

}  // namespace mrmf

#include "src/model_file.hpp"

#include <fmt/format.h>

#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"

namespace mrmf {
namespace {

constexpr const char* kFormat = "mrmf model 1";

// Calls visit(data set name, part, its span) for every part of every layer, in arena order.
template <typename Floats, typename Visit>
void for_each_part(const Network& network, Floats params, Floats state, const Visit& visit) {
  for (const Entry& entry : network.entries()) {
    const auto walk = [&](const char* group, const std::vector<Part>& parts, Index at, Floats arena) {
      for (const Part& part : parts) {
        visit(fmt::format("{}/{}/{}", group, entry.name, part.name), part,
              arena.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(part.count())));
        at += part.count();
      }
    };
    walk("parameters", entry.footprint.params, entry.params.first, params);
    walk("state", entry.footprint.state, entry.state.first, state);
  }
}

}  // namespace

void save_model(Backend& backend, const std::string& path, const Model& model, const std::string& config_toml,
                Comm& comm) {
  PartialFile partial(path, comm);
  Hdf5File file = Hdf5File::create(partial.path(), comm);
  file.write_attribute("format", kFormat);
  file.write_attribute("config", config_toml);
  for_each_part(model.network(), model.params(), model.state(),
                [&](const std::string& name, const Part& part, ConstSpan values) {
                  file.create_dataset(name, part.shape);
                  if (!comm.root()) return;
                  std::vector<float> host(values.size());
                  backend.read(values, host);
                  file.write_rows(name, 0, host);
                });
  file.close();
  partial.commit();
}

void load_model(Backend& backend, const std::string& path, Model& model, Comm& comm) {
  const Hdf5File file = Hdf5File::open(path, comm);
  if (file.read_attribute("format") != kFormat)
    throw DataError(path + ": not a model written by mrmf (attribute \"format\" is not \"" + kFormat + "\")");
  for_each_part(
      model.network(), model.params(), model.state(), [&](const std::string& name, const Part& part, Span values) {
        const DatasetInfo info = file.info(name);
        if (info.shape != part.shape)
          throw DataError(path + ": data set " + name + " has another shape than this model's layer; was it " +
                          "trained with another network or resolution?");
        std::vector<float> host(values.size());
        if (comm.root()) file.read_rows(name, 0, part.shape.front(), host);
        comm.broadcast(host, 0);
        backend.write(host, values);
      });
}

}  // namespace mrmf

#include "src/model_file.hpp"

#include "io/agreement.hpp"
#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"
#include "src/model_parts.hpp"

namespace mrmf {
namespace {

constexpr const char* kFormat = "mrmf model 1";

// Calls visit(data set name, its shape, its span) for every part of every layer.
template <typename Floats, typename Visit>
void for_each_part(const Network& network, Floats params, Floats state, const Visit& visit) {
  for (const PartPlace& part : parameter_places(network)) visit("parameters/" + part.name, part.shape, part.in(params));
  for (const PartPlace& part : state_places(network)) visit("state/" + part.name, part.shape, part.in(state));
}

void write_model(Backend& backend, const std::string& path, const Model& model, const std::string& config_toml) {
  PartialFile partial(path, Comm::self());
  Hdf5File file = Hdf5File::create(partial.path(), Comm::self());
  file.write_attribute("format", kFormat);
  file.write_attribute("config", config_toml);
  for_each_part(model.network(), model.params(), model.state(),
                [&](const std::string& name, const std::vector<Index>& shape, ConstSpan values) {
                  file.create_dataset(name, shape);
                  std::vector<float> host(values.size());
                  backend.read(values, host);
                  file.write_rows(name, 0, host);
                });
  file.close();
  partial.commit();
}

}  // namespace

// By one rank alone: nobody need wait in a collective call of MPI-IO, which has no limit.
void save_model(Backend& backend, const std::string& path, const Model& model, const std::string& config_toml,
                Comm& comm) {
  together(comm, [&] {
    if (comm.root()) write_model(backend, path, model, config_toml);
  });
}

void load_model(Backend& backend, const std::string& path, Model& model, Comm& comm) {
  const Hdf5File file = Hdf5File::open(path, comm);
  if (file.read_attribute("format") != kFormat)
    throw DataError(path + ": not a model written by mrmf (attribute \"format\" is not \"" + kFormat + "\")");
  for_each_part(model.network(), model.params(), model.state(),
                [&](const std::string& name, const std::vector<Index>& shape, Span values) {
                  const DatasetInfo info = file.info(name);
                  if (info.shape != shape)
                    throw DataError(path + ": data set " + name +
                                    " has another shape than this model's layer; was it " +
                                    "trained with another network or resolution?");
                  std::vector<float> host(values.size());
                  if (comm.root()) file.read_rows(name, 0, shape.front(), host);
                  comm.broadcast(host, 0);
                  backend.write(host, values);
                });
}

}  // namespace mrmf

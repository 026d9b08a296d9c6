// The option `recon --save-after` writes the output of a gadget as arrays to a file.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/context.h"
#include "protocol/files/dataset.h"

namespace echotrain::client {

/// Arrays are named <gadget>_<frame number>. Readouts: _data [readout, channel, sample] and _trajectory [readout,
/// sample, dimension], all batches of a frame together (readouts of a kind K other than imaging have _kindK before
/// these). Samples: _data [sample, coil], _weights [sample], _coordinates [sample, dimension]. A stack's planes: the
/// same. KSpace, Grid, OversampledImages, CoilImages: one complex array [coil, z, y, x].
class ItemSaver {
 public:
  /// The writer and the context must outlive this.
  ItemSaver(std::string gadget, numerics::Context& context, protocol::DatasetWriter& file)
      : gadget_(std::move(gadget)), context_(context), file_(file) {}

  void save(const Item& item);
  /// Writes the readouts of frames that never ended. Call it once, after the pipeline has finished.
  void finish();
  std::size_t saved() const { return saved_; }

 private:
  struct OpenReadouts {
    numerics::Shape shape, trajectory_shape;  // of one readout
    std::size_t readouts = 0;
    std::vector<std::complex<float>> data;
    std::vector<float> trajectory;
  };
  std::string name(const std::shared_ptr<const Frame>& frame) const;
  void save(const Readouts& readouts);
  void save(const Samples& samples);
  void save_array(const std::string& name, const Array<cfloat>& data);
  void write(const std::string& name, const OpenReadouts& open);

  std::string gadget_;
  numerics::Context& context_;
  protocol::DatasetWriter& file_;
  std::map<std::string, OpenReadouts> open_;  // by array name
  std::size_t saved_ = 0;
};

}  // namespace echotrain::client

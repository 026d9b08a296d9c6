// Side images are images that a gadget uses beside the data: coil maps, references. They come from a file that the
// pipeline names, or from the client as IMAGE messages whose meta attribute `role` names their use.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "protocol/data/messages.h"

namespace echotrain {

/// Reads the images of the file `name`; throws an exception that says why there are none.
using ReadAsset = std::function<std::vector<protocol::Image>(const std::string& name)>;

/// The side images of a scan. Confined to the pipeline's thread.
class SideImages {
 public:
  using Voxels = numerics::Array<numerics::cfloat>;
  SideImages(numerics::Context& compute, ReadAsset read) : compute_(compute), read_(std::move(read)) {}

  /// Asks for images. Reads them from `file` at once; if `file` is empty, the client will send them as `role`. Throws
  /// ClientError when the file cannot be used.
  void want(const std::string& role, const std::string& file);
  /// Takes an image from the client; its RescaleSlope and RescaleIntercept are applied. Returns false when no gadget
  /// wants its role. Throws ClientError when its voxels cannot be used.
  bool take(const protocol::Image& image);
  /// Takes an image as one of this role, whatever its own attributes say.
  bool take(const protocol::Image& image, const std::string& role);
  /// Returns voxels [coil, z, y, x] for a slice: the image of this slice, or the only one there is. Throws ClientError
  /// when there is none; its text says how to give one.
  const Voxels& find(const std::string& role, std::uint16_t slice) const;

  /// True if `name` can be the name of such a file: letters, digits, '.', '_' and '-', not beginning with '.'.
  static bool is_file_name(const std::string& name);

 private:
  void add(const std::string& role, const protocol::Image& image);

  numerics::Context& compute_;
  ReadAsset read_;
  std::map<std::string, std::string> files_;  // role -> file, or empty
  std::map<std::string, std::map<std::uint16_t, Voxels>> images_;
};

}  // namespace echotrain

// An ArrayStore keeps large arrays on disk between runs, such as point spread functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gadgets/numerics/core/array.h"

namespace echotrain {

/// Each array is stored under a key that holds everything it depends on, in full: files keep the key, and it is
/// compared. A file that is damaged, of another version or of another key counts as missing; a folder that cannot be
/// written keeps nothing. Throws only std::bad_alloc, and numerics::Stopped when `stop` comes meanwhile. Several
/// processes may share the folder. When the files exceed `most_bytes`, arrays are removed by fair share: each time the
/// least recently used one of the client that has most; a client with no more than an equal part loses nothing to
/// others. An array belongs to the client that used it last, and if that one loses it, to the one before; empty files
/// beside it, named by owner_name(), tell its users.
class ArrayStore {
 public:
  /// With an empty folder or 0 bytes, nothing is kept.
  ArrayStore(std::filesystem::path folder, std::uint64_t most_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  /// Returns the array of `count` elements; no value if there is none.
  std::optional<std::vector<numerics::cfloat>> find(const std::string& key, std::int64_t count,
                                                    const std::stop_token& stop = {},
                                                    const std::string& client = {}) const;
  /// Stores an array. It is not kept if it does not fit beside the parts of other clients.
  void add(const std::string& key, numerics::HostView<const numerics::cfloat> array, const std::stop_token& stop = {},
           const std::string& client = {}) const;

 private:
  std::filesystem::path file(const std::string& key, const std::stop_token& stop) const;
  void note_use(const std::filesystem::path& array, const std::string& owner) const;
  bool make_room(std::uint64_t more, const std::string& owner) const;

  std::filesystem::path folder_;
  std::uint64_t most_bytes_;
};

/// A 64-bit digest of any bytes; another `seed` gives an independent digest. It detects damage, and probably equal
/// bytes, but not bytes that were made to have the same digest.
std::uint64_t digest_bytes(const void* data, std::size_t bytes, std::uint64_t seed);

struct StoredFile {
  std::filesystem::path path;
  std::filesystem::file_time_type written;  ///< or marked as used
  std::uint64_t bytes = 0;
};
/// The regular files of a folder whose names end in `extension` (".array"), the oldest first; none where it cannot be
/// read.
std::vector<StoredFile> stored_files(const std::filesystem::path& folder, const std::string& extension);
/// Removes such files that are older than `keep`, then the oldest until the others have at most `most_bytes`; also
/// files of any name that ends in kUnfinishedFile and that were not written to for an hour.
void trim_stored_files(const std::filesystem::path& folder, const std::string& extension, std::uint64_t most_bytes,
                       std::chrono::hours keep = std::chrono::hours::max());
/// The end of the name of a file that is being written, or was being written when its process was killed.
inline constexpr const char* kUnfinishedFile = ".part";

}  // namespace echotrain

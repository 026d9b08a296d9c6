// The encoding of records as bytes of a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace echotrain {

template <class T>
void put(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Takes values off the front of a text; `good` is false once one was missing.
struct RecordReader {
  std::string_view left;
  bool good = true;
  template <class T>
  T take() {
    T value{};
    bytes(&value, sizeof value);
    return value;
  }
  void bytes(void* to, std::size_t count) {
    good = good && left.size() >= count;
    if (!good || count == 0) return;
    std::memcpy(to, left.data(), count);
    left.remove_prefix(count);
  }
};

constexpr int kMostStoredCoils = 1024;
constexpr std::size_t kMostLabelBytes = 64;

/// Labels beyond these bounds are cut.
inline void put_labels(std::string& to, const std::vector<std::string>& labels) {
  put(to, static_cast<std::int32_t>(labels.size()));
  for (const std::string& label : labels) {
    const std::size_t size = std::min(label.size(), kMostLabelBytes);
    put(to, static_cast<unsigned char>(size));
    to.append(label, 0, size);
  }
}

inline std::vector<std::string> take_labels(RecordReader& from) {
  std::vector<std::string> labels;
  const auto count = from.take<std::int32_t>();
  for (std::int32_t i = 0; i < std::min(count, kMostStoredCoils) && from.good; ++i) {
    std::string label(from.take<unsigned char>(), '\0');
    from.bytes(label.data(), label.size());
    labels.push_back(std::move(label));
  }
  return labels;
}

}  // namespace echotrain

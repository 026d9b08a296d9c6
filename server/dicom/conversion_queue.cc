#include "server/dicom/conversion_queue.h"

#include <algorithm>
#include <vector>

#include "protocol/wire/slab_pool.h"

namespace echotrain::server {

namespace {
// A node of the list, what keeps the pixels (a small array's block and its owner), and what the allocator adds to these
// and to the attributes.
constexpr std::size_t kPlace = sizeof(Conversion) + 2 * sizeof(void*) + 256 + 3 * 24;
}  // namespace

Conversion::Conversion(std::shared_ptr<DicomScan> of, std::optional<protocol::Image> what)
    : scan(std::move(of)), image(std::move(what)), bytes(kPlace) {
  if (!image) return;
  protocol::Payload& pixels = image->pixels;
  bytes += image->attributes.capacity() + pixels.bytes.size();
  if (pixels.bytes.size() < protocol::SlabPool::kSlabBytes)
    pixels = protocol::Payload::take(std::vector(pixels.bytes.begin(), pixels.bytes.end()));
  else
    bytes += image->attributes.size() + (pixels.bytes.size() + image->attributes.size()) / 4;
}

bool ConversionQueue::fits(const std::string& client, std::size_t bytes, std::size_t kept) const {
  const std::size_t taken = bytes_ + kept + bytes;
  if (taken > most_) return false;
  const auto own = lines_.find(client);
  return own == lines_.end() || own->second.bytes <= most_ - taken;
}

ConversionQueue::Line& ConversionQueue::count(const std::string& client, const Conversion& work) {
  const auto [line, is_new] = lines_.try_emplace(client);
  if (is_new) turns_.push_back(line);
  line->second.bytes += work.bytes;
  bytes_ += work.bytes;
  return line->second;
}

void ConversionQueue::push(const std::string& client, Conversion&& work) {
  count(client, work).work.push_back(std::move(work));
}

void ConversionQueue::push_front(const std::string& client, Conversion&& work) {
  count(client, work).work.push_front(std::move(work));
}

void ConversionQueue::count_as(Conversion& work, std::size_t bytes) {
  for (std::size_t* counted : {&turns_.front()->second.bytes, &bytes_}) *counted = *counted - work.bytes + bytes;
  work.bytes = bytes;
}

Conversion ConversionQueue::pop(const Conversion& work) {
  Line& line = turns_.front()->second;
  const auto at =
      std::find_if(line.work.begin(), line.work.end(), [&](const Conversion& each) { return &each == &work; });
  Conversion out = std::move(*at);
  line.work.erase(at);
  line.bytes -= out.bytes;
  bytes_ -= out.bytes;
  if (line.work.empty()) {
    lines_.erase(turns_.front());
    turns_.pop_front();
  }
  return out;
}

void ConversionQueue::each(const std::function<void(const Conversion&)>& look) const {
  for (const auto& [client, line] : lines_)
    for (const Conversion& work : line.work) look(work);
}

}  // namespace echotrain::server

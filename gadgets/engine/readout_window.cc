#include "gadgets/engine/readout_window.h"

#include <algorithm>
#include <utility>

namespace echotrain {
namespace {

constexpr std::int64_t kChunkBytes = 1 << 20;

/// The part [begin, end) of the first axis.
template <class T>
numerics::HostView<const T> part(const HostArray<T>& all, std::int64_t begin, std::int64_t end) {
  const auto& shape = all.shape();
  return all.view().part(begin * shape[1] * shape[2], {end - begin, shape[1], shape[2]});
}

template <class T>
HostArray<T> shared(const HostArray<T>& all, numerics::HostView<const T> some) {
  return {std::shared_ptr<void>(all.memory(), const_cast<T*>(some.data())), some.shape(), all.memory_kind()};
}

template <class T>
HostArray<T> copied(numerics::Context& compute, numerics::HostView<const T> from) {
  HostArray<T> out = compute.allocate_host<T>(from.shape());
  std::copy_n(from.data(), from.size(), out.data());
  return out;
}

}  // namespace

bool ReadoutWindow::fits(const protocol::AcquisitionHeader& head) const {
  if (chunks_.empty()) return false;
  const Chunk& chunk = chunks_.back();
  const protocol::AcquisitionHeader& first = chunk.heads.data()[0];
  return chunk.end < chunk.heads.shape()[0] && head.active_channels == first.active_channels &&
         head.number_of_samples == first.number_of_samples && head.trajectory_dimensions == first.trajectory_dimensions;
}

ReadoutWindow::Chunk ReadoutWindow::make_chunk(const protocol::AcquisitionHeader& head) const {
  const std::int64_t channels = head.active_channels, samples = head.number_of_samples,
                     dims = head.trajectory_dimensions;
  const std::int64_t bytes =
      static_cast<std::int64_t>(sizeof(head)) + samples * (channels * static_cast<std::int64_t>(sizeof(cfloat)) +
                                                           dims * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t count = std::clamp<std::int64_t>(kChunkBytes / bytes, 1, most_);
  Chunk chunk;
  chunk.heads = compute_->allocate_host<protocol::AcquisitionHeader>({count});
  chunk.data = compute_->allocate_host<cfloat>({count, channels, samples});
  if (dims > 0) chunk.trajectory = compute_->allocate_host<float>({count, samples, dims});
  return chunk;
}

void ReadoutWindow::push(const protocol::Acquisition& readout) {
  if (!fits(readout.head)) chunks_.push_back(make_chunk(readout.head));
  Chunk& chunk = chunks_.back();
  chunk.heads.data()[chunk.end] = readout.head;
  readout.data.copy_to(chunk.data.view().slice(chunk.end).data());
  if (chunk.trajectory) readout.trajectory.copy_to(chunk.trajectory.view().slice(chunk.end).data());
  ++chunk.end;
  ++size_;
}

void ReadoutWindow::drop(std::int64_t oldest) {
  size_ -= oldest;
  while (oldest > 0) {
    Chunk& chunk = chunks_.front();
    const std::int64_t n = std::min(oldest, chunk.end - chunk.begin);
    chunk.begin += n;
    oldest -= n;
    if (chunk.begin == chunk.end) chunks_.pop_front();
  }
}

void ReadoutWindow::give(std::int64_t leaving, const std::function<void(Readouts&&)>& emit) {
  const std::int64_t whole = size_;
  std::int64_t given = 0;
  const auto next = [&](const Chunk& chunk, bool leaves) {
    Readouts out = batch(chunk, chunk.begin, leaves);
    out.first = given == 0;
    given += chunk.end - chunk.begin;
    out.last = given == whole;
    return out;
  };
  while (!chunks_.empty() && chunks_.front().end - chunks_.front().begin <= leaving) {
    const std::int64_t n = chunks_.front().end - chunks_.front().begin;
    Readouts out = next(chunks_.front(), true);
    drop(n);  // first, so that only the gadgets hold the memory while they work
    leaving -= n;
    emit(std::move(out));
  }
  for (const Chunk& chunk : chunks_) emit(next(chunk, false));
  drop(leaving);
}

void ReadoutWindow::give_newest(std::int64_t count, bool first, bool last,
                                const std::function<void(Readouts&&)>& emit) const {
  std::int64_t skip = size_ - count;
  for (const Chunk& chunk : chunks_) {
    const std::int64_t begin = std::min(chunk.begin + skip, chunk.end);
    skip -= begin - chunk.begin;
    if (begin == chunk.end) continue;
    Readouts out = batch(chunk, begin, false);
    out.first = std::exchange(first, false);
    out.last = last && &chunk == &chunks_.back();
    emit(std::move(out));
  }
}

/// Makes a batch of a chunk's readouts from `begin` on. On CUDA the upload is the copy: it reads its part of the chunk
/// later, and nobody writes to that part again.
Readouts ReadoutWindow::batch(const Chunk& chunk, std::int64_t begin, bool leaves) const {
  Readouts out;
  out.heads.assign(chunk.heads.data() + begin, chunk.heads.data() + chunk.end);
  const auto data = part(chunk.data, begin, chunk.end);
  if (compute_->cuda()) {
    out.data = compute_->upload<cfloat>(data);
  } else {
    out.data = compute_->place(leaves ? shared(chunk.data, data) : copied(*compute_, data));
  }
  if (chunk.trajectory) {
    const auto trajectory = part(chunk.trajectory, begin, chunk.end);
    out.trajectory = leaves ? shared(chunk.trajectory, trajectory) : copied(*compute_, trajectory);
  }
  return out;
}

}  // namespace echotrain

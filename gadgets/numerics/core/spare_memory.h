// Memory of past contexts, kept for future ones.
#pragma once

namespace echotrain::numerics {

class Resources;

/// Frees the large blocks of the CPU backend that no context of these resources has used since the previous call. Call
/// it at regular intervals: it then frees a block after one to two intervals without use. Returns whether anything was
/// freed. Thread-safe.
bool free_unused_blocks(Resources& resources);

}  // namespace echotrain::numerics

// Memory of contexts that are gone, kept for those to come.
#pragma once

namespace echotrain::numerics {

class Resources;

/// Frees the large blocks of the CPU backend that no context of these resources has used since the call before. To be
/// called at regular times, so that a block is freed when it has been unused for one to two of the periods between.
/// Says whether anything was freed. Thread-safe.
bool free_unused_blocks(Resources& resources);

}  // namespace echotrain::numerics

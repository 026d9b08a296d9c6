// Meta attributes of images in the notes of their frames (Frame::notes), from which the gadget `image` writes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"

namespace echotrain {

/// One note that stands for an attribute of several values (ImageRowDir, ImageProcessingHistory). XML cannot hold the
/// sign that separates them.
std::string note_of(const std::vector<std::string>& values);
/// The values of a note, at least one.
std::vector<std::string> values_of(const std::string& note);

/// An image's attributes as notes. Those that begin with "echotrain_" are left out: they tell of another pass through a
/// server. Empty for text that is no ismrmrdMeta document.
std::map<std::string, std::string> notes_of(const std::string& attributes);

/// What notes take [bytes].
std::uint64_t bytes_of(const std::map<std::string, std::string>& notes);

/// Says which values a viewer is to show. An inherited IceMiniHead, which says so of the values as they were, goes.
void set_window(Frame& frame, double center, double width);
/// Says that nobody knows which values to show: they mean something else now.
void forget_window(Frame& frame);

/// Adds a step to the attribute ImageProcessingHistory.
void add_step(Frame& frame, std::string_view step);

/// Whether a frame's values have a unit of their own: g-factors and images in units of SNR, which are not scaled.
bool has_own_unit(const Frame& frame);

/// Whether an image has phases of a client, whose values gadget `gadget` cannot calculate with: the sum of two angles
/// is no angle. It passes them on as they are; a warning says so.
bool are_phases(const Frame& frame, Scan& scan, std::string_view gadget);

}  // namespace echotrain

// Meta attributes of images in the notes of their frames (Frame::notes), from which the gadget `image` writes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"

namespace echotrain {

/// Joins several values of an attribute (ImageRowDir, ImageProcessingHistory) into one note. XML cannot hold the
/// character that separates them.
std::string note_of(const std::vector<std::string>& values);
/// The values of a note, at least one.
std::vector<std::string> values_of(const std::string& note);
/// The number in a note; empty where there is no such note, or no number in it.
std::optional<double> number_of(const std::map<std::string, std::string>& notes, const std::string& name);

/// An image's attributes as notes. Those that begin with "echotrain_" are left out, because they belong to an earlier
/// pass through a server. Empty for text that is no ismrmrdMeta document.
std::map<std::string, std::string> notes_of(const std::string& attributes);

/// Sets the window of values that a viewer shows. Removes an inherited IceMiniHead, which describes the window of the
/// old values.
void set_window(Frame& frame, double center, double width);
/// Removes the window, because the values have a new meaning.
void forget_window(Frame& frame);

/// Adds a step to the attribute ImageProcessingHistory.
void add_step(Frame& frame, std::string_view step);

/// True if a frame's values have a unit of their own, and are not scaled: g-factors, images in units of SNR, maps of
/// physical quantities.
bool has_own_unit(const Frame& frame);

/// True if an image has a client's phases, with which gadget `gadget` cannot calculate: the sum of two angles is no
/// angle. The gadget passes them on unchanged; a warning tells.
bool are_phases(const Frame& frame, Scan& scan, std::string_view gadget);

}  // namespace echotrain

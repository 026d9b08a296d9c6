// The model has the types of MRD 2.1, as its streams name them.
#pragma once

#include <string>

#include "protocol/mrd2/schema.h"

namespace echotrain::protocol::mrd2 {

/// Returns the JSON text at the beginning of MRD 2.1 streams. Readers that are made by yardl take a stream only if this
/// text is what they expect, byte by byte.
const std::string& model_text();

/// Returns the same, read.
const Schema& model();

/// Returns the type of a record in a schema's streams, by its name ("Image<float32>"), or nullptr.
const Type* find_type(const Schema& schema, const std::string& name);

}  // namespace echotrain::protocol::mrd2

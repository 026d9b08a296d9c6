// Each part of the server that a build may leave out has one function, in a source of the part's name.
#pragma once

#include "server/session/optional_parts.h"

namespace echotrain::server {

void add_admin(OptionalParts& to);
void add_dicom(OptionalParts& to);
void add_openrecon(OptionalParts& to);
void add_plugins(OptionalParts& to);

}  // namespace echotrain::server

// Each part of the server that a build may leave out has one function, in a source of the part's name.
#pragma once

#include "server/session/parts.h"

namespace echotrain::server {

void add_admin(Parts& to);
void add_dicom(Parts& to);
void add_openrecon(Parts& to);
void add_plugins(Parts& to);

}  // namespace echotrain::server

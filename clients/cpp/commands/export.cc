// The command export.
#include "clients/cpp/images/export.h"

#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_export(config::Command& program, const CommandContext& tools) {
  config::Command& command =
      program.add_command("export", "write images as PNG pictures, GIF animations, NIfTI volumes or DICOM files");
  command.examples(
      "Examples:\n"
      "  echotrain export images.h5 --png pictures\n"
      "  echotrain export cine.h5 --gif pictures --fps 15 --window 0 1.2\n"
      "  echotrain export volumes.h5 --nifti volumes\n"
      "  echotrain export images.h5 --dicom dicom\n"
      "  echotrain export images.h5 --dicom dicom --dicom-enhanced");
  command.act([tools, given = command.add(export_options())] {
    export_images(given.read(), tools.out, tools.err);
    return 0;
  });
}

}  // namespace echotrain::client

// Images of a scan, to take away. The server is asked first whether there is such a file: what a browser fetches by a
// link cannot be shown when it is a refusal.

import { make, setText } from "./dom.js";

const kFormats = [
  ["mrd", "MRD stream", "the images as they were sent, one message after another"],
  ["hdf5", "HDF5", "ISMRMRD's HDF5 file of the images"],
  ["nifti", "NIfTI", "a volume for each series, with its place in the scanner"],
  ["png", "PNG", "a ZIP file of pictures, one for each plane"],
  ["dicom", "DICOM", "a ZIP file of DICOM files, one for each plane"],
];

async function fetchFile(scan, format, told) {
  const path = `/live/download?scan=${scan}&format=${format}`;
  setText(told, "");
  try {
    const known = await fetch(path, { method: "HEAD" });
    if (!known.ok) {
      setText(told, (await (await fetch(path)).text()).trim());
      return;
    }
    make("a", { href: path, download: "" }).click();
  } catch {
    setText(told, "the server does not answer");
  }
}

/** Buttons for the images of a scan, and a line for what stands against one. */
export function createDownloads(scan) {
  const told = make("span", { class: "error download-told", role: "status" });
  const buttons = kFormats.map(([format, name, what]) =>
    make(
      "button",
      { type: "button", "data-format": format, title: what, click: () => fetchFile(scan, format, told) },
      name,
    ),
  );
  return make("p", { class: "downloads", role: "group", "aria-label": `images of scan ${scan} to take away` }, "Take away: ", ...buttons, " ", told);
}

// One plane of an image: fetched from the server, and drawn in colours.

import { tableOf } from "./colours.js";

/** A plane of /live/image: its head and its values as a Float32Array; of a map in its unit. */
export async function fetchPlane(query) {
  const response = await fetch(`/live/image?${query}`);
  if (!response.ok) throw new Error((await response.text()).trim());
  const bytes = await response.arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  const values = new Float32Array(bytes, 4 + length);
  if (head.map && head.part !== "phase") rescale(head, values);
  return { head, values };
}

function rescale(head, values) {
  const { slope, intercept } = head.map;
  if (slope === 1 && intercept === 0) return;
  for (let i = 0; i < values.length; i += 1) values[i] = values[i] * slope + intercept;
  const ends = [head.low, head.high].map((value) => value * slope + intercept);
  head.low = Math.min(...ends);
  head.high = Math.max(...ends);
}

/** Makes the canvas as large as the plane, and fills it with colours from `low` to `high`. */
export function drawPlane(canvas, { width, height }, values, { low, high }, colours = "grey") {
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const table = tableOf(colours);
  const scale = 255 / (high - low || 1);
  for (let i = 0; i < values.length; i += 1) {
    const at = (values[i] - low) * scale;
    pixels[i] = table[at >= 255 ? 255 : at >= 0 ? at | 0 : at < 0 ? 0 : 256];
  }
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Paints a part {left, top, width, height} of a drawn plane on a canvas that is 512 wide and has the image's proportions. */
export function paintPart(canvas, drawn, head, { left, top, width, height }) {
  const aspect = (head.height * (head.fov_mm[1] / head.matrix[1] || 1)) / (head.width * (head.fov_mm[0] / head.matrix[0] || 1));
  const tall = Math.max(32, Math.min(2048, Math.round(512 * (Number.isFinite(aspect) && aspect > 0 ? aspect : 1))));
  if (canvas.width !== 512) canvas.width = 512;
  if (canvas.height !== tall) canvas.height = tall;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(drawn, left, top, width, height, 0, 0, canvas.width, canvas.height);
  return context;
}

// One plane of an image: fetched from the server, and drawn in greys.

/** A plane of /live/image: its head and its values as a Float32Array. */
export async function fetchPlane(query) {
  const response = await fetch(`/live/image?${query}`);
  if (!response.ok) throw new Error((await response.text()).trim());
  const bytes = await response.arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  return { head, values: new Float32Array(bytes, 4 + length) };
}

/** Makes the canvas as large as the plane, and fills it: black is `low`, white is `high`. */
export function drawGrey(canvas, { width, height }, values, { low, high }) {
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const scale = 255 / (high - low || 1);
  for (let i = 0; i < values.length; i += 1) {
    const grey = Math.max(0, Math.min(255, (values[i] - low) * scale)) | 0; // not a number: black
    pixels[i] = 0xff000000 | (grey << 16) | (grey << 8) | grey;
  }
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

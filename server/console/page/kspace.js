// The picture of k-space that fills while lines arrive.

const kColours = { 0: [16, 20, 26], 1: [40, 84, 120], 2: [140, 212, 255] };

/** Draws the cells that have come, and the newest readout's path where there is one. */
export function drawKspace(canvas, kspace) {
  const size = 96;
  canvas.width = size;
  canvas.height = size;
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  for (let y = 0; y < size; y += 1) {
    const row = Math.floor((y * kspace.height) / size);
    for (let x = 0; x < size; x += 1) {
      const column = Math.floor((x * kspace.width) / size);
      const [r, g, b] = kColours[kspace.cells[row * kspace.width + column]] || kColours[0];
      image.data.set([r, g, b, 255], 4 * (y * size + x));
    }
  }
  context.putImageData(image, 0, 0);
  if (!kspace.path || kspace.path.length < 4) return;
  context.strokeStyle = "#ffb454";
  context.beginPath();
  for (let i = 0; i + 1 < kspace.path.length; i += 2)
    context.lineTo((kspace.path[i] + 0.5) * size, (kspace.path[i + 1] + 0.5) * size);
  context.stroke();
}

/** In words, for those who do not see it. */
export function tellKspace(kspace) {
  const all = kspace.width * kspace.height;
  const what = kspace.lines ? "lines" : "positions";
  return `k-space: ${kspace.filled} of ${all} cells of ${what} have come in this repetition`;
}

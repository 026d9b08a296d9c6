// The pictures of the view "Diagnose".

const kInk = { text: "#e8edf3", line: "#3a4553", first: [108, 195, 255], last: [255, 180, 84] };

/** The label of a coil, or its number where labels are not known or not all different. */
export function coilName(noise, coil) {
  const label = noise.labels[coil];
  if (!label) return `coil ${coil}`;
  return noise.labels.indexOf(label) === noise.labels.lastIndexOf(label) ? label : `${label} (${coil})`;
}

/** Coils by coils, with names along both sides where they fit. */
export function drawNoise(canvas, noise) {
  const cell = Math.max(2, Math.floor(384 / noise.coils));
  canvas.width = canvas.height = cell * noise.coils;
  const context = canvas.getContext("2d");
  noise.correlation.forEach((row, a) =>
    row.forEach((value, b) => {
      const grey = Math.round(255 * Math.min(1, value ?? 0));
      context.fillStyle = `rgb(${grey} ${grey} ${grey})`;
      context.fillRect(b * cell, a * cell, cell, cell);
    }),
  );
  if (cell < 14) return;
  context.font = `${Math.min(12, cell - 3)}px sans-serif`;
  context.textBaseline = "middle";
  for (let coil = 0; coil < noise.coils; coil += 1) {
    context.fillStyle = "#000"; // on the diagonal, which is white
    context.fillText(coilName(noise, coil).replace(/^coil /, ""), coil * cell + 2, (coil + 0.5) * cell, cell - 3);
  }
}

/** Readouts as paths, axis `x` to the right and axis `y` up. */
export function drawTrajectory(canvas, trajectory, x, y) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  const at = (k, size) => (k + 0.55) * (size / 1.1);
  context.clearRect(0, 0, width, height);
  context.strokeStyle = kInk.line;
  context.strokeRect(at(-0.5, width), at(-0.5, height), width / 1.1, height / 1.1);
  const count = trajectory.readouts.length;
  trajectory.readouts.forEach((points, r) => {
    const t = count > 1 ? r / (count - 1) : 0;
    const mix = kInk.first.map((one, i) => Math.round(one + t * (kInk.last[i] - one)));
    context.strokeStyle = `rgb(${mix.join(" ")} / 0.8)`;
    context.beginPath();
    let draws = false;
    for (let i = 0; i < points.length; i += trajectory.axes) {
      const [a, b] = [points[i + x], points[i + y]];
      if (a === null || b === null) {
        draws = false; // a sample that is dropped
        continue;
      }
      const place = [at(a, width), height - at(b, height)];
      if (draws) context.lineTo(...place);
      else context.moveTo(...place);
      draws = true;
    }
    context.stroke();
  });
  context.fillStyle = kInk.text;
  context.font = "12px sans-serif";
  context.fillText(`k${"xyz"[x]} →`, width - 30, height - 4);
  context.fillText(`k${"xyz"[y]} ↑`, 4, 12);
}

export function drawCoil(canvas, grey) {
  const context = canvas.getContext("2d");
  const picture = context.createImageData(canvas.width, canvas.height);
  grey.forEach((value, i) => picture.data.set([value, value, value, 255], 4 * i));
  context.putImageData(picture, 0, 0);
}

/** One bar per interval, the newest to the right. */
export function drawIntervals(canvas, all) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  const most = 1.1 * Math.max(...all);
  const step = width / Math.max(32, all.length);
  context.fillStyle = `rgb(${kInk.first.join(" ")})`;
  all.forEach((value, i) => {
    const top = (value / most) * (height - 14);
    context.fillRect(i * step, height - top, Math.max(1, step - 1), top);
  });
  context.fillStyle = kInk.text;
  context.font = "12px sans-serif";
  context.fillText(`${most.toFixed(0)} ms`, 4, 12);
}

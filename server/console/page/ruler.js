// The ruler: a line on a picture, and its length in mm.

import { distance } from "./geometry.js";

/** Draws the line that a pane measures along, and its length, on the context of its canvas. */
export function paintRuler(context, pane) {
  const { head } = pane.plane;
  const { left, top, width, height } = pane.part();
  const place = ([x, y]) => [
    (((x + 0.5) / head.shrink - left) / width) * pane.canvas.width,
    (((y + 0.5) / head.shrink - top) / height) * pane.canvas.height,
  ];
  const from = place(pane.measure.from);
  const to = place(pane.measure.to);
  context.strokeStyle = "#ffb454";
  context.fillStyle = "#ffb454";
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
  context.font = "16px sans-serif";
  const mm = distance(head, pane.measure.from, pane.measure.to).toFixed(1);
  context.fillText(`${mm} mm`, to[0] + 6, to[1] - 6);
  pane.canvas.dataset.ruler = mm;
}

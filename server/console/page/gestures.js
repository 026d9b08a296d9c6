// What the mouse, fingers and keys do to one picture: window and level, zoom, scrolling, the ruler.

/** Lets the mouse, fingers and keys work on a pane's picture. */
export function listen(pane) {
  const canvas = pane.canvas;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pane.drag = { x: event.clientX, y: event.clientY, window: pane.currentWindow(), from: pane.voxelAt(event) };
    if (pane.measuring) pane.measure = { from: pane.drag.from, to: pane.drag.from };
  });
  canvas.addEventListener("pointermove", (event) => move(pane, event));
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, () => {
      pane.drag = null;
    });
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      if (event.ctrlKey) pane.setZoom(event.deltaY < 0 ? 1 : -1);
      else pane.scroll(event.deltaY > 0 ? 1 : -1);
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => key(pane, event));
}

function key(pane, event) {
  const width = pane.currentWindow();
  const step = width ? (width.high - width.low) / 20 : 0;
  const actions = {
    PageDown: () => pane.scroll(1),
    PageUp: () => pane.scroll(-1),
    "+": () => pane.setZoom(1),
    "-": () => pane.setZoom(-1),
    ArrowUp: () => pane.setWindow(width.low + step, width.high + step),
    ArrowDown: () => pane.setWindow(width.low - step, width.high - step),
    ArrowRight: () => pane.setWindow(width.low - step, width.high + step),
    ArrowLeft: () => pane.setWindow(width.low + step, width.high - step),
    Home: () => pane.resetWindow(),
    " ": () => pane.cine.toggle(),
  };
  if (!actions[event.key] || !width) return;
  event.preventDefault();
  actions[event.key]();
}

function move(pane, event) {
  pane.tellVoxel(pane.voxelAt(event));
  if (!pane.drag?.window || !pane.plane) return;
  if (pane.measuring) {
    pane.measure = { from: pane.drag.from, to: pane.voxelAt(event) };
    pane.draw();
    return;
  }
  // Right: wider; up: brighter. The height of the picture is the whole range of the usual window.
  const range = pane.range() / pane.canvas.clientHeight;
  const wider = (event.clientX - pane.drag.x) * range;
  const level = (event.clientY - pane.drag.y) * range;
  const { low, high } = pane.drag.window;
  pane.setWindow(low + level - wider / 2, high + level + wider / 2);
}

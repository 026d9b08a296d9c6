// The server: memory against its budget, queues, places, GPUs, and the delay of images in the last minute.

import { byId, make, setText } from "./dom.js";
import { bytes, duration } from "./format.js";

function rows(state) {
  const server = state.server;
  const memory =
    server.memory_bound > 0
      ? `${bytes(server.memory_used)} of ${bytes(server.memory_bound)} (${Math.round((100 * server.memory_used) / server.memory_bound)} %)`
      : `${bytes(server.memory_used)}, without a bound`;
  const images = state.images;
  const all = [
    ["State", server.state === "ready" ? "takes scans" : `${server.state}: ${server.reason}`],
    ["Version", `${server.version}, up ${duration(server.up_s)}`],
    ["Memory", memory],
    ["Queues", bytes(server.queue_bytes)],
  ];
  for (const place of server.places)
    all.push([
      place.backend === "cuda" ? `Places, GPU ${place.device}` : "Places, CPU",
      `${place.scans}${place.capacity === null ? "" : ` of ${place.capacity}`} in use`,
    ]);
  for (const gpu of server.gpus)
    all.push([`GPU ${gpu.device}`, `${gpu.busy === null ? "" : `busy ${gpu.busy} % of the time, `}${bytes(gpu.used)} of ${bytes(gpu.total)} in use, ${bytes(gpu.arrays)} by scans`]);
  all.push([
    "Kept images",
    images.kept
      ? `${bytes(images.bytes)} of ${bytes(images.bound)}${images.left_out > 0 ? `; ${images.left_out} were left out` : ""}`
      : "none (recent_images_mib: 0)",
  ]);
  return all;
}

function drawDelays(canvas, delays) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  const most = Math.max(1, ...delays.p99_of_second) * 1.1;
  const step = width / delays.p50_of_second.length;
  for (const [values, colour] of [
    [delays.p99_of_second, "#ffb454"],
    [delays.p50_of_second, "#6cc3ff"],
  ]) {
    context.fillStyle = colour;
    values.forEach((value, i) => {
      if (value <= 0) return;
      const top = Math.max(1, (value / most) * (height - 14));
      context.fillRect(i * step + 1, height - top, step - 2, colour === "#ffb454" ? 3 : top);
    });
  }
  context.fillStyle = "#e8edf3";
  context.font = "12px sans-serif";
  context.fillText(`${most.toFixed(1)} ms`, 4, 12);
}

export function showMachine(state) {
  const list = byId("machine");
  const all = rows(state);
  if (list.children.length !== 2 * all.length)
    list.replaceChildren(...all.flatMap(() => [make("dt"), make("dd")]));
  all.forEach(([name, text], i) => {
    setText(list.children[2 * i], name);
    setText(list.children[2 * i + 1], text);
  });
  const delays = state.delays;
  setText(
    byId("delay-text"),
    delays.images > 0
      ? `${delays.images} images: median ${delays.p50_ms.toFixed(1)} ms, 99th percentile ${delays.p99_ms.toFixed(1)} ms` +
          " after the last readout"
      : "No image in the last minute.",
  );
  drawDelays(byId("delay"), delays);
}

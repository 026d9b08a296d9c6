// The server: memory against its budget, queues, places, GPUs.

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

export function showMachine(state) {
  const list = byId("machine");
  const all = rows(state);
  if (list.children.length !== 2 * all.length)
    list.replaceChildren(...all.flatMap(() => [make("dt"), make("dd")]));
  all.forEach(([name, text], i) => {
    setText(list.children[2 * i], name);
    setText(list.children[2 * i + 1], text);
  });
}

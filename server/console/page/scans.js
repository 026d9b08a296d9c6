// The scans that run.

import { byId, keepList, make, setText } from "./dom.js";
import { bytes, duration } from "./format.js";
import { drawKspace, tellKspace } from "./kspace.js";

const kStates = {
  connecting: "connected, has asked for nothing yet",
  waiting: "waits for its turn",
  refused: "is refused",
  scanning: "scanning",
  paused: "pauses: no data come",
  stuck: "its client is gone, and its thread hangs",
  finishing: "all data have come, images are made",
  closing: "the last messages go out",
};

function createScan(scan, actions) {
  const part = (tag, name) => make(tag, { class: name });
  const stop = make("button", { type: "button", class: "stop", click: () => actions.stop(scan.id) }, "Stop");
  const watch = make("button", { type: "button", class: "watch", click: () => actions.watch(scan.id) }, "Show images");
  return make(
    "li",
    { class: "scan" },
    make("canvas", { width: 96, height: 96, role: "img" }),
    make(
      "div",
      { class: "facts" },
      part("p", "title"),
      part("p", "stage"),
      part("p", "lines"),
      make("progress", { max: 1, value: 0, "aria-label": "lines that have come" }),
      part("p", "quiet flow"),
      part("p", "error"),
      part("div", "warnings"),
      make("p", {}, watch, " ", stop),
    ),
  );
}

export function tellWarnings(parent, scan) {
  keepList(
    parent,
    scan.warnings,
    (text, place) => place, // one may come twice
    () => make("p", { class: "warning" }),
    (element, text) => setText(element, text),
  );
}

function title(scan) {
  const parts = [`Scan ${scan.id}`, scan.pipeline || "no pipeline yet"];
  if (scan.protocol) parts.push(scan.protocol);
  if (scan.patient) parts.push(scan.patient);
  return parts.join(" · ");
}

function updateScan(element, scan, mayStop) {
  const find = (name) => element.querySelector(name);
  setText(find(".title"), title(scan));
  setText(find(".stage"), `${kStates[scan.state] || scan.state}${scan.backend ? ` on ${scan.backend}` : ""}`);
  const share = scan.lines_announced > 0 ? Math.min(1, scan.lines / scan.lines_announced) : 0;
  setText(
    find(".lines"),
    scan.lines_announced > 0 ? `${scan.lines} of ${scan.lines_announced} announced lines` : `${scan.lines} lines`,
  );
  find("progress").value = share;
  setText(
    find(".flow"),
    `${scan.images} images · ${bytes(scan.bytes_in)} in, ${bytes(scan.bytes_out)} out · queue ${bytes(scan.queue_bytes)}` +
      ` · memory ${bytes(scan.memory_bytes)} · since ${duration(scan.age_s)}, last data ${duration(scan.idle_s)} ago` +
      ` · ${scan.peer}`,
  );
  setText(find(".error"), scan.error ? `${scan.error.code}: ${scan.error.text}` : "");
  tellWarnings(find(".warnings"), scan);
  const canvas = find("canvas");
  canvas.hidden = !scan.kspace;
  if (scan.kspace) {
    drawKspace(canvas, scan.kspace);
    canvas.setAttribute("aria-label", tellKspace(scan.kspace));
    canvas.dataset.filled = scan.kspace.filled;
  }
  find(".watch").hidden = scan.newest_image === 0;
  find(".stop").hidden = !mayStop;
}

export function showScans(state, actions, mayStop) {
  byId("no-scans").hidden = state.scans.length > 0;
  keepList(
    byId("scans"),
    state.scans,
    (scan) => scan.id,
    (scan) => createScan(scan, actions),
    (element, scan) => updateScan(element, scan, mayStop),
  );
}

// The scans that have ended, as a table that can be searched and sorted.

import { coloursOf } from "./colours.js";
import { createDownloads } from "./downloads.js";
import { byId, keepList, make, setText } from "./dom.js";
import { date, duration, number } from "./format.js";
import { drawPlane, fetchPlane } from "./plane.js";
import { tellWarnings } from "./scans.js";

const kThumbnail = 64;
const kSorts = {
  began: (scan) => scan.began,
  pipeline: (scan) => scan.pipeline,
  outcome: (scan) => scan.outcome,
  duration: (scan) => scan.facts.duration_s ?? 0,
  images: (scan) => scan.images,
};

/** [label, text] of all facts; those of an object inside as "label, its own". */
function* labelled(facts, before = "") {
  for (const [name, value] of Object.entries(facts)) {
    const label = before + name.replaceAll("_", " ");
    if (value === null || value === "") continue;
    if (typeof value === "object") yield* labelled(value, `${label}, `);
    else yield [label, typeof value === "number" ? number(value) : String(value)];
  }
}

async function drawThumbnail(canvas, scan) {
  try {
    const { head, values } = await fetchPlane(new URLSearchParams({ scan, within: kThumbnail }));
    if (head.width === 0) return;
    const [low, high] = head.map?.window ?? [head.low, head.high];
    drawPlane(canvas, head, values, { low, high }, coloursOf(head));
    canvas.hidden = false;
  } catch {
    // It is no longer kept, or the server is away.
  }
}

export class History {
  /** `actions.watch(scan)` and `actions.compare(scan)` show images; `replay` knows the captures. */
  constructor(actions, replay) {
    this.actions = actions;
    this.replay = replay;
    this.sort = "began";
    this.down = true;
    this.state = null;
    byId("ended-filter").addEventListener("input", () => this.show());
    for (const button of document.querySelectorAll("[data-sort]"))
      button.addEventListener("click", () => {
        this.down = this.sort === button.dataset.sort ? !this.down : button.dataset.sort === "began";
        this.sort = button.dataset.sort;
        this.show();
      });
    // Only of rows that come into sight: each takes an image from the server.
    this.seen = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        this.seen.unobserve(target);
        drawThumbnail(target.firstChild, target.dataset.scan);
      }
    });
  }

  update(state, loggedIn) {
    this.state = state;
    this.loggedIn = loggedIn;
    if (!byId("history").hidden) this.show();
  }

  show() {
    if (!this.state) return;
    const { ended } = this.state;
    byId("no-ended").hidden = ended.length > 0;
    byId("ended-all").hidden = ended.length === 0;
    const word = byId("ended-filter").value.trim().toLowerCase();
    const says = (scan) =>
      [`scan ${scan.id}`, scan.pipeline, scan.protocol, scan.patient, scan.outcome, scan.peer, scan.error?.code, scan.error?.text, ...scan.warnings];
    const left = ended.filter((scan) => says(scan).some((text) => text && text.toLowerCase().includes(word)));
    const key = kSorts[this.sort];
    const order = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a.id - b.id);
    left.sort((a, b) => (this.down ? order(b, a) : order(a, b)));
    setText(byId("ended-count"), left.length === 1 ? "1 scan" : `${left.length} scans`);
    for (const button of document.querySelectorAll("[data-sort]")) {
      const head = button.closest("th");
      if (button.dataset.sort === this.sort) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    keepList(
      byId("ended"),
      left,
      (scan) => scan.id,
      (scan) => this.create(scan),
      (row, scan) => this.fill(row, scan),
    );
  }

  create(scan) {
    const part = (tag, name) => make(tag, { class: name });
    const button = (name, text, click) => make("button", { type: "button", class: name, click }, text);
    const picture = make("canvas", { class: "thumbnail", hidden: true, role: "img", "aria-label": `newest image of scan ${scan.id}` });
    return make(
      "tr",
      { class: "ended" },
      make("td", { class: "picture-cell" }, make("div", { class: "frame", "data-scan": scan.id }, picture)),
      make("td", {}, part("p", "title"), part("p", "when quiet")),
      make("td", {}, part("p", "pipeline"), part("p", "protocol quiet")),
      make("td", {}, make("p", { class: "outcome" }, part("span", "badge"), part("span", "counts")), part("p", "error"), part("div", "warnings")),
      part("td", "duration"),
      make(
        "td",
        { class: "actions" },
        make(
          "p",
          {},
          button("watch", "Show images", () => this.actions.watch(scan.id)),
          " ",
          button("compare", "Compare", () => this.actions.compare(scan.id)),
          " ",
          button("again", "Replay with ...", () => this.replay.propose(scan)),
        ),
        createDownloads(scan.id),
        make("details", {}, make("summary", {}, "Summary"), make("dl", {})),
      ),
    );
  }

  fill(row, scan) {
    const find = (name) => row.querySelector(name);
    setText(find(".title"), `Scan ${scan.id}`);
    setText(find(".when"), date(scan.began));
    setText(find(".pipeline"), scan.pipeline || "none");
    setText(find(".protocol"), [scan.protocol, scan.patient].filter(Boolean).join(" · "));
    const badge = find(".badge");
    setText(badge, scan.outcome);
    badge.classList.toggle("well", scan.outcome === "complete");
    setText(
      find(".counts"),
      `: ${scan.lines} lines, ${scan.images} images${scan.images > 0 ? `, of which ${scan.images_kept} are kept here` : ""}`,
    );
    setText(find(".duration"), duration(scan.facts.duration_s ?? 0));
    setText(find(".error"), scan.error ? `${scan.error.code}: ${scan.error.text}` : "");
    tellWarnings(find(".warnings"), scan);
    find(".watch").hidden = find(".compare").hidden = scan.images_kept === 0;
    find(".downloads").hidden = scan.images_kept === 0 || !this.loggedIn;
    find(".again").hidden = !this.loggedIn || !scan.error || !this.replay.captureOf(scan);
    const frame = find(".frame");
    if (scan.images_kept > 0 && !frame.dataset.observed) {
      frame.dataset.observed = true;
      this.seen.observe(frame);
    }
    keepList(
      find("dl"),
      [...labelled(scan.facts)].flatMap(([label, text]) => [["dt", label, label], ["dd", label, text]]),
      ([tag, label]) => `${tag} ${label}`,
      ([tag]) => make(tag),
      (element, [, , text]) => setText(element, text),
    );
  }
}

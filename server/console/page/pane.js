// One picture: window and level, colours, zoom, scrolling through images, voxel values, a ruler.

import { ColourBar } from "./bar.js";
import { Cine } from "./cine.js";
import { coloursOf } from "./colours.js";
import { make, setText } from "./dom.js";
import { number } from "./format.js";
import { positionOf } from "./geometry.js";
import { listen } from "./gestures.js";
import { drawPlane, fetchPlane, paintPart } from "./plane.js";
import { paintRuler } from "./ruler.js";
import { Sliders } from "./sliders.js";

const kCounters = ["slice", "contrast", "phase", "repetition", "set", "average"];
const kZooms = [1, 1.5, 2, 3, 4, 6, 8];

/** "T1 [ms]", "standard deviation of T1 [ms]". */
function titleOf({ quantity, unit, deviation }) {
  return `${deviation ? "standard deviation of " : ""}${quantity}${unit ? ` [${unit}]` : ""}`;
}

export class Pane {
  constructor(parent, label) {
    this.scan = 0; // that is shown; 0: the one that makes images
    this.series = null; // null: that of the newest image
    this.follow = true;
    this.viewer = null; // our number; images for it are made smaller when the link is slow
    this.images = []; // of the scan
    this.plane = null;
    this.z = 0;
    this.channel = 0;
    this.window = null; // {low, high}; null: that of a map, or of each image's values
    this.zoom = 1;
    this.shown = 0; // images drawn
    this.changed = null; // called with {zoom}, {image} or {z, channel} when a person changes that here
    this.drew = null; // called when another picture is shown
    this.build(parent, label);
  }

  build(parent, label) {
    this.canvas = make("canvas", { tabindex: 0, width: 256, height: 256, role: "img", "aria-label": `${label}: no image yet` });
    this.label = label;
    this.caption = make("p", { class: "caption quiet" }, "No image yet.");
    this.voxel = make("p", { class: "read voxel", role: "status" });
    this.seriesChoice = make("select", { "aria-label": `${label}: series`, change: () => this.chooseSeries() });
    this.followBox = make("input", { type: "checkbox", checked: true, change: () => this.setFollow(this.followBox.checked) });
    this.scanChoice = make("select", { "aria-label": `${label}: scan`, hidden: true, change: () => this.chooseScan() });
    this.cine = new Cine(label, { begin: () => this.setFollow(false), next: () => this.goOn(), step: (by) => this.scroll(by) });
    this.ruler = make("button", { type: "button", "aria-pressed": "false", click: () => this.toggleRuler() }, "Ruler");
    this.phaseBox = make("input", { type: "checkbox", change: () => this.load() });
    this.phaseLabel = make("label", { hidden: true }, this.phaseBox, "phase");
    this.coloursBox = make("input", { type: "checkbox", checked: true, change: () => this.draw() });
    this.coloursLabel = make("label", { hidden: true, class: "colours" }, this.coloursBox, "colours");
    this.save = make("button", { type: "button", click: () => this.savePng() }, "PNG");
    const button = (text, name, action) => make("button", { type: "button", "aria-label": name, click: action }, text);
    this.sliders = new Sliders();
    this.holder = make("div", { class: "picture" }, this.canvas);
    this.bar = new ColourBar();
    parent.append(
      make(
        "div",
        { class: "controls toolbar" },
        this.scanChoice,
        this.seriesChoice,
        make("label", {}, this.followBox, "follow the newest"),
        ...this.cine.controls,
        this.phaseLabel,
        this.coloursLabel,
        button("−", `${label}: smaller`, () => this.setZoom(-1)),
        button("+", `${label}: larger`, () => this.setZoom(1)),
        button("Window", `${label}: window of each image's own values`, () => this.resetWindow()),
        this.ruler,
        this.save,
      ),
      this.holder,
      this.bar.element,
      this.sliders.element,
      this.caption,
      this.voxel,
    );
    listen(this);
  }

  setWindow(low, high) {
    const least = 1e-6 * this.range();
    this.window = { low: Math.min(low, high - least), high: Math.max(high, low + least) };
    this.draw();
  }

  resetWindow() {
    this.window = null;
    this.draw();
  }

  /** A map's own window, or the range of the image's values. */
  usualWindow() {
    const { head } = this.plane;
    const [low, high] = (head.part !== "phase" && head.map?.window) || [head.low, head.high];
    return { low, high };
  }

  range() {
    const { low, high } = this.usualWindow();
    return high - low || 1;
  }

  currentWindow() {
    return this.window || (this.plane && this.usualWindow());
  }

  setZoom(step) {
    const place = kZooms.indexOf(this.zoom) + step;
    this.zoom = kZooms[Math.max(0, Math.min(kZooms.length - 1, place))];
    this.draw();
    this.changed?.({ zoom: this.zoom });
  }

  /** Does as another pane did: its zoom, or the image of this series with the nearest counters, or the plane. */
  follows({ zoom, image, z, channel }) {
    if (zoom) {
      this.zoom = zoom;
      this.draw();
    }
    if (!image && z === undefined) return;
    this.setFollow(false);
    if (image) {
      const away = (one) => kCounters.reduce((sum, name) => sum + Math.abs(one[name] - image[name]), 0);
      const nearest = this.ofSeries().reduce((best, one) => (best && away(best) <= away(one) ? best : one), null);
      if (nearest && nearest.number !== (this.wanted || this.plane?.head)?.number) this.choose(nearest);
    } else if (this.plane) {
      const { matrix, channels } = this.plane.head;
      this.loadPlane(Math.min(z, matrix[2] - 1), Math.min(channel, channels - 1));
    }
  }

  /** As choose(), by a person. */
  go(image) {
    this.choose(image);
    if (image) this.changed?.({ image });
  }

  goPlane(z, channel) {
    this.loadPlane(z, channel);
    this.changed?.({ z, channel });
  }

  toggleRuler() {
    this.measuring = !this.measuring;
    this.measure = null;
    this.ruler.setAttribute("aria-pressed", this.measuring);
    this.draw();
  }

  /** Voxel [x, y] under the pointer, with fractions. */
  voxelAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const { left, top, width, height } = this.part();
    const shrink = this.plane ? this.plane.head.shrink : 1;
    const x = left + ((event.clientX - box.left) / box.width) * width;
    const y = top + ((event.clientY - box.top) / box.height) * height;
    return [x * shrink - 0.5, y * shrink - 0.5];
  }

  /** The part of the plane that is seen, in its pixels. */
  part() {
    if (!this.plane) return { left: 0, top: 0, width: 1, height: 1 };
    const width = this.plane.head.width / this.zoom;
    const height = this.plane.head.height / this.zoom;
    return { left: (this.plane.head.width - width) / 2, top: (this.plane.head.height - height) / 2, width, height };
  }

  tellVoxel(at) {
    if (!this.plane) return;
    const { head, values } = this.plane;
    const x = Math.round(at[0]);
    const y = Math.round(at[1]);
    if (x < 0 || y < 0 || x >= head.matrix[0] || y >= head.matrix[1]) {
      setText(this.voxel, "");
      return;
    }
    const value = values[Math.floor(y / head.shrink) * head.width + Math.floor(x / head.shrink)];
    const place = positionOf(head, x, y, head.z).map((mm) => mm.toFixed(1));
    const unit = head.part === "phase" ? " rad" : head.map?.unit ? ` ${head.map.unit}` : "";
    const about = head.shrink > 1 ? ` (mean of ${head.shrink} × ${head.shrink})` : "";
    setText(this.voxel, `voxel (${x}, ${y}, ${head.z}): ${number(value)}${unit}${about} at (${place.join(", ")}) mm, LPS`);
  }

  draw() {
    if (!this.plane) return;
    const { head, values } = this.plane;
    this.buffer ??= document.createElement("canvas");
    const colours = this.coloursBox.checked && head.part !== "phase" ? coloursOf(head) : "grey";
    drawPlane(this.buffer, head, values, this.currentWindow(), colours);
    if (head.map && head.part !== "phase") this.bar.show(titleOf(head.map), colours, this.currentWindow());
    else this.bar.hide();
    this.canvas.dataset.colours = colours;
    this.paint();
  }

  paint() {
    const { head } = this.plane;
    const canvas = this.canvas;
    const context = paintPart(canvas, this.buffer, head, this.part());
    if (this.measure) paintRuler(context, this);
    const { low, high } = this.currentWindow();
    canvas.dataset.image = head.number;
    canvas.dataset.low = low;
    canvas.dataset.high = high;
    canvas.dataset.shrink = head.shrink;
    canvas.dataset.zoom = this.zoom;
    canvas.setAttribute("aria-label", `${this.label}: image ${head.index} of series ${head.series}, scan ${head.scan}`);
    setText(this.caption, this.tell());
    this.drew?.();
  }

  tell() {
    const { head } = this.plane;
    const { low, high } = this.currentWindow();
    const counters = kCounters.filter((name) => this.distinct(name).length > 1).map((name) => `${name} ${head[name]}`);
    const size = head.shrink > 1 ? `, sent at ${head.width} × ${head.height} because the link is slow` : "";
    return [
      `scan ${head.scan}, series ${head.series}, image ${head.index}, ${head.map ? `map of ${titleOf(head.map)}` : head.type}`,
      ...counters,
      `${head.matrix.join(" × ")}${size}`,
      `level ${number((low + high) / 2)}, width ${number(high - low)}`,
    ].join(" · ");
  }

  // --- which image ---------------------------------------------------------------------------------------------------

  ofSeries() {
    return this.images.filter((image) => image.series === this.series);
  }

  distinct(name) {
    return [...new Set(this.ofSeries().map((image) => image[name]))].sort((a, b) => a - b);
  }

  setFollow(follow) {
    this.follow = follow;
    this.followBox.checked = follow;
    if (follow) this.newest();
  }

  chooseSeries() {
    const [scan, series] = this.seriesChoice.value.split("/").map(Number);
    this.scan = scan;
    this.series = series;
    this.choose(this.ofSeries().at(-1));
  }

  /** The scans whose images can be chosen: [{id, pipeline, running}]. */
  setScans(scans) {
    const told = scans.map(({ id, pipeline }) => [id, `scan ${id} · ${pipeline || "no pipeline"}`]);
    if (JSON.stringify(told) !== this.toldScans) {
      this.toldScans = JSON.stringify(told);
      this.scanChoice.replaceChildren(...told.map(([value, text]) => make("option", { value }, text)));
    }
    this.running = new Set(scans.filter(({ running }) => running).map(({ id }) => id));
    this.scanChoice.hidden = scans.length < 2;
    if (document.activeElement !== this.scanChoice) this.scanChoice.value = this.scan;
  }

  chooseScan() {
    const scan = Number(this.scanChoice.value);
    this.watch(scan, this.running.has(scan));
  }

  /** Shows a scan's images; its newest one first. One that runs is followed. */
  async watch(scan, running) {
    this.setFollow(false);
    this.scan = scan;
    this.series = null;
    this.pinned = true;
    await this.refresh();
    this.choose(this.images.at(-1));
    if (this.images.length > 0) this.setFollow(running);
    else this.follow = this.followBox.checked = running; // its first one is still to come
  }

  /** Takes what is new in the list of the scan's images, and forgets those that are no longer kept. */
  async refresh() {
    const scan = this.scan;
    for (let more = true; more; ) {
      const after = this.images.at(-1)?.scan === scan ? this.images.at(-1).number : 0;
      const response = await fetch(`/live/images?scan=${scan}&after=${after}`);
      if (!response.ok) return;
      const told = await response.json();
      if (scan !== this.scan) return;
      const last = this.images.at(-1)?.scan === scan ? this.images.at(-1).number : 0;
      const known = this.images.filter((image) => image.scan === scan && told.first > 0 && image.number >= told.first);
      this.images = known.concat(told.images.filter((image) => image.number > last));
      more = told.more;
    }
    if (this.series === null && this.images.length > 0) this.series = this.images.at(-1).series;
    const wanted = [...new Set(this.images.map((image) => image.series))];
    const told = wanted.map((series) => {
      const { type, map } = this.images.find((image) => image.series === series);
      return [`${this.scan}/${series}`, `scan ${this.scan}, series ${series} (${map ? titleOf(map) : type})`];
    });
    if (JSON.stringify(told) !== this.told) {
      this.told = JSON.stringify(told);
      this.seriesChoice.replaceChildren(...told.map(([value, text]) => make("option", { value }, text)));
    }
    this.seriesChoice.value = `${this.scan}/${this.series}`;
    this.showSliders();
  }

  showSliders() {
    const head = this.wanted || (this.plane && this.plane.head);
    if (!head) return;
    const images = this.ofSeries();
    const count = (n) => [...Array(n).keys()];
    // Counters may be alike (a real-time scan of a frame sends none): by its place each image can be reached.
    const place = { name: "image", values: images.map((image) => image.number), value: head.number };
    this.sliders.show(
      [
        { ...place, set: (value) => this.go(images.find((image) => image.number === value)) },
        ...kCounters.map((name) => ({
          name,
          values: this.distinct(name),
          value: head[name],
          set: (value) => this.chooseBy(name, value),
        })),
        { name: "plane", values: count(head.matrix[2]), value: this.z, set: (value) => this.goPlane(value, this.channel) },
        { name: "channel", values: count(head.channels), value: this.channel, set: (value) => this.goPlane(this.z, value) },
      ],
      () => this.setFollow(false),
    );
  }

  chooseBy(name, value) {
    const head = this.wanted || this.plane.head;
    const near = (image) => kCounters.filter((other) => other !== name && image[other] !== head[other]).length;
    const found = this.ofSeries().filter((image) => image[name] === value);
    this.go(found.sort((a, b) => near(a) - near(b) || b.number - a.number)[0]);
  }

  /** The next or the last plane of a volume, else the next or last image of the series. */
  scroll(step) {
    if (!this.plane) return;
    this.setFollow(false);
    const planes = this.plane.head.matrix[2];
    if (planes > 1) {
      this.goPlane(Math.max(0, Math.min(planes - 1, this.z + step)), this.channel);
      return;
    }
    const all = this.ofSeries();
    const at = all.findIndex((image) => image.number === (this.wanted || this.plane.head).number);
    this.go(all[Math.max(0, Math.min(all.length - 1, at + step))]);
  }

  /** The next image of the loop, unless one is still on its way. */
  goOn() {
    const all = this.ofSeries();
    if (all.length === 0 || this.loading) return;
    const at = all.findIndex((image) => image.number === this.plane?.head.number);
    this.go(all[(at + 1) % all.length]);
  }

  choose(image) {
    if (!image) return;
    this.wanted = image;
    this.load();
  }

  loadPlane(z, channel) {
    this.z = z;
    this.channel = channel;
    this.load();
  }

  /** An image has been made: the one to show next, if this follows; what it could not fetch meanwhile is passed over. */
  made(event) {
    if (this.scan !== 0 && event.scan !== this.scan) {
      if (this.pinned || !this.follow) return;
    }
    if (event.scan !== this.scan) {
      this.scan = event.scan;
      this.series = null;
      this.images = [];
    }
    if (this.follow) this.newest();
    // The list of images is fetched at leisure.
    this.listing ??= setTimeout(() => {
      this.listing = null;
      this.refresh().catch(() => {});
    }, 300);
  }

  newest() {
    this.wanted = null;
    this.load();
  }

  /** Fetches what is wanted; while it is on its way, only the last wish is kept. */
  async load() {
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    try {
      do {
        this.again = false;
        await this.fetchOnce();
      } while (this.again);
    } catch (error) {
      setText(this.caption, String(error.message || error));
    } finally {
      this.loading = false;
    }
  }

  async fetchOnce() {
    if (this.scan === 0) return;
    const query = new URLSearchParams({ scan: this.scan, z: this.z, channel: this.channel, phase: Number(this.phaseBox.checked) });
    if (this.wanted) query.set("image", this.wanted.number);
    else if (this.viewer !== null) query.set("viewer", this.viewer);
    const plane = await fetchPlane(query);
    const unitOf = (one) => JSON.stringify([one?.head.map?.quantity, one?.head.map?.deviation]);
    if (this.plane && unitOf(plane) !== unitOf(this.plane)) this.window = null; // it was of values in another unit
    this.plane = plane;
    this.shown += 1;
    this.canvas.dataset.shown = this.shown;
    if (!this.wanted) this.series = this.plane.head.series;
    this.phaseLabel.hidden = !this.plane.head.complex;
    this.coloursLabel.hidden = !this.plane.head.map;
    this.draw();
    this.cine.drawn();
    this.showSliders();
  }

  savePng() {
    if (!this.plane) return;
    const { head } = this.plane;
    this.buffer.toBlob((blob) => {
      const link = make("a", { href: URL.createObjectURL(blob), download: `scan_${head.scan}_image_${head.number}.png` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
}

// One picture: window and level, zoom, scrolling through images, voxel values, a ruler.

import { make, setText } from "./dom.js";
import { number } from "./format.js";
import { distance, positionOf } from "./geometry.js";
import { drawGrey, fetchPlane } from "./plane.js";

const kCounters = ["slice", "contrast", "phase", "repetition", "set", "average"];
const kZooms = [1, 1.5, 2, 3, 4, 6, 8];

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
    this.window = null; // {low, high}; null: of each image's values
    this.zoom = 1;
    this.shown = 0; // images drawn
    this.changed = null; // called with {zoom}, {image} or {z, channel} when a person changes that here
    this.build(parent, label);
  }

  build(parent, label) {
    this.canvas = make("canvas", { tabindex: 0, width: 256, height: 256, role: "img", "aria-label": `${label}: no image yet` });
    this.label = label;
    this.caption = make("p", { class: "caption quiet" }, "No image yet.");
    this.voxel = make("p", { class: "read voxel", role: "status" });
    this.seriesChoice = make("select", { "aria-label": `${label}: series`, change: () => this.chooseSeries() });
    this.followBox = make("input", { type: "checkbox", checked: true, change: () => this.setFollow(this.followBox.checked) });
    this.play = make("button", { type: "button", "aria-pressed": "false", click: () => this.toggleLoop() }, "Loop");
    this.fps = make("input", { type: "number", min: 1, max: 60, value: 10, change: () => this.setSpeed() });
    this.ruler = make("button", { type: "button", "aria-pressed": "false", click: () => this.toggleRuler() }, "Ruler");
    this.phaseBox = make("input", { type: "checkbox", change: () => this.load() });
    this.phaseLabel = make("label", { hidden: true }, this.phaseBox, "phase");
    this.save = make("button", { type: "button", click: () => this.savePng() }, "PNG");
    const button = (text, name, action) => make("button", { type: "button", "aria-label": name, click: action }, text);
    this.sliders = make("div", { class: "controls sliders" });
    this.holder = make("div", { class: "picture" }, this.canvas);
    parent.append(
      make(
        "div",
        { class: "controls toolbar" },
        this.seriesChoice,
        make("label", {}, this.followBox, "follow the newest"),
        this.play,
        make("label", {}, this.fps, "fps"),
        this.phaseLabel,
        button("−", `${label}: smaller`, () => this.setZoom(-1)),
        button("+", `${label}: larger`, () => this.setZoom(1)),
        button("Window", `${label}: window of each image's own values`, () => this.resetWindow()),
        this.ruler,
        this.save,
      ),
      this.holder,
      this.sliders,
      this.caption,
      this.voxel,
    );
    this.listen();
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.drag = { x: event.clientX, y: event.clientY, window: this.currentWindow(), from: this.voxelAt(event) };
      if (this.measuring) this.measure = { from: this.drag.from, to: this.drag.from };
    });
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"])
      canvas.addEventListener(end, () => {
        this.drag = null;
      });
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        if (event.ctrlKey) this.setZoom(event.deltaY < 0 ? 1 : -1);
        else this.scroll(event.deltaY > 0 ? 1 : -1);
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const width = this.currentWindow();
    const step = width ? (width.high - width.low) / 20 : 0;
    const actions = {
      PageDown: () => this.scroll(1),
      PageUp: () => this.scroll(-1),
      "+": () => this.setZoom(1),
      "-": () => this.setZoom(-1),
      ArrowUp: () => this.setWindow(width.low + step, width.high + step),
      ArrowDown: () => this.setWindow(width.low - step, width.high - step),
      ArrowRight: () => this.setWindow(width.low - step, width.high + step),
      ArrowLeft: () => this.setWindow(width.low + step, width.high - step),
      Home: () => this.resetWindow(),
    };
    if (!actions[event.key] || !width) return;
    event.preventDefault();
    actions[event.key]();
  }

  move(event) {
    this.tellVoxel(this.voxelAt(event));
    if (!this.drag?.window || !this.plane) return;
    if (this.measuring) {
      this.measure = { from: this.drag.from, to: this.voxelAt(event) };
      this.draw();
      return;
    }
    // Right: wider; up: brighter. The height of the picture is the whole range of the image's values.
    const range = (this.plane.head.high - this.plane.head.low || 1) / this.canvas.clientHeight;
    const wider = (event.clientX - this.drag.x) * range;
    const level = (event.clientY - this.drag.y) * range;
    const { low, high } = this.drag.window;
    this.setWindow(low + level - wider / 2, high + level + wider / 2);
  }

  setWindow(low, high) {
    const least = 1e-6 * (this.plane.head.high - this.plane.head.low || 1);
    this.window = { low: Math.min(low, high - least), high: Math.max(high, low + least) };
    this.draw();
  }

  resetWindow() {
    this.window = null;
    this.draw();
  }

  currentWindow() {
    if (this.window) return this.window;
    return this.plane ? { low: this.plane.head.low, high: this.plane.head.high } : null;
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
    const unit = head.part === "phase" ? " rad" : "";
    const about = head.shrink > 1 ? ` (mean of ${head.shrink} × ${head.shrink})` : "";
    setText(this.voxel, `voxel (${x}, ${y}, ${head.z}): ${number(value)}${unit}${about} at (${place.join(", ")}) mm, LPS`);
  }

  draw() {
    if (!this.plane) return;
    const { head, values } = this.plane;
    this.buffer ??= document.createElement("canvas");
    drawGrey(this.buffer, head, values, this.currentWindow());
    this.paint();
  }

  paint() {
    const { head } = this.plane;
    const canvas = this.canvas;
    const aspect = (head.height * (head.fov_mm[1] / head.matrix[1] || 1)) / (head.width * (head.fov_mm[0] / head.matrix[0] || 1));
    canvas.width = 512;
    canvas.height = Math.max(32, Math.min(2048, Math.round(512 * (Number.isFinite(aspect) && aspect > 0 ? aspect : 1))));
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    const { left, top, width, height } = this.part();
    context.drawImage(this.buffer, left, top, width, height, 0, 0, canvas.width, canvas.height);
    if (this.measure) this.paintRuler(context);
    const { low, high } = this.currentWindow();
    canvas.dataset.image = head.number;
    canvas.dataset.low = low;
    canvas.dataset.high = high;
    canvas.dataset.shrink = head.shrink;
    canvas.dataset.zoom = this.zoom;
    canvas.setAttribute("aria-label", `${this.label}: image ${head.index} of series ${head.series}, scan ${head.scan}`);
    setText(this.caption, this.tell());
  }

  paintRuler(context) {
    const { head } = this.plane;
    const { left, top, width, height } = this.part();
    const place = ([x, y]) => [
      (((x + 0.5) / head.shrink - left) / width) * this.canvas.width,
      (((y + 0.5) / head.shrink - top) / height) * this.canvas.height,
    ];
    const from = place(this.measure.from);
    const to = place(this.measure.to);
    context.strokeStyle = "#ffb454";
    context.fillStyle = "#ffb454";
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    context.stroke();
    context.font = "16px sans-serif";
    const mm = distance(head, this.measure.from, this.measure.to).toFixed(1);
    context.fillText(`${mm} mm`, to[0] + 6, to[1] - 6);
    this.canvas.dataset.ruler = mm;
  }

  tell() {
    const { head } = this.plane;
    const { low, high } = this.currentWindow();
    const counters = kCounters.filter((name) => this.distinct(name).length > 1).map((name) => `${name} ${head[name]}`);
    const size = head.shrink > 1 ? `, sent at ${head.width} × ${head.height} because the link is slow` : "";
    return [
      `scan ${head.scan}, series ${head.series}, image ${head.index}, ${head.type}`,
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
      const type = this.images.find((image) => image.series === series).type;
      return [`${this.scan}/${series}`, `scan ${this.scan}, series ${series} (${type})`];
    });
    if (JSON.stringify(told) !== this.told) {
      this.told = JSON.stringify(told);
      this.seriesChoice.replaceChildren(...told.map(([value, text]) => make("option", { value }, text)));
    }
    this.seriesChoice.value = `${this.scan}/${this.series}`;
    this.showSliders();
  }

  showSliders() {
    const all = [];
    const add = (name, values, value, set) => {
      if (values.length > 1) all.push({ name, values, value, set });
    };
    const head = this.wanted || (this.plane && this.plane.head);
    if (!head) return;
    const images = this.ofSeries();
    // Counters may be alike (a real-time scan of a frame sends none): by its place each image can be reached.
    add("image", images.map((image) => image.number), head.number, (value) => this.go(images.find((image) => image.number === value)));
    for (const name of kCounters) add(name, this.distinct(name), head[name], (value) => this.chooseBy(name, value));
    const count = (n) => [...Array(n).keys()];
    add("plane", count(head.matrix[2]), this.z, (value) => this.goPlane(value, this.channel));
    add("channel", count(head.channels), this.channel, (value) => this.goPlane(this.z, value));
    const told = all.map(({ name }) => name).join();
    if (told !== this.toldSliders) {
      this.toldSliders = told;
      this.sliders.replaceChildren(
        ...all.map(({ name }) =>
          make("label", {}, name, make("input", { type: "range", min: 0, step: 1, "data-counter": name }), make("output")),
        ),
      );
    }
    all.forEach(({ name, values, value, set }, i) => {
      const [range, output] = this.sliders.children[i].querySelectorAll("input, output");
      range.max = values.length - 1;
      const at = values.includes(value) ? values.indexOf(value) : values.length - 1; // the newest one is not in the list yet
      range.value = at;
      range.oninput = () => {
        this.setFollow(false);
        set(values[Number(range.value)]);
      };
      setText(output, name === "image" ? `${at + 1} of ${values.length}` : String(value));
    });
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

  toggleLoop() {
    const on = !this.timer;
    this.play.setAttribute("aria-pressed", on);
    clearInterval(this.timer);
    this.timer = null;
    if (!on) return;
    this.setFollow(false);
    this.startLoop();
  }

  setSpeed() {
    this.fps.value = Math.max(1, Math.min(60, Math.round(Number(this.fps.value)) || 10));
    if (this.timer) this.startLoop();
  }

  /** An image that is still on its way when the next one is due holds the loop up: none is left out. */
  startLoop() {
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      const all = this.ofSeries();
      if (all.length === 0 || this.loading) return;
      const at = all.findIndex((image) => image.number === this.plane?.head.number);
      this.go(all[(at + 1) % all.length]);
    }, 1000 / Number(this.fps.value));
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
    this.plane = await fetchPlane(query);
    this.shown += 1;
    this.canvas.dataset.shown = this.shown;
    if (!this.wanted) this.series = this.plane.head.series;
    this.phaseLabel.hidden = !this.plane.head.complex;
    this.draw();
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

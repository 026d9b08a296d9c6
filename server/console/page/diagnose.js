// Why a scan's images are as they are: times of its gadgets, noise, trajectory, coils, what gadgets say of quality.

import { byId, keepList, make, setText } from "./dom.js";
import { coilName, drawCoil, drawIntervals, drawNoise, drawTrajectory } from "./diagnose_plots.js";

const kPoll_ms = 1000;
const kFacts = {
  gfactor_mean: "g-factor, mean over the image",
  ghost_level: "Nyquist ghost over object, after correction",
  ghost_level_uncorrected: "Nyquist ghost over object, before correction",
  mean_rr_ms: "mean RR interval [ms], of the images",
  heartbeats: "heartbeats, of the images",
  noise: "noise comes from",
  noise_samples: "noise samples",
  noise_age_s: "age of that noise [s]",
};
const ms = (value) => (value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(2) : value.toFixed(4));

export class Diagnose {
  constructor() {
    this.scan = 0; // chosen by hand; 0: the newest
    this.shown = 0;
    this.state = null;
    this.timer = null;
    this.coilsNumber = -1;
    byId("diagnose-scan").addEventListener("change", (event) => {
      this.scan = Number(event.target.value);
      this.ask();
    });
    byId("diagnose-coils-open").addEventListener("toggle", () => this.ask());
    const noise = byId("diagnose-noise");
    noise.addEventListener("pointermove", (event) => this.pointNoise(event));
    noise.addEventListener("keydown", (event) => this.stepNoise(event));
  }

  hidden() {
    return byId("diagnose").hidden;
  }

  /** Takes the state that /live/state tells. */
  update(state) {
    this.state = state;
    if (this.hidden()) return;
    this.showList();
    this.showWarnings();
    const chosen = this.chosen();
    if (chosen && (this.timer === null || this.asked !== this.keyOf(chosen))) this.ask();
  }

  all() {
    return this.state ? [...this.state.scans, ...this.state.ended] : [];
  }

  /** Changes when there may be something new to ask for, at once. */
  keyOf(scan) {
    return `${scan.id} ${this.state.scans.includes(scan)}`;
  }

  chosen() {
    const all = this.all().filter((one) => one.pipeline);
    return all.find((one) => one.id === this.scan) ?? all[0];
  }

  showList() {
    const list = byId("diagnose-scan");
    const scans = this.all().filter((one) => one.pipeline);
    keepList(
      list,
      scans,
      (one) => one.id,
      (one) => make("option", { value: one.id }),
      (element, one) => setText(element, `Scan ${one.id}, ${one.pipeline}${one.outcome ? ` (${one.outcome})` : ""}`),
    );
    const chosen = this.chosen();
    if (chosen && document.activeElement !== list) list.value = String(chosen.id);
    byId("diagnose-none").hidden = scans.length > 0;
    for (const part of document.querySelectorAll("#diagnose .of-scan")) part.hidden = scans.length === 0;
  }

  showWarnings() {
    const scan = this.chosen();
    if (!scan) return;
    const warnings = scan.error ? [`${scan.error.code}: ${scan.error.text}`, ...scan.warnings] : scan.warnings;
    keepList(
      byId("diagnose-warnings"),
      warnings,
      (text, place) => place,
      () => make("li", { class: "warning" }),
      (element, text) => setText(element, text),
    );
    const more = scan.warnings_said - scan.warnings.length;
    setText(
      byId("diagnose-warnings-none"),
      warnings.length === 0 ? "The server has warned of nothing in this scan." : more > 0 ? `and ${more} more` : "",
    );
  }

  /** Asks for the chosen scan, and again while it runs and the view is open. */
  async ask() {
    clearTimeout(this.timer);
    this.timer = null;
    const scan = this.chosen();
    if (this.hidden() || !scan) return;
    const runs = this.state.scans.includes(scan);
    this.asked = this.keyOf(scan);
    this.timer = setTimeout(() => this.ask(), runs ? kPoll_ms : 10 * kPoll_ms);
    const coils = byId("diagnose-coils-open").open ? "&coils=1" : "";
    try {
      const response = await fetch(`/live/diagnose?scan=${scan.id}${coils}`);
      if (scan.id !== this.chosen()?.id) return; // another one has been chosen meanwhile
      setText(byId("diagnose-message"), response.ok ? "" : (await response.text()).trim());
      if (response.ok) this.show(await response.json(), scan);
    } catch {
      setText(byId("diagnose-message"), "the server does not answer");
    }
  }

  show(why, scan) {
    if (this.shown !== why.scan) this.coilsNumber = -1;
    this.shown = why.scan;
    byId("diagnose").dataset.scan = why.scan;
    const gone = why.forgotten ? "another scan has needed the memory of what was kept here" : "";
    const missing = gone || (why.left_out ? "left out: the server had no memory for it" : "");
    this.showTimes(why.times, missing, scan);
    this.showNoise(why.noise, missing);
    this.showTrajectory(why, missing);
    this.showCoils(why, missing);
    this.showQuality(why, missing);
  }

  showTimes(times, missing, scan) {
    const table = byId("diagnose-times");
    table.hidden = !times;
    const text = byId("diagnose-times-text");
    if (!times) {
      setText(text, missing || "Not in this scan: no image has been made yet.");
      return;
    }
    const gpu = scan.backend === "cuda";
    setText(
      text,
      `The scan's thread, from the images before to the newest${times.last_images > 1 ? ` ${times.last_images} images` : " image"}` +
        `${gpu ? ". Host time: work on the GPU is enqueued here and runs later, beside it" : ""}.` +
        (times.latency
          ? ` The newest image took, after its last readout: ${ms(times.latency.queue_ms)} ms waiting,` +
            ` ${ms(times.latency.compute_ms)} ms until computed${gpu ? ", GPU included" : ""}, ${ms(times.latency.copy_ms)} ms copying,` +
            ` ${ms(times.latency.send_ms)} ms sending.`
          : ""),
    );
    const most = Math.max(1e-9, ...times.gadgets.map((one) => one.last_ms));
    keepList(
      table.tBodies[0],
      times.gadgets,
      (one, place) => place,
      () =>
        make(
          "tr",
          {},
          make("th", { scope: "row" }),
          make("td", { class: "number" }),
          make("td", { class: "bar" }, make("div", {})),
          make("td", { class: "number" }),
        ),
      (row, one) => {
        const names = { entrance: "entrance (frames, copies of readouts)", exit: "exit (images handed on)" };
        setText(row.cells[0], names[one.name] ?? one.name);
        setText(row.cells[1], ms(one.last_ms));
        const bar = row.cells[2].firstChild;
        bar.style.width = `${(100 * one.last_ms) / most}%`;
        bar.dataset.ms = one.last_ms;
        bar.classList.toggle("outside", one.name in names);
        setText(row.cells[3], ms(one.mean_ms));
      },
    );
    const sum = table.tFoot.rows[0];
    setText(sum.cells[1], ms(times.last_ms));
    setText(sum.cells[3], ms(times.mean_ms));
    table.dataset.whole = times.last_ms;
    table.dataset.frames = times.frames;
  }

  showNoise(noise, missing) {
    const canvas = byId("diagnose-noise");
    canvas.hidden = !noise;
    byId("diagnose-noise-table").hidden = !noise;
    if (!noise) {
      this.noise = null;
      setText(byId("diagnose-noise-text"), missing || "Not in this scan: it was not whitened (no noise readouts that fit, or no noise_adjust).");
      setText(byId("diagnose-noise-read"), "");
      return;
    }
    const same = this.noise && JSON.stringify(this.noise) === JSON.stringify(noise);
    this.noise = noise;
    if (same) return;
    let largest = 0;
    noise.correlation.forEach((row, a) => row.forEach((value, b) => (largest = a === b ? largest : Math.max(largest, value))));
    setText(
      byId("diagnose-noise-text"),
      `Covariance of ${noise.coils} coils, of ${noise.samples} samples${noise.of_another_scan ? " of another scan" : ""}: ` +
        `magnitude of the correlation (black 0, white 1); the largest between two coils is ${largest.toFixed(3)}.`,
    );
    drawNoise(canvas, noise);
    canvas.setAttribute("aria-label", `Noise correlation of ${noise.coils} coils, the largest between two is ${largest.toFixed(3)}`);
    this.place = [0, 0];
    keepList(
      byId("diagnose-noise-rows").tBodies[0],
      noise.std,
      (value, place) => place,
      () => make("tr", {}, make("th", { scope: "row" }), make("td", { class: "number" }), make("td", {})),
      (row, value) => {
        const place = row.sectionRowIndex;
        setText(row.cells[0], coilName(noise, place));
        setText(row.cells[1], value === null ? "–" : value.toPrecision(4));
        const beside = noise.correlation[place].map((one, b) => (b === place ? -1 : one));
        const b = beside.indexOf(Math.max(...beside));
        setText(row.cells[2], noise.coils > 1 ? `${coilName(noise, b)}: ${beside[b].toFixed(3)}` : "–");
      },
    );
  }

  readNoise() {
    const [a, b] = this.place;
    setText(
      byId("diagnose-noise-read"),
      `${coilName(this.noise, a)} with ${coilName(this.noise, b)}: ${this.noise.correlation[a][b].toFixed(3)}`,
    );
  }

  pointNoise(event) {
    if (!this.noise) return;
    const box = event.target.getBoundingClientRect();
    const at = (where, size) => Math.min(this.noise.coils - 1, Math.max(0, Math.floor((where / size) * this.noise.coils)));
    this.place = [at(event.clientY - box.top, box.height), at(event.clientX - box.left, box.width)];
    this.readNoise();
  }

  stepNoise(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || !this.noise) return;
    event.preventDefault();
    this.place = this.place.map((one, i) => Math.min(this.noise.coils - 1, Math.max(0, one + step[i])));
    this.readNoise();
  }

  showTrajectory(why, missing) {
    const plots = [byId("diagnose-xy"), byId("diagnose-xz")];
    const trajectory = why.trajectory;
    plots[0].hidden = !trajectory;
    plots[1].hidden = !trajectory || trajectory.axes < 3;
    const text = byId("diagnose-trajectory-text");
    if (!trajectory) {
      setText(
        text,
        missing ||
          `Not in this scan: readouts have no positions of their own${why.trajectory_name ? ` (${why.trajectory_name})` : ""}. ` +
            "Now shows which lines have come.",
      );
      return;
    }
    const count = trajectory.readouts.length;
    setText(
      text,
      `${count} readouts${trajectory.every > 1 ? `, every ${trajectory.every}th,` : ""} of one frame, as the gadgets use them; ` +
        "the frame spans ±0.5 cycles/pixel. The first readout is blue, the last one orange.",
    );
    drawTrajectory(plots[0], trajectory, 0, 1);
    plots[0].dataset.readouts = count;
    plots[0].setAttribute("aria-label", `Positions of ${count} readouts, kx to the right, ky up`);
    if (trajectory.axes < 3) return;
    drawTrajectory(plots[1], trajectory, 0, 2);
    plots[1].setAttribute("aria-label", `Positions of ${count} readouts, kx to the right, kz up`);
  }

  showCoils(why, missing) {
    const list = byId("diagnose-coils");
    const coils = why.coils;
    const text = byId("diagnose-coils-text");
    if (!byId("diagnose-coils-open").open) return;
    if (!coils || !coils.pixels) {
      if (this.coilsNumber !== 0) list.replaceChildren();
      this.coilsNumber = 0;
      setText(
        text,
        missing ||
          (why.coils_on_gpu
            ? "Not of this scan: it computes on a GPU, and its coil images stay there."
            : "None yet. They are made of the next frame where the pipeline has an image of each coil; pipelines that join coils as they transform (cartesian_plain on the CPU) have none."),
      );
      return;
    }
    setText(
      text,
      `${coils.coils} of ${coils.all} coils${coils.all > coils.coils ? ", the first ones" : ""}; middle plane, one scale for all.`,
    );
    list.dataset.number = coils.number;
    if (coils.number === this.coilsNumber) return;
    this.coilsNumber = coils.number;
    const pixels = Uint8Array.from(atob(coils.pixels), (c) => c.charCodeAt(0));
    const size = coils.width * coils.height;
    list.replaceChildren(
      ...Array.from({ length: coils.coils }, (_, c) => {
        const canvas = make("canvas", { width: coils.width, height: coils.height, role: "img", "aria-label": `image of coil ${c}` });
        drawCoil(canvas, pixels.subarray(c * size, (c + 1) * size));
        return make("figure", {}, canvas, make("figcaption", {}, `coil ${c}`));
      }),
    );
  }

  showQuality(why, missing) {
    const facts = why.images ? why.images.facts : [];
    byId("diagnose-facts").hidden = facts.length === 0;
    setText(
      byId("diagnose-facts-text"),
      !why.images
        ? "No image of this scan is kept."
        : facts.length === 0
          ? "Not in this scan: its images say nothing of g-factors, ghosts, heartbeats or noise."
          : `Of the ${why.images.looked_at} newest images that are kept.`,
    );
    keepList(
      byId("diagnose-facts").tBodies[0],
      facts,
      (one) => one.name,
      () => make("tr", {}, make("th", { scope: "row" }), make("td", {}), make("td", {})),
      (row, one) => {
        setText(row.cells[0], kFacts[one.name] ?? one.name);
        setText(row.cells[1], one.newest);
        const low = Math.min(...one.values);
        const high = Math.max(...one.values);
        setText(row.cells[2], one.values.length > 1 && low < high ? `${low} to ${high}` : "");
      },
    );
    const canvas = byId("diagnose-heart");
    canvas.hidden = !why.heart || why.heart.rr_ms.length === 0;
    if (canvas.hidden) {
      setText(byId("diagnose-heart-text"), missing || "RR intervals: not in this scan, whose readouts have no stamps of an ECG, or not of two heartbeats.");
      return;
    }
    const rr = why.heart.rr_ms;
    const mean = rr.reduce((sum, one) => sum + one, 0) / rr.length;
    const words = `RR intervals of the newest ${rr.length} of ${why.heart.beats} heartbeats: mean ${mean.toFixed(0)} ms, ${Math.min(...rr)} to ${Math.max(...rr)} ms`;
    setText(byId("diagnose-heart-text"), `${words} (by the readouts' stamps, in ticks of 2.5 ms).`);
    canvas.setAttribute("aria-label", words);
    drawIntervals(canvas, rr);
  }
}

// The difference of two pictures, voxel by voxel.

import { ColourBar } from "./bar.js";
import { make, setText } from "./dom.js";
import { number } from "./format.js";
import { drawPlane, paintPart } from "./plane.js";

const kParts = [1, 0.3, 0.1, 0.03, 0.01]; // of the first picture's window

/** {values: first - factor second, factor, nrmse: of it over the first}; phases differ by at most pi. The factor is that of
 * least squares if `fitted`, else 1. Only values that are numbers count. */
export function differenceOf(first, second, { phases, fitted }) {
  let factor = 1;
  if (fitted) {
    let both = 0;
    let own = 0;
    for (let i = 0; i < first.length; i += 1) {
      if (!Number.isFinite(first[i]) || !Number.isFinite(second[i])) continue;
      both += first[i] * second[i];
      own += second[i] * second[i];
    }
    factor = own > 0 ? both / own : 1;
  }
  const values = new Float32Array(first.length);
  let error = 0;
  let all = 0;
  for (let i = 0; i < first.length; i += 1) {
    let value = first[i] - factor * second[i];
    if (phases) value -= 2 * Math.PI * Math.round(value / (2 * Math.PI));
    values[i] = value;
    if (!Number.isFinite(value)) continue;
    error += value * value;
    all += first[i] * first[i];
  }
  return { values, factor, nrmse: all > 0 ? Math.sqrt(error / all) : NaN };
}

export class Difference {
  constructor(parent, panes) {
    this.panes = panes;
    this.canvas = make("canvas", { width: 512, height: 512, role: "img", "aria-label": "Difference: none yet" });
    this.caption = make("p", { class: "caption quiet" });
    this.voxel = make("p", { class: "read voxel", role: "status" });
    this.part = make(
      "select",
      { change: () => this.show() },
      ...kParts.map((part) => make("option", { value: part, selected: part === 0.1 }, `±${100 * part} %`)),
    );
    this.fitBox = make("input", { type: "checkbox", change: () => this.show() });
    this.holder = make("div", { class: "picture" }, this.canvas);
    this.bar = new ColourBar();
    this.element = make(
      "div",
      { class: "pane difference" },
      make(
        "div",
        { class: "controls toolbar" },
        make("label", {}, this.part, "of the first window"),
        make("label", {}, this.fitBox, "second times its best factor"),
      ),
      this.holder,
      this.bar.element,
      this.caption,
      this.voxel,
    );
    this.canvas.addEventListener("pointermove", (event) => this.tellVoxel(event));
    parent.append(this.element);
    this.later();
  }

  /** Shows it anew before the browser paints the next time: two pictures that are linked change together. */
  later() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.show();
    });
  }

  show() {
    const [first, second] = this.panes.map((pane) => pane.plane);
    const cannot = this.whyNot(first, second);
    this.holder.hidden = Boolean(cannot);
    if (cannot) {
      this.bar.hide();
      setText(this.caption, cannot);
      delete this.canvas.dataset.nrmse;
      return;
    }
    const { head } = first;
    const phases = head.part === "phase" && second.head.part === "phase";
    this.made = { head, ...differenceOf(first.values, second.values, { phases, fitted: this.fitBox.checked }) };
    const { low, high } = this.panes[0].currentWindow();
    const most = (phases ? Math.PI : high - low) * Number(this.part.value) || 1;
    this.buffer ??= document.createElement("canvas");
    drawPlane(this.buffer, head, this.made.values, { low: -most, high: most }, "vik");
    paintPart(this.canvas, this.buffer, head, this.panes[0].part());
    const unit = phases ? " [rad]" : head.map?.unit ? ` [${head.map.unit}]` : "";
    this.bar.show(`difference${unit}`, "vik", { low: -most, high: most });
    const { factor, nrmse } = this.made;
    const told = [
      `scan ${head.scan}, image ${head.index} less ${factor === 1 ? "" : `${number(factor)} times `}` +
        `scan ${second.head.scan}, image ${second.head.index}`,
      `NRMSE ${number(Number(nrmse.toPrecision(3)))}`,
    ].join(" · ");
    setText(this.caption, told);
    this.canvas.dataset.nrmse = nrmse;
    this.canvas.dataset.factor = factor;
    this.canvas.setAttribute("aria-label", `Difference: ${told}`);
  }

  whyNot(first, second) {
    if (!first || !second) return "The difference needs two images.";
    const size = ({ head }) => `${head.width} × ${head.height}`;
    if (size(first) !== size(second)) return `The images differ in size: ${size(first)} and ${size(second)}.`;
    return first.values.length === 0 ? "The images are empty." : "";
  }

  tellVoxel(event) {
    if (!this.made) return;
    const { head, values } = this.made;
    const box = this.canvas.getBoundingClientRect();
    const { left, top, width, height } = this.panes[0].part();
    const x = Math.floor(left + ((event.clientX - box.left) / box.width) * width);
    const y = Math.floor(top + ((event.clientY - box.top) / box.height) * height);
    const inside = x >= 0 && y >= 0 && x < head.width && y < head.height;
    const where = [x, y].map((at) => at * head.shrink).join(", ");
    setText(this.voxel, inside ? `voxel (${where}): ${number(values[y * head.width + x])}` : "");
  }
}

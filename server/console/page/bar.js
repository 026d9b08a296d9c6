// A colour bar: which colour stands for which value.

import { tableOf } from "./colours.js";
import { make, setText } from "./dom.js";
import { number } from "./format.js";

const kTicks = [0, 0.25, 0.5, 0.75, 1];

export class ColourBar {
  constructor() {
    this.canvas = make("canvas", { width: 256, height: 1, role: "img" });
    this.title = make("p", { class: "quiet" });
    this.ticks = kTicks.map(() => make("span"));
    this.element = make("div", { class: "colour-bar", hidden: true }, this.title, this.canvas, make("div", { class: "ticks" }, ...this.ticks));
  }

  hide() {
    this.element.hidden = true;
  }

  /** `what` it is that has values from low to high: "T1 [ms]". */
  show(what, colours, { low, high }) {
    this.element.hidden = false;
    if (this.colours !== colours) {
      const image = new ImageData(256, 1);
      new Uint32Array(image.data.buffer).set(tableOf(colours).subarray(0, 256));
      this.canvas.getContext("2d").putImageData(image, 0, 0);
      this.colours = colours;
      this.element.dataset.colours = colours;
    }
    setText(this.title, what);
    const least = (high - low) / 1000;
    const tell = (value) => number(Math.abs(value) < least ? 0 : Number(value.toPrecision(3)));
    kTicks.forEach((share, i) => setText(this.ticks[i], tell(low + share * (high - low))));
    this.canvas.setAttribute("aria-label", `${what}: colours from ${tell(low)} to ${tell(high)}`);
  }
}

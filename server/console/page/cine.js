// The controls of a loop: play, one image on or back, frames per second as asked and as shown.

import { make, setText } from "./dom.js";

export class Cine {
  /** `next()` shows the next image of the loop and gives false if it cannot yet; `step(by)` goes on or back by hand. */
  constructor(label, { begin, next, step }) {
    this.begin = begin;
    this.next = next;
    this.shown = []; // when images were drawn, while the loop runs [ms]
    this.play = make("button", { type: "button", "aria-pressed": "false", click: () => this.toggle() }, "Loop");
    this.fps = make("input", { type: "number", min: 1, max: 60, value: 10, change: () => this.setSpeed() });
    this.measured = make("output", { class: "quiet measured" });
    const button = (text, name, by) => make("button", { type: "button", "aria-label": `${label}: ${name}`, click: () => step(by) }, text);
    this.controls = [
      button("‹", "one back", -1),
      this.play,
      button("›", "one on", 1),
      make("label", {}, this.fps, "fps"),
      this.measured,
    ];
  }

  get runs() {
    return Boolean(this.timer);
  }

  toggle() {
    const on = !this.timer;
    this.play.setAttribute("aria-pressed", on);
    clearInterval(this.timer);
    this.timer = null;
    this.shown = [];
    setText(this.measured, "");
    if (!on) return;
    this.begin();
    this.start();
  }

  stop() {
    if (this.timer) this.toggle();
  }

  setSpeed() {
    this.fps.value = Math.max(1, Math.min(60, Math.round(Number(this.fps.value)) || 10));
    if (this.timer) this.start();
  }

  /** An image that is still on its way when the next one is due holds the loop up: none is left out. */
  start() {
    clearInterval(this.timer);
    this.shown = [];
    this.timer = setInterval(() => this.next(), 1000 / Number(this.fps.value));
  }

  /** An image has been drawn: tells how many were in the last two seconds. */
  drawn(now = performance.now()) {
    if (!this.timer) return;
    this.shown.push(now);
    while (now - this.shown[0] > 2000) this.shown.shift();
    const gone = now - this.shown[0];
    if (gone > 500) setText(this.measured, `${((1000 * (this.shown.length - 1)) / gone).toFixed(1)} shown`);
  }
}

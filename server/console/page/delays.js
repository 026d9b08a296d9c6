// The delays of the last minute's images: axes, a logarithmic scale on demand, and the values under the pointer.

import { byId, setText } from "./dom.js";
import { number } from "./format.js";

const kLeft = 52;
const kBelow = 18;
const kAbove = 8;

/** About `wanted` round numbers from 0 to `most`; logarithmic: powers of ten from `least` on. */
function ticks(least, most, logarithmic, wanted = 4) {
  if (logarithmic) {
    const first = Math.log10(least);
    return Array.from({ length: Math.round(Math.log10(most) - first) + 1 }, (_, i) => 10 ** (first + i));
  }
  const rough = most / wanted;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((one) => one * unit >= rough);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

export class Delays {
  constructor() {
    this.canvas = byId("delay");
    this.log = byId("delay-log");
    this.at = null; // second under the pointer, or chosen by keys
    this.delays = null;
    this.log.addEventListener("change", () => this.draw());
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const share = (event.clientX - box.left - kLeft) / (box.width - kLeft);
      this.choose(Math.floor(share * this.delays.p50_of_second.length));
    });
    this.canvas.addEventListener("pointerleave", () => this.choose(null));
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.choose((this.at ?? this.delays.p50_of_second.length) + step);
    });
  }

  choose(second) {
    const last = this.delays.p50_of_second.length - 1;
    this.at = second === null ? null : Math.max(0, Math.min(last, second));
    this.draw();
  }

  update(delays) {
    this.delays = delays;
    setText(
      byId("delay-text"),
      delays.images > 0
        ? `${delays.images} images: median ${delays.p50_ms.toFixed(1)} ms, 99th percentile ${delays.p99_ms.toFixed(1)} ms` +
            " after the last readout"
        : "No image in the last minute.",
    );
    this.draw();
  }

  draw() {
    const { canvas, delays } = this;
    if (!delays || canvas.clientWidth === 0) return;
    const sharp = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
    const context = canvas.getContext("2d");
    context.scale(sharp, sharp);
    // The page's style says the colours, which differ between light and dark.
    const ink = getComputedStyle(canvas);
    const colours = [".p99", ".p50"].map((name) => getComputedStyle(document.querySelector(`.legend ${name}`)).color);
    const some = [...delays.p50_of_second, ...delays.p99_of_second].filter((one) => one > 0);
    const logarithmic = this.log.checked;
    const most = logarithmic ? 10 ** Math.ceil(Math.log10(Math.max(1, ...some) * 1.001)) : 1.1 * Math.max(1, ...some);
    const least = logarithmic ? Math.min(most / 10, 10 ** Math.floor(Math.log10(Math.min(most / 10, ...some)))) : 0;
    const share = (value) => (logarithmic ? Math.log(value / least) / Math.log(most / least) : value / most);
    const y = (value) => height - kBelow - Math.max(0, share(value)) * (height - kBelow - kAbove);
    const count = delays.p50_of_second.length;
    const step = (width - kLeft) / count;
    context.font = "12px sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const value of ticks(least, most, logarithmic)) {
      context.fillStyle = ink.borderTopColor;
      context.fillRect(kLeft, Math.round(y(value)), width - kLeft, 1);
      context.fillStyle = ink.color;
      context.fillText(`${number(value)} ms`, kLeft - 4, y(value));
    }
    context.textBaseline = "bottom";
    for (let ago = 0; ago < count; ago += 15) {
      context.textAlign = ago === 0 ? "right" : "center";
      context.fillText(ago === 0 ? "now" : `−${ago} s`, width - ago * step, height - 2);
    }
    [delays.p99_of_second, delays.p50_of_second].forEach((values, kind) => {
      context.fillStyle = colours[kind];
      values.forEach((value, i) => {
        if (value <= 0) return;
        const top = y(value);
        context.fillRect(kLeft + i * step + 1, top, Math.max(1, step - 2), kind === 0 ? 3 : Math.max(1, height - kBelow - top));
      });
    });
    const { at } = this;
    if (at !== null) {
      context.fillStyle = ink.color;
      context.fillRect(kLeft + (at + 0.5) * step, kAbove, 1, height - kBelow - kAbove);
    }
    canvas.dataset.most = most;
    setText(byId("delay-read"), at === null ? "" : this.tell(at, count - 1 - at));
  }

  tell(at, ago) {
    const when = ago === 0 ? "now" : `${ago} s ago`;
    const [p50, p99] = [this.delays.p50_of_second[at], this.delays.p99_of_second[at]];
    return p50 > 0 ? `${when}: median ${number(p50)} ms, 99th percentile ${number(p99)} ms` : `${when}: no image`;
  }
}

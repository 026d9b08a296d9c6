// One picture, or two side by side.

import { byId, make } from "./dom.js";
import { Pane } from "./pane.js";

export class Viewer {
  constructor() {
    this.parent = byId("viewer");
    this.panes = [];
    this.second = make("button", { type: "button", "aria-pressed": "false", click: () => this.toggle() }, "Two side by side");
    this.holder = make("div", { class: "panes" });
    this.linkBox = make("input", { type: "checkbox", checked: true });
    this.linkLabel = make("label", { hidden: true, class: "linked" }, this.linkBox, "linked scroll and zoom");
    this.parent.append(make("p", {}, this.second, " ", this.linkLabel), this.holder);
    this.add("Image");
  }

  add(label) {
    const holder = make("div", { class: "pane" });
    this.holder.append(holder);
    const pane = new Pane(holder, label);
    pane.viewer = this.number ?? null;
    pane.changed = (what) => {
      if (!this.linkBox.checked) return;
      for (const other of this.panes) if (other !== pane) other.follows(what);
    };
    this.panes.push(pane);
    return pane;
  }

  toggle() {
    const two = this.panes.length === 1;
    this.second.setAttribute("aria-pressed", two);
    this.holder.classList.toggle("two", two);
    this.linkLabel.hidden = !two;
    if (two) {
      const pane = this.add("Second image");
      if (this.panes[0].scan) pane.watch(this.panes[0].scan, this.panes[0].follow);
    } else {
      const gone = this.panes.pop();
      if (gone.timer) gone.toggleLoop();
      this.holder.lastElementChild.remove();
    }
  }

  setNumber(number) {
    this.number = number;
    for (const pane of this.panes) {
      pane.viewer = number;
      pane.images = []; // a server that has been started anew counts its images anew
      if (pane.scan !== 0) pane.refresh().catch(() => {});
    }
  }

  made(event) {
    for (const pane of this.panes) pane.made(event);
  }

  watch(scan, running) {
    this.panes[0].watch(scan, running);
  }

  /** A new scan may take the picture again. */
  release(running) {
    for (const pane of this.panes) if (pane.pinned && pane.follow && !running.includes(pane.scan)) pane.pinned = false;
  }
}

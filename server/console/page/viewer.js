// One picture, or two side by side, and their difference.

import { Difference } from "./difference.js";
import { byId, make } from "./dom.js";
import { Pane } from "./pane.js";

export class Viewer {
  constructor() {
    this.parent = byId("viewer");
    this.panes = [];
    const button = (text, click, hidden = false) => make("button", { type: "button", "aria-pressed": "false", hidden, click }, text);
    this.second = button("Two side by side", () => this.toggle());
    this.less = button("Difference", () => this.toggleDifference(), true);
    this.holder = make("div", { class: "panes" });
    this.linkBox = make("input", { type: "checkbox", checked: true });
    this.linkLabel = make("label", { hidden: true, class: "linked" }, this.linkBox, "linked scroll and zoom");
    this.parent.append(make("p", {}, this.second, " ", this.less, " ", this.linkLabel), this.holder);
    this.scans = [];
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
    pane.drew = () => this.difference?.later();
    this.panes.push(pane);
    pane.setScans(this.scans);
    return pane;
  }

  toggle() {
    const two = this.panes.length === 1;
    this.second.setAttribute("aria-pressed", two);
    this.holder.classList.toggle("two", two);
    this.linkLabel.hidden = this.less.hidden = !two;
    if (two) {
      const pane = this.add("Second image");
      if (this.panes[0].scan) pane.watch(this.panes[0].scan, this.panes[0].follow);
    } else {
      if (this.difference) this.toggleDifference();
      const gone = this.panes.pop();
      gone.cine.stop();
      this.holder.lastElementChild.remove();
    }
  }

  toggleDifference() {
    this.less.setAttribute("aria-pressed", !this.difference);
    if (this.difference) {
      this.difference.element.remove();
      this.difference = null;
    } else {
      this.difference = new Difference(this.holder, this.panes);
    }
    this.holder.classList.toggle("three", Boolean(this.difference));
  }

  /** Shows a scan's images beside those that are shown, and the difference. */
  compare(scan) {
    if (this.panes.length === 1) this.toggle();
    if (!this.difference) this.toggleDifference();
    this.panes[1].watch(scan, false);
  }

  /** Scans whose images can be chosen, the newest first. */
  update({ scans, ended }) {
    this.scans = [
      ...scans.filter((scan) => scan.newest_image > 0).map(({ id, pipeline }) => ({ id, pipeline, running: true })),
      ...ended.filter((scan) => scan.images_kept > 0).map(({ id, pipeline }) => ({ id, pipeline, running: false })),
    ].sort((a, b) => b.id - a.id);
    for (const pane of this.panes) pane.setScans(this.scans);
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

// A capture of the server, sent to another pipeline. Only for those who are logged in, where captures are on.

import { byId, make, setText } from "./dom.js";
import { bytes } from "./format.js";

const kName = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-s(\d+)-/;
const kApart_ms = 300_000; // a capture begins with its scan's first data; a session's number comes again in another server

/** "20260131T120000Z-s17-8c1f03d2-5e0b9a47.mrd": session 17 of that time. */
function tell(capture) {
  const found = kName.exec(capture.name);
  if (!found) return capture.name;
  const [, year, month, day, hour, minute, second, session] = found;
  return `${year}-${month}-${day} ${hour}:${minute}:${second} UTC, scan ${session}, ${bytes(capture.bytes)}`;
}

export class Replay {
  /** `watch(scan)` shows the images of the scan that begins. */
  constructor(login, watch) {
    this.login = login;
    this.watch = watch;
    this.captures = byId("replay-capture");
    this.pipelines = byId("replay-pipeline");
    this.known = []; // captures: {name, bytes}
    byId("replay-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.start(this.captures.value, this.pipelines.value);
    });
  }

  /** When the view is opened, and after a login or a logout. */
  async show() {
    const section = byId("replay");
    if (!this.login.loggedIn) {
      section.hidden = true;
      this.known = [];
      return;
    }
    try {
      const response = await fetch("/live/captures");
      if (!response.ok) return;
      const { kept, captures, more } = await response.json();
      section.hidden = !kept;
      if (!kept) return;
      this.known = captures;
      this.choose(this.captures, captures.map((one) => [one.name, tell(one)]));
      setText(byId("replay-none"), captures.length === 0 ? "No scan has been captured." : more ? "Older ones are on the disk." : "");
      byId("replay-form").hidden = captures.length === 0;
      if (this.pipelines.children.length > 0) return;
      const known = await (await fetch("/live/pipelines")).json();
      this.choose(this.pipelines, known.pipelines.map((one) => [one.name, one.name]));
    } catch {
      // The server is away.
    }
  }

  /** The capture of a scan that has ended, by its session's number and time; undefined: there is none. */
  captureOf(scan) {
    return this.known.find((one) => {
      const found = kName.exec(one.name);
      if (!found || Number(found[7]) !== scan.id) return false;
      const [year, month, day, hour, minute, second] = found.slice(1).map(Number);
      return Math.abs(Date.UTC(year, month - 1, day, hour, minute, second) - scan.began) < kApart_ms;
    });
  }

  /** Chooses a scan's capture, and leaves the choice of the pipeline to the person. */
  propose(scan) {
    const capture = this.captureOf(scan);
    if (!capture) return;
    this.captures.value = capture.name;
    byId("replay").scrollIntoView();
    this.pipelines.focus();
  }

  choose(select, all) {
    const before = select.value;
    select.replaceChildren(...all.map(([value, text]) => make("option", { value }, text)));
    if (all.some(([value]) => value === before)) select.value = before;
  }

  async start(capture, pipeline) {
    const told = byId("replay-told");
    setText(told, "");
    try {
      const query = new URLSearchParams({ capture, pipeline });
      const response = await this.login.post(`/live/replay?${query}`);
      if (!response.ok) {
        setText(told, (await response.text()).trim());
        return;
      }
      const { session } = await response.json();
      setText(told, `It runs as scan ${session}.`);
      this.watch(session);
    } catch {
      setText(told, "the server does not answer");
    }
  }
}

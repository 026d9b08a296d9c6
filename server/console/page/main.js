// The live page: takes the server's events and gives them to the parts.

import { byId, setText } from "./dom.js";
import { Delays } from "./delays.js";
import { listen } from "./events.js";
import { History } from "./history.js";
import { Login } from "./login.js";
import { showMachine } from "./machine.js";
import { Pipelines } from "./pipelines.js";
import { Replay } from "./replay.js";
import { showScans } from "./scans.js";
import { chooseTheme } from "./theme.js";
import { Viewer } from "./viewer.js";
import { Diagnose } from "./diagnose.js";

const kViews = ["now", "diagnose", "history", "pipelines"];

let state = null;
const viewer = new Viewer();
const diagnose = new Diagnose();
const delays = new Delays();

const actions = {
  async stop(scan) {
    const response = await login.post(`/sessions/${scan}/stop`);
    if (!response.ok) setText(byId("server"), (await response.text()).trim());
  },
  /** `begins`: it may not be known yet. */
  watch(scan, begins = false) {
    showView("now");
    viewer.watch(scan, begins || state.scans.some((one) => one.id === scan));
  },
  compare(scan) {
    showView("now");
    viewer.compare(scan);
  },
};

function show() {
  if (!state) return;
  showMachine(state);
  delays.update(state.delays);
  showScans(state, actions, login.loggedIn);
  viewer.update(state);
  ended.update(state, login.loggedIn);
  diagnose.update(state);
}

const login = new Login(() => {
  show();
  events.again();
  if (!byId("pipelines").hidden) pipelines.show();
  replay.show().then(show);
});
const pipelines = new Pipelines(login);
const replay = new Replay(login, (scan) => actions.watch(scan, true));
const ended = new History(actions, replay);

const events = listen({
  state(now) {
    state = now;
    viewer.release(now.scans.map((scan) => scan.id));
    show();
  },
  image: (event) => viewer.made(event),
  viewer: (number) => viewer.setNumber(number),
  link(what) {
    const line = byId("server");
    line.classList.toggle("lost", what !== "open");
    line.dataset.link = what === "open" || what === "lost" ? what : "refused";
    if (what === "open") login.refresh();
    setText(line, { open: "connected", lost: "the server does not answer; trying again" }[what] || what);
  },
});

function showView(wanted) {
  for (const name of kViews) {
    byId(name).hidden = name !== wanted;
    document.querySelector(`[data-view="${name}"]`).setAttribute("aria-pressed", name === wanted);
  }
  if (wanted === "pipelines") pipelines.show();
  if (wanted === "history") replay.show().then(show);
  if (wanted === "diagnose" || wanted === "history") show();
}

for (const button of document.querySelectorAll("[data-view]"))
  button.addEventListener("click", () => showView(button.dataset.view));
chooseTheme(byId("theme"));
login.refresh();

// The server's pipelines: their list, the text and the graph of one, and what the loader says of a text.

import { byId, make, setText } from "./dom.js";
import { graph } from "./graph.js";

export class Pipelines {
  constructor(login) {
    this.login = login;
    this.longest = 0;
    this.asked = 0;
    this.checked = 0;
    this.list = byId("pipeline-list");
    const filter = byId("pipeline-filter");
    filter.addEventListener("input", () => this.filter(filter.value));
    byId("check-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.check(byId("check-text").value);
    });
  }

  /** When the view is opened; again until the server has answered. */
  async show() {
    if (this.list.children.length > 0) return;
    const found = await this.get("/live/pipelines");
    if (!found || this.list.children.length > 0) return;
    this.longest = found.longest_text;
    this.list.replaceChildren(...found.pipelines.map((one) => this.entry(one)));
    this.filter(byId("pipeline-filter").value);
  }

  /** The answer as JSON; null, and the reason is shown, where there is none. */
  async get(path) {
    let why = "the server does not answer";
    try {
      const response = await fetch(path);
      if (response.ok) {
        setText(byId("pipeline-message"), "");
        return await response.json();
      }
      why = (await response.text()).trim();
    } catch {
      // The server is away.
    }
    setText(byId("pipeline-message"), why);
    return null;
  }

  entry(one) {
    const open = () => this.open(one.name);
    return make(
      "li",
      {},
      one.picture && make("img", { src: one.picture, alt: "", loading: "lazy" }),
      make("button", { type: "button", "aria-pressed": "false", "data-pipeline": one.name, click: open }, one.name),
      make("p", { class: "quiet" }, one.description),
    );
  }

  filter(wanted) {
    const word = wanted.trim().toLowerCase();
    let left = 0;
    for (const item of this.list.children) {
      item.hidden = !item.textContent.toLowerCase().includes(word);
      if (!item.hidden) left += 1;
    }
    setText(byId("pipeline-count"), left === 1 ? "1 pipeline" : `${left} pipelines`);
  }

  async open(name) {
    this.asked += 1;
    const asked = this.asked;
    const one = await this.get(`/live/pipeline?name=${encodeURIComponent(name)}`);
    if (!one || asked !== this.asked) return; // another one has been chosen meanwhile
    for (const button of this.list.querySelectorAll("button"))
      button.setAttribute("aria-pressed", button.dataset.pipeline === one.name);
    const copy = () => {
      const field = byId("check-text");
      field.value = one.text;
      field.focus();
    };
    byId("pipeline").replaceChildren(
      make("h3", { id: "pipeline-name" }, one.name),
      make("p", {}, one.description),
      one.picture ? make("img", { src: one.picture, alt: `an image of ${one.name}` }) : "",
      one.aliases.length > 0 ? make("p", { class: "quiet" }, `also ${one.aliases.join(", ")}`) : "",
      graph(one),
      make("h3", {}, "Text"),
      make("pre", { id: "pipeline-text" }, one.text),
      make("button", { type: "button", id: "pipeline-copy", click: copy }, "Change a copy below"),
    );
    const { top } = byId("pipeline-title").getBoundingClientRect();
    if (top < 0 || top > window.innerHeight / 2) byId("pipeline-title").closest("section").scrollIntoView();
  }

  async check(text) {
    const answer = byId("check-answer");
    const tell = (words, right) => {
      answer.className = right ? "" : "error";
      setText(answer, words);
    };
    byId("check-graph").replaceChildren();
    this.checked += 1;
    const checked = this.checked;
    if (this.longest > 0 && new Blob([text]).size > this.longest) {
      tell(`the text is too long: at most ${this.longest >> 10} KiB are checked`, false);
      return;
    }
    tell("being checked", true);
    try {
      const response = await this.login.post("/live/check", text, "application/yaml");
      const said = await response.text();
      if (checked !== this.checked) return; // another text has been sent meanwhile
      if (!response.ok) {
        tell(said.trim(), false);
        return;
      }
      const found = JSON.parse(said);
      if (found.ok) {
        tell(`${found.name} is right: the server would take it.`, true);
        byId("check-graph").replaceChildren(graph(found));
      } else {
        tell(found.line > 0 ? `${found.line}:${found.column}: ${found.message}` : found.message, false);
        if (found.line > 0) this.point(text, found.line, found.column);
      }
    } catch {
      if (checked === this.checked) tell("the server does not answer", false);
    }
  }

  /** Puts the cursor where the mistake is. Columns count bytes of UTF-8 or characters; a line has either. */
  point(text, line, column) {
    const field = byId("check-text");
    const lines = text.split("\n");
    const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    const place = Math.min(at + column - 1, at + (lines[line - 1] ?? "").length);
    field.focus();
    field.setSelectionRange(place, place);
  }
}

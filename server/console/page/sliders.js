// Sliders over all images of a series, and for each counter, plane and channel that varies.

import { make, setText } from "./dom.js";

export class Sliders {
  constructor() {
    this.element = make("div", { class: "controls sliders" });
  }

  /** [{name, values, value, set}]; a person moves one: `moved()`, then its `set(value)`. */
  show(all, moved) {
    const wanted = all.filter(({ values }) => values.length > 1);
    const told = wanted.map(({ name }) => name).join();
    if (told !== this.told) {
      this.told = told;
      this.element.replaceChildren(
        ...wanted.map(({ name }) =>
          make("label", {}, name, make("input", { type: "range", min: 0, step: 1, "data-counter": name }), make("output")),
        ),
      );
    }
    wanted.forEach(({ name, values, value, set }, i) => {
      const [range, output] = this.element.children[i].querySelectorAll("input, output");
      range.max = values.length - 1;
      const at = values.includes(value) ? values.indexOf(value) : values.length - 1; // the newest one is not in the list yet
      range.value = at;
      range.oninput = () => {
        moved();
        set(values[Number(range.value)]);
      };
      setText(output, name === "image" ? `${at + 1} of ${values.length}` : String(value));
    });
  }
}

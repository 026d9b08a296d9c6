// The graph of a pipeline: its gadgets from the entrance down, the types of the items between them, and branches beside.

import { make } from "./dom.js";

function type(name) {
  return make("li", { class: "type" }, make("span", {}, name));
}

function parameters(all) {
  if (all.length === 0) return make("p", { class: "quiet" }, "No parameters.");
  const head = ["parameter", "here", "default", "range", ""].map((name) => make("th", { scope: "col" }, name || "what it is"));
  const rows = all.map((one) =>
    make(
      "tr",
      one.value === null ? {} : { class: "given" },
      make("th", { scope: "row" }, one.name),
      make("td", {}, one.value ?? "–"),
      make("td", {}, one.default || "none"),
      make("td", {}, `${one.type}${one.range ? ` ${one.range}` : ""}${one.unit ? ` ${one.unit}` : ""}`),
      make("td", {}, one.help),
    ),
  );
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}

function gadget(step) {
  const given = step.parameters.filter((one) => one.value !== null).map((one) => `${one.name}: ${one.value}`);
  return make(
    "li",
    { class: "gadget", "data-gadget": step.gadget, "data-line": step.line },
    make(
      "details",
      {},
      make("summary", {}, make("strong", {}, step.gadget), given.length > 0 ? ` ${given.join(", ")}` : ""),
      make("p", { class: "quiet" }, `${step.summary} ${step.takes} → ${step.gives}, line ${step.line}`),
      parameters(step.parameters),
    ),
  );
}

function branch(step) {
  const facts = [
    step.when ? `when ${step.when}` : "everything",
    step.role ? `images for gadgets that ask for ${step.role}; not sent` : `series + ${step.series_offset}`,
    step.pass_on ? "goes on along the chain, too" : "not passed on",
  ];
  return make(
    "li",
    { class: "branch", "data-line": step.line },
    make("p", {}, make("strong", {}, "branch"), ` ${facts.join("; ")}`),
    chain(step.chain, "the branch's gadgets"),
  );
}

function chain(one, label) {
  const items = [type(one.entrance)];
  for (const step of one.steps) {
    if (step.branch) {
      items.push(branch(step));
    } else {
      items.push(gadget(step), type(step.gives));
    }
  }
  return make("ol", { class: "graph", "aria-label": label }, ...items);
}

function together(one) {
  return one.as_one.map((each) =>
    make("p", { class: "quiet" }, `${each.gadgets.join(", ")} run as one${each.cpu_only ? " on the CPU" : ""}.`),
  );
}

/** All chains of a pipeline, and what it exposes to hosts. */
export function graph(pipeline) {
  const parts = [make("h3", {}, "Gadgets"), chain(pipeline.chain, `gadgets of ${pipeline.name}`), ...together(pipeline.chain)];
  if (pipeline.accelerated)
    parts.push(
      make("h3", {}, "Gadgets for accelerated scans (R > 1)"),
      chain(pipeline.accelerated, `gadgets of ${pipeline.name} for accelerated scans`),
      ...together(pipeline.accelerated),
    );
  for (const one of pipeline.exposes)
    parts.push(
      make("p", { class: "exposes" }, `A host may set ${one.id} (${one.sets}): ${one.allowed}, default ${one.default || "none"}.`),
    );
  return make("div", {}, ...parts);
}

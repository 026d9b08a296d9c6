// Elements and texts. All that a client may have written enters the page as text, never as markup.

/** An element; `attributes` with a function as value are listeners ("click"). */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

/** Sets a text only if it differs, so that a selection in it, and a screen reader, are left alone. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Keeps one element per item, in order: `create(item)` once, `update(element, item)` each time. No two items have the
 * same key: `keyOf(item, its place)`. */
export function keepList(parent, items, keyOf, create, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const [i, item] of items.entries()) {
    const key = String(keyOf(item, i));
    let element = known.get(key);
    if (!element) {
      element = create(item);
      element.dataset.key = key;
    }
    known.delete(key);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
    update(element, item);
  }
  for (const gone of known.values()) gone.remove();
}

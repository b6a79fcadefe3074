// Creates DOM elements. Content is always inserted as text, never as HTML.
import { translate } from "./i18n.js";

const TRANSLATED = new Set(["word", "args", "label", "hint", "tip", "moment", "format"]);
const PLAIN = { class: "className", text: "textContent", id: "id", type: "type", value: "value", title: "title" };

// Properties: `class`, `text`, `id` and others set DOM properties; `word` and `args` are the key and the arguments of a
// translated string; `label`, `hint`, `tip`, `moment` and `format` are described in i18n.js; `on` has event listeners; all
// others become attributes.
export function element(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (TRANSLATED.has(key)) node.dataset[key] = key === "args" ? JSON.stringify(value) : value;
    else if (key === "on") Object.entries(value).forEach(([event, listener]) => node.addEventListener(event, listener));
    else if (key in PLAIN) node[PLAIN[key]] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  translate(node);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function button(word, listener, properties = {}) {
  return element("button", { type: "button", word, on: { click: listener }, ...properties });
}

export const byId = (id) => document.getElementById(id);

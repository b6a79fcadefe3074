// Makes elements. Whatever is shown goes in as text: there is no other way in this page to put it there.
import { translate } from "./language.js";

const PLAIN = { class: "className", text: "textContent", id: "id", type: "type", value: "value", title: "title" };

// Properties: `class`, `text`, `id` …; `word` and `args` name a text of the page in its language; `on` has listeners;
// any other is an attribute.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "word") made.dataset.word = value;
    else if (key === "args") made.dataset.args = JSON.stringify(value);
    else if (key === "label") made.dataset.label = value;
    else if (key === "hint") made.dataset.hint = value;
    else if (key === "moment") made.dataset.moment = value;
    else if (key === "on") Object.entries(value).forEach(([event, listener]) => made.addEventListener(event, listener));
    else if (key in PLAIN) made[PLAIN[key]] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  translate(made);
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function button(word, listener, properties = {}) {
  return element("button", { type: "button", word, on: { click: listener }, ...properties });
}

export const byId = (id) => document.getElementById(id);

// A message as it is shown wherever there is one: who said it, its first words, its time, and what leads to its place.
import { element } from "./element.js";
import { beginning } from "./spans.js";

const ROLES = { ROLE_USER: "user", ROLE_ASSISTANT: "assistant", ROLE_SYSTEM: "system", ROLE_TOOL: "tool" };

export const roleOf = (message) => ROLES[message.role] ?? "user";

// Return what an element shows of who said it: a name as it was given, or the role in the page's language.
export const who = (message) => (message.name ? { text: message.name } : { word: `role.${roleOf(message)}` });

// Show who said it in an element that is there already.
export function name(node, message) {
  if (message.name) {
    delete node.dataset.word;
    node.textContent = message.name;
  } else {
    node.dataset.word = `role.${roleOf(message)}`;
  }
}

// Return a message of a list; a click shows it among the others.
export function messageButton(message, { show, chars, isBrief = false }) {
  return element("button", { type: "button", class: "place", on: { click: () => show(message) } },
    element("span", { class: "text", text: beginning(message.content ?? "", chars) }),
    !isBrief && element("span", { class: "by" }, element("span", who(message)), element("time", { moment: message.ts })));
}

// Return a message's first words, to speak of it by.
export function firstWords(message, chars = 40) {
  const line = (message.content ?? "").trim().split("\n")[0];
  if (line.length <= chars) return line;
  const cut = Array.from(line).slice(0, chars).join("");
  return `${cut.slice(0, Math.max(cut.lastIndexOf(" "), chars / 2))}…`;
}

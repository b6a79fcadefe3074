// Parts of messages that several panes show: the author, the beginning, and a button that opens the message.
import { element } from "./element.js";
import { beginning } from "./spans.js";

export const ROLES = { ROLE_USER: "user", ROLE_ASSISTANT: "assistant", ROLE_SYSTEM: "system", ROLE_TOOL: "tool" };

export const roleOf = (message) => ROLES[message.role] ?? "user";

// Return the element properties for the author: the name, or the translated role.
export const authorProperties = (message) => (message.name ? { text: message.name } : { word: `role.${roleOf(message)}` });

// Show the author in an existing element.
export function showAuthor(node, message) {
  if (message.name) {
    delete node.dataset.word;
    node.textContent = message.name;
  } else {
    node.dataset.word = `role.${roleOf(message)}`;
  }
}

// Return a button with the beginning of a message. A click opens the message.
// `about` has further elements of the line below the text.
export function messageButton(message, { show, chars, isBrief = false, about = [] }) {
  return element("button", { type: "button", class: "place", on: { click: () => show(message) } },
    element("span", { class: "text", text: beginning(message.content ?? "", chars) }),
    !isBrief && element("span", { class: "by" }, element("span", authorProperties(message)), element("time", { moment: message.ts }), about));
}

// Return the first words of a message.
export function firstWords(message, chars = 40) {
  const line = (message.content ?? "").trim().split("\n")[0];
  if (line.length <= chars) return line;
  const cut = Array.from(line).slice(0, chars).join("");
  return `${cut.slice(0, Math.max(cut.lastIndexOf(" "), chars / 2))}…`;
}

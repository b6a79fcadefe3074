// Who said a message, in a word.
const ROLES = { ROLE_USER: "user", ROLE_ASSISTANT: "assistant", ROLE_SYSTEM: "system", ROLE_TOOL: "tool" };

export const roleOf = (message) => ROLES[message.role] ?? "user";

// Show who said it in an element: a name as it was given, or the role in the page's language.
export function name(node, message) {
  if (message.name) {
    delete node.dataset.word;
    node.textContent = message.name;
  } else {
    node.dataset.word = `role.${roleOf(message)}`;
  }
}

// Who calls. A key or a token that is typed in stays in this page's memory and is gone with it. The token of
// `nomemory inspect` comes in the address behind `#`, which is sent to nobody, and is kept for this tab.
const KEPT_AS = "nomemory-inspect-token";

// Keep in the address who is looked at, for a reload; and nothing else.
export function noteUser(user) {
  history.replaceState(null, "", user ? `#${new URLSearchParams({ user })}` : location.pathname);
}

class Credential {
  #typed = "";
  #local = "";

  constructor() {
    const said = new URLSearchParams(location.hash.slice(1));
    if (said.has("token")) sessionStorage.setItem(KEPT_AS, said.get("token"));
    this.#local = sessionStorage.getItem(KEPT_AS) ?? "";
    this.asked = { user: said.get("user") ?? "", question: said.get("question") ?? "" };
    if (location.hash.length > 1) noteUser(this.asked.user);
  }

  get isLocal() {
    return this.#local !== "";
  }

  type(text) {
    this.#typed = text.trim();
  }

  headers() {
    const shown = this.#local || this.#typed;
    return shown ? { authorization: `Bearer ${shown}` } : {};
  }
}

export const credential = new Credential();

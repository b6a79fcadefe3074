// Who calls. A key or a token that is typed in stays in this page's memory and is gone with it. The token of
// `nomemory inspect` comes in the address behind `#`, which is sent to nobody, and is kept for this tab.
import { address } from "./address.js";

const KEPT_AS = "nomemory-inspect-token";

class Credential {
  #typed = "";
  #local = "";

  constructor() {
    const said = new URLSearchParams(location.hash.slice(1));
    if (said.has("token")) sessionStorage.setItem(KEPT_AS, said.get("token"));
    this.#local = sessionStorage.getItem(KEPT_AS) ?? "";
    this.question = said.get("question") ?? "";
    if (location.hash.length > 1) address.note(address.user, { isSame: true });
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

// The credential of the calls. An entered key or token stays in the memory of the page. The token of `nomemory inspect` comes
// from the fragment of the URL, which the browser does not send, and is stored for this tab.
import { address } from "./address.js";

const STORAGE_KEY = "nomemory-inspect-token";

class Credential {
  #typed = "";
  #local = "";

  constructor() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    if (parameters.has("token")) sessionStorage.setItem(STORAGE_KEY, parameters.get("token"));
    this.#local = sessionStorage.getItem(STORAGE_KEY) ?? "";
    this.question = parameters.get("question") ?? "";
    if (location.hash.length > 1) address.setUser(address.user, { isSame: true });
  }

  get isLocal() {
    return this.#local !== "";
  }

  type(text) {
    this.#typed = text.trim();
  }

  headers() {
    const token = this.#local || this.#typed;
    return token ? { authorization: `Bearer ${token}` } : {};
  }
}

export const credential = new Credential();

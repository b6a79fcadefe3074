// The dialog that asks for an API key or a token.
import { credential } from "./credential.js";
import { button, element } from "./element.js";

export class CredentialDialog {
  constructor({ changed }) {
    this.input = element("input", { type: "password", id: "credential", autocomplete: "off", label: "key.label" });
    const form = element("form", {}, this.input, element("button", { type: "submit", class: "go", word: "key.use" }));
    const head = element("div", { class: "top" }, element("h2", { word: "key" }), button("close", () => this.dialog.close(), { class: "quiet" }));
    this.dialog = element("dialog", { class: "choose key", label: "key" }, head, element("p", { class: "dim", word: "key.about" }), form);
    document.body.append(this.dialog);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      credential.type(this.input.value);
      this.input.value = "";
      this.dialog.close();
      changed();
    });
  }

  open() {
    if (!this.dialog.open) this.dialog.showModal();
    this.input.focus();
  }
}

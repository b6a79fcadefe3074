// Whose talk is looked at: a list with a search by the beginning of the id. Whoever may not list users types an id.
import { listUsers } from "./contract.js";
import { button, element } from "./element.js";
import { translate } from "./language.js";
import { VirtualList } from "./virtual_list.js";

const PAGE = 500;
const MOST = 20_000; // users that are looked through; further ones are reached by their whole id

export class Users {
  #all = [];
  #seen = [];
  #cursor = "";
  #loading = null;

  constructor({ chosen, failed }) {
    Object.assign(this, { chosen, failed });
    this.input = element("input", { type: "search", id: "user-search", autocomplete: "off", spellcheck: "false", label: "users.label", hint: "users.hint" });
    this.box = element("div", { id: "users", label: "users.list" });
    this.said = element("p", { class: "dim", "aria-live": "polite" });
    this.exact = button("users.exact", () => this.#choose(this.input.value.trim()), { class: "link", hidden: true });
    const head = element("div", { class: "top" }, element("h2", { word: "users" }), button("close", () => this.dialog.close(), { class: "quiet" }));
    this.dialog = element("dialog", { class: "choose", label: "users" }, head, this.input, this.box, this.exact, this.said);
    document.body.append(this.dialog);
    this.list = new VirtualList(this.box, {
      height: 44,
      make: () => element("div", { class: "row someone" }, element("span", { class: "id" }), element("span", { class: "many" })),
      fill: (row, index) => {
        row.children[0].textContent = this.#seen[index].userId;
        row.children[1].textContent = Number(this.#seen[index].messageCount).toLocaleString();
      },
      open: (index) => this.#choose(this.#seen[index].userId),
    });
    this.input.addEventListener("input", () => this.#filter());
    this.input.addEventListener("keydown", (event) => this.#press(event));
  }

  async open() {
    if (!this.dialog.open) this.dialog.showModal();
    this.input.focus();
    this.#all = [];
    this.#cursor = "";
    this.#loading ??= this.#load().finally(() => (this.#loading = null));
    await this.#loading;
  }

  close() {
    this.dialog.close();
  }

  async #load() {
    try {
      do {
        const page = await listUsers({ pageSize: PAGE, cursor: this.#cursor });
        this.#all.push(...(page.users ?? []));
        this.#cursor = page.nextCursor ?? "";
        this.#filter();
      } while (this.#cursor && this.#all.length < MOST && this.dialog.open);
    } catch (error) {
      if (error.isOfCredentials) this.dialog.close();
      if (error.code === "permission_denied") this.#say("users.typed");
      else this.failed(error);
    }
  }

  #filter() {
    const prefix = this.input.value.trim();
    this.#seen = prefix ? this.#all.filter(({ userId }) => userId.startsWith(prefix)) : this.#all;
    this.exact.hidden = !prefix || this.#seen.some(({ userId }) => userId === prefix);
    this.exact.dataset.args = JSON.stringify({ id: prefix });
    translate(this.exact);
    this.list.resize(this.#seen.length);
    if (prefix && this.#seen.length) this.list.activate(0);
    this.#say(this.#cursor && this.#all.length >= MOST ? "users.most" : "users.count", { n: this.#seen.length });
  }

  #say(name, args = {}) {
    Object.assign(this.said.dataset, { word: name, args: JSON.stringify(args) });
    translate(this.said);
  }

  #press(event) {
    if (event.key === "ArrowDown") {
      this.box.focus();
      this.list.activate(Math.max(0, this.list.active));
    } else if (event.key === "Enter") {
      const active = this.#seen[this.list.active]?.userId;
      this.#choose(active ?? this.input.value.trim());
    } else {
      return;
    }
    event.preventDefault();
  }

  #choose(userId) {
    if (!userId) return;
    this.dialog.close();
    this.chosen(userId);
  }
}

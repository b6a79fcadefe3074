// The dialog that chooses a user: a list with a prefix filter. Callers who cannot list users enter an id.
import { listUsers } from "./contract.js";
import { button, element } from "./element.js";
import { number, translate } from "./i18n.js";
import { VirtualList } from "./virtual_list.js";

const PAGE = 500;
const MAX_USERS = 20_000; // maximum number of listed users; others are chosen by their complete id

export class UserDialog {
  #all = [];
  #visible = [];
  #cursor = "";
  #loading = null;

  constructor({ chosen, failed }) {
    Object.assign(this, { chosen, failed });
    this.input = element("input", { type: "search", id: "user-search", autocomplete: "off", spellcheck: "false", label: "users.label", hint: "users.hint" });
    this.box = element("div", { id: "users", label: "users.list" });
    this.summary = element("p", { class: "dim", "aria-live": "polite" });
    this.exact = button("users.open", () => this.#choose(this.input.value.trim()), { class: "link", hidden: true });
    const head = element("div", { class: "top" }, element("h2", { word: "users" }), button("close", () => this.dialog.close(), { class: "quiet" }));
    this.dialog = element("dialog", { class: "choose", label: "users" }, head, this.input, this.box, this.exact, this.summary);
    document.body.append(this.dialog);
    this.list = new VirtualList(this.box, {
      height: 44,
      make: () => element("div", { class: "row someone" }, element("span", { class: "id" }), element("span", { class: "count" })),
      fill: (row, index) => {
        row.children[0].textContent = this.#visible[index].userId;
        row.children[1].textContent = number(Number(this.#visible[index].messageCount));
      },
      open: (index) => this.#choose(this.#visible[index].userId),
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

  refresh() {
    this.list.refresh();
  }

  async #load() {
    try {
      do {
        const page = await listUsers({ pageSize: PAGE, cursor: this.#cursor });
        this.#all.push(...(page.users ?? []));
        this.#cursor = page.nextCursor ?? "";
        this.#filter();
      } while (this.#cursor && this.#all.length < MAX_USERS && this.dialog.open);
    } catch (error) {
      if (error.isOfCredentials) this.dialog.close();
      if (error.code === "permission_denied") this.#say("users.forbidden");
      else this.failed(error);
    }
  }

  #filter() {
    const prefix = this.input.value.trim();
    this.#visible = prefix ? this.#all.filter(({ userId }) => userId.startsWith(prefix)) : this.#all;
    this.exact.hidden = !prefix || this.#visible.some(({ userId }) => userId === prefix);
    this.exact.dataset.args = JSON.stringify({ id: prefix });
    translate(this.exact);
    this.list.resize(this.#visible.length);
    if (prefix && this.#visible.length) this.list.activate(0);
    this.#say(this.#cursor && this.#all.length >= MAX_USERS ? "users.limited" : "users.count", { n: this.#visible.length });
  }

  #say(name, args = {}) {
    Object.assign(this.summary.dataset, { word: name, args: JSON.stringify(args) });
    translate(this.summary);
  }

  #press(event) {
    if (event.key === "ArrowDown") {
      this.box.focus();
      this.list.activate(Math.max(0, this.list.active));
    } else if (event.key === "Enter") {
      const active = this.#visible[this.list.active]?.userId;
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

// The pane of a user's talk: search, time line, and the message that is looked at.
import { getMessages } from "./contract.js";
import { element } from "./element.js";
import { translate } from "./language.js";
import { MessageCard } from "./message_card.js";
import { month } from "./moment.js";
import { TalkLog } from "./talk_log.js";
import { TimeLine } from "./time_line.js";
import { WordSearch } from "./word_search.js";

export class Talk {
  #log = null;

  constructor(pane, { failed }) {
    this.failed = failed;
    this.extent = element("p", { class: "extent" });
    this.card = new MessageCard({ closed: () => this.line.box.focus(), go: (id) => this.#goTo(id) });
    this.line = new TimeLine({ open: (message) => this.card.show(message), failed });
    this.search = new WordSearch({
      open: (message, spans) => this.#found(message, spans),
      failed,
      toggled: (isOn) => (this.line.node.inert = isOn), // the hits lie over it
    });
    const head = element("div", { class: "head" }, element("h2", { word: "talk" }), this.extent);
    const lists = element("div", { class: "lists" }, this.line.node, this.search.node);
    pane.append(head, this.search.input, lists, this.card.node);
  }

  async of(user) {
    this.#log?.close();
    this.card.node.hidden = true;
    this.line.show(null);
    this.search.of(user);
    this.extent.replaceChildren();
    this.#log = null;
    if (!user) return;
    const log = new TalkLog(user);
    this.#log = log;
    try {
      await log.open();
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
      return;
    }
    if (log !== this.#log) return;
    this.#say();
    this.line.show(log);
  }

  // Show a message in its place among the others, and a quote in it.
  async show(message, spans = []) {
    if (this.search.input.value) this.search.clear();
    try {
      if (!(await this.line.go(message, spans))) return false;
      const whole = this.#log.at(this.#log.index.get(message.messageId));
      this.card.show(whole, spans);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    }
    return true;
  }

  async #goTo(messageId) {
    try {
      const { items } = await getMessages({ userId: this.#log.user, messageIds: [messageId] });
      if (items) await this.show(items[0]);
    } catch (error) {
      this.failed(error);
    }
  }

  async #found(message, spans) {
    this.card.show(message, spans);
    const asked = this.search.input.value;
    await this.line.go(message, spans).catch(this.failed);
    this.search.input.value = asked; // the hits stay, for the next one
  }

  refresh() {
    if (this.#log) this.#say();
    this.line.refresh();
  }

  #say() {
    const { first, last, count } = this.#log;
    const args = count ? { n: count, from: month(first.ts), to: month(last.ts) } : {};
    Object.assign(this.extent.dataset, { word: count ? "talk.extent" : "talk.none", args: JSON.stringify(args) });
    translate(this.extent);
  }
}

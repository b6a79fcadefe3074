// The pane with a user's messages: the search, the timeline and the selected message.
import { getMessages } from "./contract.js";
import { element } from "./element.js";
import { translate } from "./i18n.js";
import { MessageCard } from "./message_card.js";
import { month } from "./dates.js";
import { MessagePages } from "./message_pages.js";
import { Timeline } from "./timeline.js";
import { MessageSearch } from "./message_search.js";

export class MessagesPane {
  #pages = null;

  // `loaded(messages)` gets the first loaded messages of a user.
  constructor(pane, { failed, loaded }) {
    Object.assign(this, { failed, loaded });
    this.extent = element("p", { class: "extent" });
    this.card = new MessageCard({ closed: () => this.timeline.box.focus(), go: (id) => this.#goTo(id), showConversation: (id) => this.#showConversation(id) });
    this.timeline = new Timeline({ open: (message) => this.card.show(message), failed });
    this.search = new MessageSearch({
      open: (message, spans) => this.#openResult(message, spans),
      failed,
      toggled: (isOn) => (this.timeline.node.inert = isOn), // the search results cover it
    });
    const head = element("div", { class: "head" }, element("h2", { word: "messages" }), this.extent);
    const lists = element("div", { class: "lists" }, this.timeline.node, this.search.node);
    pane.append(head, this.search.input, this.search.filters.node, lists, this.card.node);
  }

  async of(user) {
    this.#pages?.close();
    this.card.node.hidden = true;
    this.timeline.show(null);
    this.search.of(user);
    this.extent.replaceChildren();
    this.#pages = null;
    if (!user) return;
    const pages = new MessagePages(user);
    this.#pages = pages;
    try {
      await pages.open();
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
      return;
    }
    if (pages !== this.#pages) return;
    this.#say();
    this.timeline.show(pages);
    this.search.offer(pages.loaded);
    this.loaded(pages.loaded);
  }

  // Show a message in the timeline, with its highlighted spans.
  async show(message, spans = []) {
    if (this.search.isActive) this.search.clear();
    try {
      if (!(await this.timeline.go(message, spans))) return false;
      const whole = this.#pages.at(this.#pages.index.get(message.messageId));
      this.card.show(whole, spans);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    }
    return true;
  }

  async #goTo(messageId) {
    try {
      const { items } = await getMessages({ userId: this.#pages.user, messageIds: [messageId] });
      if (items) await this.show(items[0]);
    } catch (error) {
      this.failed(error);
    }
  }

  async #openResult(message, spans) {
    this.card.show(message, spans);
    await this.timeline.go(message, spans).catch(this.failed);
  }

  #showConversation(conversationId) {
    this.card.close();
    this.search.showConversation(conversationId);
  }

  refresh() {
    if (this.#pages) this.#say();
    this.timeline.refresh();
    this.search.refresh();
  }

  #say() {
    const { first, last, count } = this.#pages;
    const args = count ? { n: count, from: month(first.ts), to: month(last.ts) } : {};
    Object.assign(this.extent.dataset, { word: count ? "messages.extent" : "messages.none", args: JSON.stringify(args) });
    translate(this.extent);
  }
}

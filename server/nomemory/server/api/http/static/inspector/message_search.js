// The search of a user's messages by words, author, date and conversation. With words, it is a lexical search as you type, best
// first, with highlighted matches. Without words, it lists the messages that match the filters, newest first; the messages of
// one conversation are listed in reading order.
import { listMessages, searchLexical } from "./contract.js";
import { element } from "./element.js";
import { translate } from "./i18n.js";
import { dayAndTime } from "./dates.js";
import { roleOf, showAuthor } from "./message.js";
import { MessageFilters } from "./message_filters.js";
import { beginning, marked } from "./spans.js";
import { VirtualList } from "./virtual_list.js";

const PAGE = 50;
const PAUSE_MS = 120; // delay between a key press and the search
const HEIGHT = 76;

export class MessageSearch {
  #user = "";
  #request = {};
  #hits = [];
  #cursor = "";
  #searching = new AbortController();
  #timer = 0;
  #list;

  constructor({ open, failed, toggled }) {
    this.input = element("input", {
      type: "search", id: "words", autocomplete: "off", spellcheck: "false", label: "search.label", hint: "search.hint",
      "aria-controls": "hits",
    });
    this.filters = new MessageFilters({ changed: () => this.#type() });
    this.summary = element("p", { class: "found", "aria-live": "polite" });
    this.box = element("div", { id: "hits", label: "search.label.results" });
    this.node = element("div", { class: "hits", hidden: true }, this.summary, this.box);
    this.#list = new VirtualList(this.box, {
      height: HEIGHT,
      make: row,
      fill: (node, index) => fill(node, this.#hits[index]),
      need: (_, to) => to >= this.#hits.length && this.#more(),
      open: (index) => open(this.#hits[index].message, this.#hits[index].highlight.spans),
    });
    Object.assign(this, { failed, toggled });
    this.input.addEventListener("input", () => this.#type());
    for (const part of [this.input, this.filters.node, this.node]) part.addEventListener("keydown", (event) => this.#press(event));
  }

  get isActive() {
    return this.input.value.trim() !== "" || this.filters.isActive;
  }

  of(user) {
    this.#user = user;
    this.filters.offer([]);
    this.clear();
  }

  // Offer the conversations of messages as values of the filter.
  offer(messages) {
    this.filters.offer(messages);
  }

  clear() {
    this.input.value = "";
    this.filters.clear();
    this.#type();
  }

  // List the messages of a conversation.
  showConversation(conversationId) {
    this.input.value = "";
    this.filters.clear();
    this.filters.conversation.value = conversationId;
    this.#type();
  }

  refresh() {
    this.#list.refresh();
  }

  #press(event) {
    if (event.key === "Escape" && this.isActive) {
      this.clear();
      this.input.focus();
      event.preventDefault();
    } else if (event.key === "ArrowDown" && event.target === this.input && this.#hits.length) {
      this.box.focus();
      this.#list.activate(0);
      event.preventDefault();
    }
  }

  #type() {
    clearTimeout(this.#timer);
    this.#searching.abort();
    const queryText = this.input.value.trim();
    this.filters.refresh();
    this.node.hidden = !this.isActive;
    this.toggled(this.isActive);
    if (!this.isActive || !this.#user) return;
    if (this.filters.isReversed) {
      this.#show([], "");
      this.#say("search.reversed");
      return;
    }
    this.#request = { userId: this.#user, ...(queryText && { queryText, highlight: { snippetChars: 100 } }), filter: this.filters.filter };
    this.#timer = setTimeout(() => this.#begin(), PAUSE_MS);
  }

  async #begin() {
    this.#searching = new AbortController();
    await this.#load("", (page) => {
      this.#hits = page;
      this.#list.active = -1;
      this.box.scrollTop = 0;
    });
  }

  async #more() {
    const cursor = this.#cursor;
    if (!cursor) return;
    this.#cursor = "";
    await this.#load(cursor, (page) => this.#hits.push(...page));
  }

  async #load(cursor, take) {
    const { signal } = this.#searching;
    try {
      const page = await this.#page({ ...this.#request, pageSize: PAGE, cursor }, signal);
      if (signal.aborted) return;
      take((page.items ?? []).map((message, index) => ({ message, highlight: page.highlights?.[index] ?? {} })));
      this.#show(this.#hits, page.nextCursor ?? "");
      this.#say(this.#summaryKey(page.indexLagging));
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    }
  }

  #page(request, signal) {
    if (request.queryText) return searchLexical(request, signal);
    const order = request.filter.conversationId ? "LIST_ORDER_OLDEST_FIRST" : "LIST_ORDER_NEWEST_FIRST";
    return listMessages({ ...request, order }, signal);
  }

  #show(hits, cursor) {
    this.#hits = hits;
    this.#cursor = cursor;
    this.#list.resize(hits.length);
  }

  #summaryKey(isBehind) {
    if (isBehind) return "search.lagging";
    if (!this.#hits.length) return "search.none";
    const order = this.#request.queryText ? "" : this.#request.filter.conversationId ? ".oldest" : ".newest";
    return `${this.#cursor ? "search.more" : "search.results"}${order}`;
  }

  #say(name) {
    this.summary.dataset.word = name;
    this.summary.dataset.args = JSON.stringify({ n: this.#hits.length });
    translate(this.summary);
  }
}

function row() {
  const parts = {
    when: element("span", { class: "day" }),
    who: element("span", { class: "speaker" }),
    text: element("span", { class: "words" }),
  };
  const head = element("span", { class: "head" }, parts.who, parts.when);
  return Object.assign(element("div", {}, element("span", { class: "said" }, head, parts.text)), { parts });
}

function fill(node, { message, highlight }) {
  node.className = `row hit ${roleOf(message)}${message.retractedBy ? " retracted" : ""}`;
  node.parts.when.textContent = dayAndTime(message.ts);
  showAuthor(node.parts.who, message);
  translate(node.parts.who);
  const start = highlight.snippet?.start ?? 0;
  const text = highlight.snippetText ?? beginning(message.content ?? "");
  node.parts.text.replaceChildren(start ? "…" : "", ...marked(text, highlight.spans, start));
}

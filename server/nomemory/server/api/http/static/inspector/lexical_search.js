// Lexical search as you type: the results, best first, with highlighted matches.
import { searchLexical } from "./contract.js";
import { element } from "./element.js";
import { translate } from "./i18n.js";
import { dayAndTime } from "./dates.js";
import { roleOf, showAuthor } from "./message.js";
import { marked } from "./spans.js";
import { VirtualList } from "./virtual_list.js";

const PAGE = 50;
const PAUSE_MS = 120; // delay between a key press and the search
const HEIGHT = 76;

export class LexicalSearch {
  #user = "";
  #query = "";
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
    this.input.addEventListener("keydown", (event) => this.#press(event));
    this.node.addEventListener("keydown", (event) => this.#press(event));
  }

  of(user) {
    this.#user = user;
    this.clear();
  }

  clear() {
    this.input.value = "";
    this.#type();
  }

  #press(event) {
    if (event.key === "Escape" && this.input.value) {
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
    this.#query = this.input.value.trim();
    this.node.hidden = !this.#query;
    this.toggled(Boolean(this.#query));
    if (this.#query && this.#user) this.#timer = setTimeout(() => this.#begin(), PAUSE_MS);
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
    const request = { userId: this.#user, queryText: this.#query, pageSize: PAGE, cursor, highlight: { snippetChars: 100 } };
    try {
      const page = await searchLexical(request, signal);
      if (signal.aborted) return;
      take((page.items ?? []).map((message, index) => ({ message, highlight: page.highlights[index] })));
      this.#cursor = page.nextCursor ?? "";
      this.#list.resize(this.#hits.length);
      this.#say(page.indexLagging);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    }
  }

  #say(isBehind) {
    const countKey = this.#cursor ? "search.more" : "search.results";
    this.summary.dataset.word = isBehind ? "search.lagging" : this.#hits.length ? countKey : "search.none";
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
  node.parts.text.replaceChildren(start ? "…" : "", ...marked(highlight.snippetText ?? "", highlight.spans, start));
}

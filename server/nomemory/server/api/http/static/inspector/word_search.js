// Search by words while they are typed: what was found, best first, with the matches marked.
import { searchWords } from "./contract.js";
import { element } from "./element.js";
import { translate } from "./language.js";
import { dayAndTime } from "./moment.js";
import { name, roleOf } from "./message.js";
import { marked } from "./spans.js";
import { VirtualList } from "./virtual_list.js";

const PAGE = 50;
const PAUSE_MS = 120; // between a key and the search that it starts
const HEIGHT = 76;

export class WordSearch {
  #user = "";
  #asked = "";
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
    this.said = element("p", { class: "found", "aria-live": "polite" });
    this.box = element("div", { id: "hits", label: "search.hits" });
    this.node = element("div", { class: "hits", hidden: true }, this.said, this.box);
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
    this.#asked = this.input.value.trim();
    this.node.hidden = !this.#asked;
    this.toggled(Boolean(this.#asked));
    if (this.#asked && this.#user) this.#timer = setTimeout(() => this.#begin(), PAUSE_MS);
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
    const asked = { userId: this.#user, queryText: this.#asked, pageSize: PAGE, cursor, highlight: { snippetChars: 100 } };
    try {
      const found = await searchWords(asked, signal);
      if (signal.aborted) return;
      take((found.items ?? []).map((message, place) => ({ message, highlight: found.highlights[place] })));
      this.#cursor = found.nextCursor ?? "";
      this.#list.resize(this.#hits.length);
      this.#say(found.indexLagging);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    }
  }

  #say(isBehind) {
    const many = this.#cursor ? "search.more" : "search.found";
    this.said.dataset.word = isBehind ? "search.behind" : this.#hits.length ? many : "search.none";
    this.said.dataset.args = JSON.stringify({ n: this.#hits.length });
    translate(this.said);
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
  name(node.parts.who, message);
  translate(node.parts.who);
  const start = highlight.snippet?.start ?? 0;
  node.parts.text.replaceChildren(start ? "…" : "", ...marked(highlight.snippetText ?? "", highlight.spans, start));
}

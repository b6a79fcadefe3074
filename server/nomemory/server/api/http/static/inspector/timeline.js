// The list of a user's messages, oldest first, with dates, search matches and the evidence of a recall.
import { element } from "./element.js";
import { translate } from "./i18n.js";
import { day, sameDay, time } from "./dates.js";
import { roleOf, showAuthor } from "./message.js";
import { beginning, marked } from "./spans.js";
import { VirtualList } from "./virtual_list.js";

const HEIGHT = 76;

export class Timeline {
  #pages = null;
  #list;
  #marks = new Map(); // message id -> highlighted spans
  #evidence = new Map(); // message id -> rank
  #ticks;

  constructor({ open, failed }) {
    this.box = element("div", { id: "line", label: "line" });
    this.#ticks = element("div", { class: "ticks", "aria-hidden": "true" });
    this.node = element("div", { class: "line" }, this.box, this.#ticks);
    this.#list = new VirtualList(this.box, {
      height: HEIGHT,
      make: row,
      fill: (node, index) => this.#fill(node, index),
      need: (from, to) => this.#pages?.want(from, to),
      open: (index) => this.#pages?.at(index) && open(this.#pages.at(index)),
    });
    this.failed = failed;
  }

  show(pages) {
    this.#pages = pages;
    this.#marks.clear();
    this.#evidence.clear();
    this.#ticks.replaceChildren();
    this.#list.resize(pages ? pages.count : 0);
    if (!pages) return;
    pages.addEventListener("loaded", () => this.#list.refresh());
    pages.addEventListener("failed", (event) => this.failed(event.detail));
    if (pages.count) this.#list.scrollTo(pages.count - 1);
  }

  refresh() {
    this.#list.refresh();
  }

  // Scroll to a message and highlight spans in it.
  async go(message, spans = []) {
    const index = await this.#pages?.indexOf(message);
    if (index === undefined) return false;
    if (spans.length) this.#marks.set(message.messageId, spans);
    this.#list.activate(index);
    this.#list.scrollTo(index);
    this.#list.refresh();
    return true;
  }

  // Mark messages with their ranks, best first.
  async highlight(messages) {
    const pages = this.#pages;
    this.#evidence = new Map(messages.map((message, position) => [message.messageId, position + 1]));
    this.#list.refresh();
    if (!pages) return;
    const indexes = await Promise.all(messages.map((message) => pages.indexOf(message).catch(() => undefined)));
    if (pages !== this.#pages) return;
    const existing = indexes.filter((index) => index !== undefined);
    this.#ticks.replaceChildren(...existing.map((index) => this.#tick(index)));
    this.#list.refresh();
  }

  #tick(index) {
    const tick = element("i", { on: { click: () => this.#list.activate(index) } });
    tick.style.top = `${((index + 0.5) / this.#pages.count) * 100}%`;
    return tick;
  }

  #fill(node, index) {
    const message = this.#pages?.at(index);
    node.className = message ? `row ${roleOf(message)}` : "row absent";
    const { day: date, time: clock, who, text, rank } = node.parts;
    const previous = this.#pages?.at(index - 1);
    date.textContent = message && !(previous && sameDay(previous.ts, message.ts)) ? day(message.ts) : "";
    clock.textContent = message ? time(message.ts) : "";
    if (!message) {
      delete who.dataset.word;
      who.textContent = "";
      text.textContent = "";
      rank.hidden = true;
      return;
    }
    showAuthor(who, message);
    translate(who);
    text.replaceChildren(...marked(beginning(message.content), this.#marks.get(message.messageId)));
    const position = this.#evidence.get(message.messageId);
    node.classList.toggle("evidence", position !== undefined);
    node.classList.toggle("retracted", Boolean(message.retractedBy));
    rank.hidden = position === undefined;
    rank.textContent = position ?? "";
  }
}

function row() {
  const parts = {
    day: element("span", { class: "day" }),
    time: element("time", { class: "clock" }),
    who: element("span", { class: "speaker" }),
    text: element("span", { class: "words" }),
    rank: element("span", { class: "rank" }),
  };
  const when = element("span", { class: "when" }, parts.day, parts.time);
  const body = element("span", { class: "said" }, parts.who, parts.text);
  return Object.assign(element("div", {}, when, element("i", { class: "dot" }), body, parts.rank), { parts });
}

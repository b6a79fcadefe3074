// A user's talk, oldest first: rows by the minute, days where they begin, and the evidence of a recall in its place.
import { element } from "./element.js";
import { translate } from "./language.js";
import { day, sameDay, time } from "./moment.js";
import { name, roleOf } from "./message.js";
import { beginning, marked } from "./spans.js";
import { VirtualList } from "./virtual_list.js";

const HEIGHT = 76;

export class TimeLine {
  #log = null;
  #list;
  #marks = new Map(); // of a message's id: the spans that a search or a quote has in it
  #evidence = new Map(); // of a message's id: its rank
  #ticks;

  constructor({ open, failed }) {
    this.box = element("div", { id: "line", label: "line" });
    this.#ticks = element("div", { class: "ticks", "aria-hidden": "true" });
    this.node = element("div", { class: "line" }, this.box, this.#ticks);
    this.#list = new VirtualList(this.box, {
      height: HEIGHT,
      make: row,
      fill: (node, index) => this.#fill(node, index),
      need: (from, to) => this.#log?.want(from, to),
      open: (index) => this.#log?.at(index) && open(this.#log.at(index)),
    });
    this.failed = failed;
  }

  show(log) {
    this.#log = log;
    this.#marks.clear();
    this.#evidence.clear();
    this.#ticks.replaceChildren();
    this.#list.resize(log ? log.count : 0);
    if (!log) return;
    log.addEventListener("loaded", () => this.#list.refresh());
    log.addEventListener("failed", (event) => this.failed(event.detail));
    if (log.count) this.#list.scrollTo(log.count - 1);
  }

  refresh() {
    this.#list.refresh();
  }

  // Go to a message; spans of it are marked.
  async go(message, spans = []) {
    const index = await this.#log?.placeOf(message);
    if (index === undefined) return false;
    if (spans.length) this.#marks.set(message.messageId, spans);
    this.#list.activate(index);
    this.#list.scrollTo(index);
    this.#list.refresh();
    return true;
  }

  // Mark the evidence of a recall, best first.
  async point(messages) {
    const log = this.#log;
    this.#evidence = new Map(messages.map((message, place) => [message.messageId, place + 1]));
    this.#list.refresh();
    if (!log) return;
    const places = await Promise.all(messages.map((message) => log.placeOf(message).catch(() => undefined)));
    if (log !== this.#log) return;
    const found = places.filter((place) => place !== undefined);
    this.#ticks.replaceChildren(...found.map((place) => this.#tick(place)));
    this.#list.refresh();
  }

  #tick(place) {
    const tick = element("i", { on: { click: () => this.#list.activate(place) } });
    tick.style.top = `${((place + 0.5) / this.#log.count) * 100}%`;
    return tick;
  }

  #fill(node, index) {
    const message = this.#log?.at(index);
    node.className = message ? `row ${roleOf(message)}` : "row absent";
    const { day: date, time: clock, who, text, rank } = node.parts;
    const former = this.#log?.at(index - 1);
    date.textContent = message && !(former && sameDay(former.ts, message.ts)) ? day(message.ts) : "";
    clock.textContent = message ? time(message.ts) : "";
    if (!message) {
      delete who.dataset.word;
      who.textContent = "";
      text.textContent = "";
      rank.hidden = true;
      return;
    }
    name(who, message);
    translate(who);
    text.replaceChildren(...marked(beginning(message.content), this.#marks.get(message.messageId)));
    const place = this.#evidence.get(message.messageId);
    node.classList.toggle("evidence", place !== undefined);
    node.classList.toggle("retracted", Boolean(message.retractedBy));
    rank.hidden = place === undefined;
    rank.textContent = place ?? "";
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
  const said = element("span", { class: "said" }, parts.who, parts.text);
  return Object.assign(element("div", {}, when, element("i", { class: "dot" }), said, parts.rank), { parts });
}

// What a recall does, call by call. Each step can be looked at again: what was asked, what it brought, and what of that
// was new. Arrow keys, Home and End go through them, and Escape leaves them.
import { button, element } from "./element.js";
import { word } from "./language.js";
import { firstWords, messageButton } from "./message.js";
import { dayAndTime, lasted, milliseconds } from "./moment.js";

const PLAY_MS = 1500;
const KEYS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

export class Steps {
  #run = null;
  #rows = [];
  #at = -1;
  #timer = 0;

  // `point(messages)` marks what the chosen step brought among the others, nothing: no step is chosen any more.
  constructor({ show, point, say, failed }) {
    Object.assign(this, { show, point, say, failed });
    this.list = element("ol", { class: "steps", label: "steps", on: { keydown: (event) => this.#press(event) } });
    this.place = element("output", { class: "dim" });
    this.back = button("steps.back", () => this.#go(-1), { class: "quiet back" });
    this.forth = button("steps.forth", () => this.#go(1), { class: "quiet forth" });
    this.play = button("steps.play", () => (this.#timer ? this.#rest() : this.#play()), { class: "quiet play" });
    this.player = element("div", { class: "player", role: "group", label: "steps", hidden: true }, this.place, this.back, this.forth, this.play);
    this.node = element("div", {}, this.player, this.list);
  }

  of(run) {
    this.#rest();
    this.#run = run;
    this.#rows = [];
    this.#at = -1;
    this.list.replaceChildren();
    this.player.hidden = true;
  }

  // Show the step that has come last.
  add() {
    const step = this.#run.steps.at(-1);
    const place = this.#rows.length;
    const row = stepRow(step, place, () => this.choose(this.#at === place ? -1 : place));
    this.#rows.push(row);
    this.list.append(row.node);
    if (step.tool === "neighbors") this.#nameAnchor(row, step.arguments ?? {});
    if (step.tool) this.say("live.step", { step: place + 1, n: step.hits ?? 0 });
  }

  // Let the steps be played again.
  over() {
    this.player.hidden = !this.#rows.length;
    this.#tell();
  }

  async choose(place) {
    const [run, former] = [this.#run, this.#rows[this.#at]];
    if (former) this.#mark(former, false);
    this.#at = place;
    this.#tell();
    const row = this.#rows[place];
    if (!row) return this.point(null);
    this.#mark(row, true);
    const step = run.steps[place];
    const before = new Set(run.steps.slice(0, place).flatMap(({ messageIds = [] }) => messageIds));
    row.details.replaceChildren(details(step));
    try {
      const messages = await run.messages(step.messageIds ?? []);
      if (run !== this.#run || place !== this.#at) return undefined;
      row.details.append(found(messages, before, this.show));
      this.say("live.step", { step: place + 1, n: step.hits ?? 0 });
      return this.point(messages);
    } catch (error) {
      return error.name === "AbortError" ? undefined : this.failed(error);
    }
  }

  refresh() {
    this.#tell();
  }

  #mark({ head, details: shown }, isChosen) {
    head.setAttribute("aria-expanded", isChosen);
    if (isChosen) head.setAttribute("aria-current", "step");
    else head.removeAttribute("aria-current");
    shown.hidden = !isChosen;
  }

  #tell() {
    const args = { n: this.#at + 1, all: this.#rows.length };
    this.place.textContent = this.#at < 0 ? word("steps.all", { n: this.#rows.length }) : word("steps.at", args);
    this.back.disabled = this.#at <= 0;
    this.forth.disabled = this.#at >= this.#rows.length - 1;
  }

  #go(by) {
    this.#rest();
    this.choose(Math.min(this.#rows.length - 1, Math.max(0, this.#at + by)));
  }

  #play() {
    this.#at = this.#at >= this.#rows.length - 1 ? -1 : this.#at;
    this.#rows.forEach((row) => this.#mark(row, false));
    this.play.setAttribute("aria-pressed", true);
    const next = () => {
      this.choose(this.#at + 1);
      this.#timer = this.#at < this.#rows.length - 1 ? setTimeout(next, PLAY_MS) : 0;
      if (!this.#timer) this.#rest();
    };
    next();
  }

  #rest() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.play.setAttribute("aria-pressed", false);
  }

  #press(event) {
    if (!event.target.matches(".step")) return;
    const from = this.#rows.findIndex(({ head }) => head === event.target);
    if (event.key === "Escape") this.choose(-1);
    else if (event.key in KEYS) {
      const to = Math.min(this.#rows.length - 1, Math.max(0, from + KEYS[event.key]));
      this.#rest();
      this.choose(to);
      this.#rows[to].head.focus();
    } else return;
    event.preventDefault();
  }

  // Speak of a neighbourhood by the first words of the message in its middle.
  async #nameAnchor({ about }, { message_id: id }) {
    if (!id) return;
    try {
      const [message] = await this.#run.messages([id]);
      if (message) about.textContent = firstWords(message);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    }
  }
}

function stepRow(step, place, chosen) {
  const tool = step.tool || "none";
  const asked = step.arguments ?? {};
  const about = element("q", { text: asked.query_text ?? "" });
  const id = `step-${place}`;
  const head = element("button", { type: "button", class: "step", "aria-expanded": "false", "aria-controls": id, on: { click: chosen } },
    element("span", { class: `tool t-${tool}`, word: `tool.${tool}` }),
    (asked.query_text || asked.message_id) && about,
    element("span", { class: "why", ...outcome(step) }),
    step.tool && element("span", { class: "took", text: lasted(milliseconds(step.elapsed)) }),
  );
  const shown = element("div", { class: "played", id, hidden: true });
  const node = element("li", {}, head, shown);
  node.style.setProperty("--place", place + 1);
  return { node, head, about, details: shown };
}

// What came of a step, in the page's language: its figures say it.
function outcome({ tool, hits = 0 }) {
  if (tool || !hits) return tool ? { word: "step.hits", args: { n: hits } } : { word: "step.decided" };
  return { word: "step.reads", args: { n: hits } };
}

function details(step) {
  const asked = step.arguments ?? {};
  const { since, until } = { ...asked.filter?.time_range, ...asked.time_range };
  const role = asked.role ?? asked.filter?.role ?? "any";
  const most = asked.top_k ?? asked.page_size;
  const known = [
    [{ word: "step.round" }, { text: step.iteration ?? 1 }],
    asked.query_text && [{ word: "step.asked" }, { text: asked.query_text }],
    since && [{ word: "step.since" }, { text: dayAndTime(since) }],
    until && [{ word: "step.until" }, { text: dayAndTime(until) }],
    role !== "any" && [{ word: "step.role" }, { word: `role.${role}` }],
    most && [{ word: "step.most" }, { text: most }],
    step.thought && [{ word: "step.thought" }, { text: step.thought, lang: "en" }],
    step.observation && !step.hits && [{ word: "step.observation" }, { text: step.observation, lang: "en" }],
  ].filter(Boolean);
  return element("dl", {}, known.map(([term, value]) => [element("dt", term), element("dd", value)]));
}

function found(messages, before, show) {
  return element("ol", { class: "brought" }, messages.map((message) =>
    element("li", { class: before.has(message.messageId) ? "known" : "" },
      messageButton(message, { show, chars: 120, isBrief: true }),
      !before.has(message.messageId) && element("span", { class: "moved", word: "step.new" }))));
}

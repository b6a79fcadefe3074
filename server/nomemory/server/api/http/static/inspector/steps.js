// The list of the steps of a recall. A selected step shows its arguments and results, and which results are new. Arrow keys,
// Home and End select a step; Escape clears the selection.
import { button, element } from "./element.js";
import { word } from "./i18n.js";
import { firstWords, messageButton } from "./message.js";
import { formatDuration, milliseconds } from "./dates.js";

const PLAY_MS = 1500;
const KEYS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

export class Steps {
  #run = null;
  #rows = [];
  #at = -1;
  #timer = 0;

  // `highlight(messages)` marks the results of the selected step; null: no step is selected.
  constructor({ show, highlight, say, failed }) {
    Object.assign(this, { show, highlight, say, failed });
    this.list = element("ol", { class: "steps", label: "steps", on: { keydown: (event) => this.#press(event) } });
    this.position = element("output", { class: "dim" });
    this.back = button("steps.previous", () => this.#go(-1), { class: "quiet back" });
    this.forth = button("steps.next", () => this.#go(1), { class: "quiet forth" });
    this.play = button("steps.play", () => (this.#timer ? this.#stop() : this.#play()), { class: "quiet play" });
    this.player = element("div", { class: "player", role: "group", label: "steps", hidden: true }, this.position, this.back, this.forth, this.play);
    this.facts = element("div", {});
    this.node = element("section", { class: "search", hidden: true }, element("h3", { word: "steps" }), this.facts, this.player, this.list);
  }

  of(run) {
    this.#stop();
    this.#run = run;
    this.#rows = [];
    this.#at = -1;
    this.list.replaceChildren();
    this.facts.replaceChildren();
    this.player.hidden = true;
    this.node.hidden = true;
  }

  // Add the latest step.
  add() {
    const step = this.#run.steps.at(-1);
    const index = this.#rows.length;
    const row = stepRow(step, index, () => this.choose(this.#at === index ? -1 : index));
    this.#rows.push(row);
    this.node.hidden = false;
    this.list.append(row.node);
    if (step.tool === "neighbors") this.#nameAnchor(row, step.arguments ?? {});
    if (step.tool) this.say("live.step", { step: index + 1, n: step.hits ?? 0 });
  }

  // Show the facts about the search.
  describe(facts) {
    this.facts.replaceChildren(facts);
    this.node.hidden = false;
  }

  // Show the player after the recall, if there are steps to move between.
  over() {
    this.player.hidden = this.#rows.length < 2;
    this.#updatePlayer();
  }

  async choose(index) {
    const [run, previous] = [this.#run, this.#rows[this.#at]];
    if (previous) this.#mark(previous, false);
    this.#at = index;
    this.#updatePlayer();
    const row = this.#rows[index];
    if (!row) return this.highlight(null);
    this.#mark(row, true);
    const step = run.steps[index];
    const before = new Set(run.steps.slice(0, index).flatMap(({ messageIds = [] }) => messageIds));
    row.details.replaceChildren(details(step));
    try {
      const messages = await run.messages(step.messageIds ?? []);
      if (run !== this.#run || index !== this.#at) return undefined;
      row.details.append(resultList(messages, before, this.show));
      this.say("live.step", { step: index + 1, n: step.hits ?? 0 });
      return this.highlight(messages);
    } catch (error) {
      return error.name === "AbortError" ? undefined : this.failed(error);
    }
  }

  refresh() {
    this.#updatePlayer();
  }

  #mark({ head, details: shown }, isChosen) {
    head.setAttribute("aria-expanded", isChosen);
    if (isChosen) head.setAttribute("aria-current", "step");
    else head.removeAttribute("aria-current");
    shown.hidden = !isChosen;
  }

  #updatePlayer() {
    const args = { n: this.#at + 1, all: this.#rows.length };
    this.position.textContent = this.#at < 0 ? word("steps.all", { n: this.#rows.length }) : word("steps.at", args);
    this.back.disabled = this.#at <= 0;
    this.forth.disabled = this.#at >= this.#rows.length - 1;
  }

  #go(by) {
    this.#stop();
    this.choose(Math.min(this.#rows.length - 1, Math.max(0, this.#at + by)));
  }

  #play() {
    this.#at = this.#at >= this.#rows.length - 1 ? -1 : this.#at;
    this.#rows.forEach((row) => this.#mark(row, false));
    this.play.setAttribute("aria-pressed", true);
    const next = () => {
      this.choose(this.#at + 1);
      this.#timer = this.#at < this.#rows.length - 1 ? setTimeout(next, PLAY_MS) : 0;
      if (!this.#timer) this.#stop();
    };
    next();
  }

  #stop() {
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
      this.#stop();
      this.choose(to);
      this.#rows[to].head.focus();
    } else return;
    event.preventDefault();
  }

  // Describe a call of `neighbors` by the first words of its anchor.
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

function stepRow(step, index, onClick) {
  const tool = step.tool || "none";
  const args = step.arguments ?? {};
  const about = element("q", { text: args.query_text ?? "" });
  const id = `step-${index}`;
  const head = element("button", { type: "button", class: "step", "aria-expanded": "false", "aria-controls": id, on: { click: onClick } },
    element("span", { class: `tool t-${tool}`, word: `tool.${tool}` }),
    (args.query_text || args.message_id) && about,
    element("span", { class: "why", ...outcome(step) }),
    step.tool && element("span", { class: "took", text: formatDuration(milliseconds(step.elapsed)) }),
  );
  const shown = element("div", { class: "played", id, hidden: true });
  const node = element("li", {}, head, shown);
  node.style.setProperty("--place", index + 1);
  return { node, head, about, details: shown };
}

// Return the summary of a step.
function outcome({ tool, hits = 0 }) {
  if (tool || !hits) return tool ? { word: "step.hits", args: { n: hits } } : { word: "step.decided" };
  return { word: "step.reads", args: { n: hits } };
}

function details(step) {
  const args = step.arguments ?? {};
  const { since, until } = { ...args.filter?.time_range, ...args.time_range };
  const role = args.role ?? args.filter?.role ?? "any";
  const limit = args.top_k ?? args.page_size;
  const entries = [
    step.tool && [{ word: "step.method" }, { word: `tool.${step.tool}.about` }],
    step.iteration > 1 && [{ word: "step.iteration" }, { text: step.iteration }],
    args.query_text && [{ word: "step.query" }, { text: args.query_text }],
    since && [{ word: "step.since" }, { moment: since }],
    until && [{ word: "step.until" }, { moment: until }],
    role !== "any" && [{ word: "step.role" }, { word: `role.${role}` }],
    limit && [{ word: "step.limit" }, { text: limit }],
    step.thought && [{ word: "step.reason" }, { text: step.thought, lang: "en" }],
    step.observation && !step.hits && [{ word: "step.result" }, { text: step.observation, lang: "en" }],
  ].filter(Boolean);
  return element("dl", {}, entries.map(([term, value]) => [element("dt", term), element("dd", value)]));
}

function resultList(messages, before, show) {
  return element("ol", { class: "brought" }, messages.map((message) =>
    element("li", { class: before.has(message.messageId) ? "known" : "" },
      messageButton(message, { show, chars: 120, isBrief: true }),
      !before.has(message.messageId) && element("span", { class: "moved", word: "step.new" }))));
}

// The pane that compares the results of two skills for one question.
import { element } from "./element.js";
import { translate } from "./i18n.js";
import { memoryView } from "./memory_view.js";
import { messageButton } from "./message.js";
import { QuestionForm } from "./question_form.js";
import { RecallRun } from "./recall_run.js";
import { verdict } from "./verdict.js";

export class Comparison {
  #user = "";
  #runs = [];

  constructor(pane, { show, say, failed }) {
    Object.assign(this, { show, say, failed });
    this.form = new QuestionForm({ id: "compared", skills: 2, onSubmit: () => this.ask() });
    this.sum = element("p", { class: "sum" });
    this.columns = element("div", { class: "columns" });
    const about = element("p", { class: "dim", word: "compare.about" });
    pane.append(element("h2", { class: "unseen", word: "compare" }), about, this.form.node, this.sum, this.columns);
  }

  of(user) {
    this.#user = user;
    this.#runs.forEach((run) => run.stop());
    this.#runs = [];
    this.#show();
  }

  async ask() {
    if (!this.#user) return;
    this.#runs.forEach((run) => run.stop());
    const runs = [0, 1].map((index) => new RecallRun(this.#user, this.form.recall(index)));
    this.#runs = runs;
    this.#show();
    this.say("live.searching");
    for (const run of runs) run.addEventListener("result", () => this.#show());
    await Promise.all(runs.map((run) => run.run()));
    if (runs !== this.#runs) return;
    this.#show();
    for (const { error } of runs) if (error) this.failed(error, { isShown: true });
    this.say(this.sum.dataset.word ?? "failed", JSON.parse(this.sum.dataset.args ?? "{}"));
  }

  #show() {
    const ids = this.#runs.map((run) => (run.result?.evidence ?? []).map(({ message }) => message.messageId));
    this.columns.replaceChildren(...this.#runs.map((run, index) => this.#column(run, ids[1 - index], index)));
    const isWhole = this.#runs.length > 0 && this.#runs.every((run) => run.result);
    this.sum.replaceChildren();
    delete this.sum.dataset.word;
    if (!isWhole) return;
    const both = ids[0].filter((id) => ids[1].includes(id)).length;
    const args = { n: both, first: ids[0].length - both, second: ids[1].length - both };
    Object.assign(this.sum.dataset, { word: "compare.summary", args: JSON.stringify(args) });
    translate(this.sum);
  }

  #column(run, otherIds, index) {
    const skill = run.result?.limits?.skill ?? run.recall.skill;
    const title = element("h3", skill ? { text: skill } : { word: `skill.${index + 1}` });
    const column = element("div", { class: "column" }, title, verdict(run));
    if (!run.result) return column;
    const rows = (run.result.evidence ?? []).map(({ message }, at) => this.#row(message, at, otherIds.indexOf(message.messageId)));
    column.append(element("h4", { word: "evidence" }), element("ol", { class: "ranks" }, rows), memoryView(run.result, { show: this.show }) ?? "");
    return column;
  }

  #row(message, at, other) {
    const change = other < 0 ? { word: "compare.only", class: "moved alone" }
      : other === at ? { text: "=", label: "compare.same", role: "img", class: "moved" }
      : { text: `${other > at ? "↑" : "↓"}${Math.abs(other - at)}`, role: "img", class: "moved",
          label: other > at ? "compare.higher" : "compare.lower", args: { n: Math.abs(other - at) } };
    return element("li", {}, element("span", { class: "rank", text: at + 1 }),
      messageButton(message, { show: this.show, chars: 160, isBrief: true }),
      element("span", change));
  }
}

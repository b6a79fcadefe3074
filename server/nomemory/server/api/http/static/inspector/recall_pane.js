// Ask, and watch: the steps as they come, then the verdict, the memory view, and the evidence.
import { button, element } from "./element.js";
import { evidenceList } from "./evidence.js";
import { word } from "./language.js";
import { memoryView } from "./memory_view.js";
import { QuestionForm } from "./question_form.js";
import { RecallRun } from "./recall_run.js";
import { reportOf, save } from "./report.js";
import { Steps } from "./steps.js";
import { verdict } from "./verdict.js";

export class RecallPane {
  #user = "";
  #run = null;

  // `show(message, spans)` shows a message in its place, `point(messages)` all of the evidence, `say(word, args)` tells
  // people who hear the page.
  constructor(pane, { show, point, say, failed }) {
    Object.assign(this, { show, point, say, failed });
    this.form = new QuestionForm({ id: "question", skills: 1, asked: () => this.ask() });
    this.verdict = element("div", {});
    this.steps = new Steps({ show, point: (messages) => point(messages ?? this.#chosen()), say, failed });
    this.answer = element("div", { class: "answer" });
    this.found = element("div", { class: "found-messages" });
    this.keep = this.#exporting();
    this.none = this.#beginning();
    const made = element("div", { class: "made" }, this.none, this.verdict, this.steps.node, this.answer, this.found, this.keep);
    made.addEventListener("animationend", ({ target }) => target.classList.add("came")); // once, not at each return to the pane
    pane.append(element("h2", { class: "unseen", word: "recall" }), this.form.node, made);
  }

  of(user) {
    this.#user = user;
    this.#run?.stop();
    this.#run = null;
    this.#clear();
    this.none.hidden = false;
  }

  ask() {
    if (!this.#user) return;
    this.#run?.stop();
    const run = new RecallRun(this.#user, this.form.recall());
    this.#run = run;
    this.#clear();
    this.none.hidden = true;
    this.verdict.replaceChildren(verdict(run));
    this.say("live.asked");
    const while_ = (listener) => () => run === this.#run && listener();
    run.addEventListener("step", while_(() => this.steps.add()));
    run.addEventListener("explained", while_(() => this.#evidence()));
    run.addEventListener("result", while_(() => this.#result()));
    run.addEventListener("over", while_(() => this.#over()));
    run.run();
  }

  refresh() {
    this.steps.refresh();
    if (this.#run) this.#evidence();
  }

  // What stands where nothing has been asked: what this is, and questions to begin with.
  #beginning() {
    const ask = (name) => {
      this.form.question.value = word(name);
      this.ask();
    };
    const samples = ["sample.1", "sample.2", "sample.3"].map((name) => element("li", {}, button(name, () => ask(name), { class: "sample" })));
    return element("div", { class: "empty" }, element("p", { word: "recall.empty" }), element("ul", { class: "samples", label: "samples" }, samples));
  }

  // The evidence in the order in which it is shown.
  #chosen() {
    if (!this.#run?.result) return [];
    const { quoted, near } = this.#run.evidence;
    return [...quoted, ...near].map(({ message }) => message);
  }

  #clear() {
    for (const part of [this.verdict, this.answer, this.found]) part.replaceChildren();
    this.steps.of(this.#run);
    this.keep.hidden = true;
    this.point([]);
  }

  #result() {
    const run = this.#run;
    this.verdict.replaceChildren(verdict(run));
    this.answer.replaceChildren(memoryView(run.result, { show: this.show }));
    this.#evidence();
    this.point(this.#chosen());
    this.say(`verdict.${(run.result.verdict ?? "").replace("VERDICT_", "").toLowerCase()}`);
  }

  #evidence() {
    this.found.replaceChildren(evidenceList(this.#run, { show: this.show }) ?? "");
  }

  #over() {
    if (this.#run.error) {
      this.verdict.replaceChildren(verdict(this.#run));
      this.failed(this.#run.error, { isShown: true });
    } else {
      this.#evidence();
    }
    this.steps.over();
    this.keep.hidden = false;
  }

  #exporting() {
    const words = element("input", { type: "checkbox", id: "with-words", checked: true });
    const label = element("label", {}, words, element("span", { word: "export.words" }));
    const go = button("export", async () => save(await reportOf(this.#run, { withWords: words.checked })), { id: "export" });
    return element("div", { class: "keep", hidden: true }, go, label);
  }
}

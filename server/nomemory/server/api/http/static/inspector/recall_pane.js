// The pane that runs a recall and shows its steps, verdict, memory view and evidence.
import { button, element } from "./element.js";
import { evidenceList } from "./evidence.js";
import { word } from "./i18n.js";
import { memoryView } from "./memory_view.js";
import { QuestionForm } from "./question_form.js";
import { RecallRun } from "./recall_run.js";
import { reportOf, save } from "./report.js";
import { Steps } from "./steps.js";
import { verdict } from "./verdict.js";

export class RecallPane {
  #user = "";
  #run = null;

  // `show(message, spans)` opens a message, `highlight(messages)` marks messages in the timeline, `say(word, args)` announces
  // a string to screen readers.
  constructor(pane, { show, highlight, say, failed }) {
    Object.assign(this, { show, highlight, say, failed });
    this.form = new QuestionForm({ id: "question", skills: 1, onSubmit: () => this.ask() });
    this.verdict = element("div", {});
    this.steps = new Steps({ show, highlight: (messages) => highlight(messages ?? this.#evidenceMessages()), say, failed });
    this.answer = element("div", { class: "answer" });
    this.evidence = element("div", { class: "found-messages" });
    this.exportBar = this.#exporting();
    this.intro = this.#introduction();
    const result = element("div", { class: "made" }, this.intro, this.verdict, this.steps.node, this.answer, this.evidence, this.exportBar);
    result.addEventListener("animationend", ({ target }) => target.classList.add("came")); // animate once, not at each return to the pane
    pane.append(element("h2", { class: "unseen", word: "recall" }), this.form.node, result);
  }

  of(user) {
    this.#user = user;
    this.#run?.stop();
    this.#run = null;
    this.#clear();
    this.intro.hidden = false;
  }

  ask() {
    if (!this.#user) return;
    this.#run?.stop();
    const run = new RecallRun(this.#user, this.form.recall());
    this.#run = run;
    this.#clear();
    this.intro.hidden = true;
    this.verdict.replaceChildren(verdict(run));
    this.say("live.searching");
    const ifCurrent = (listener) => () => run === this.#run && listener();
    run.addEventListener("step", ifCurrent(() => this.steps.add()));
    run.addEventListener("explained", ifCurrent(() => this.#evidence()));
    run.addEventListener("result", ifCurrent(() => this.#result()));
    run.addEventListener("over", ifCurrent(() => this.#over()));
    run.run();
  }

  refresh() {
    this.steps.refresh();
    if (this.#run) this.#evidence();
  }

  // The introduction with sample questions, shown before the first recall.
  #introduction() {
    const ask = (name) => {
      this.form.question.value = word(name);
      this.ask();
    };
    const samples = ["sample.1", "sample.2", "sample.3"].map((name) => element("li", {}, button(name, () => ask(name), { class: "sample" })));
    return element("div", { class: "empty" }, element("p", { word: "recall.empty" }), element("ul", { class: "samples", label: "samples" }, samples));
  }

  // Return the evidence in display order.
  #evidenceMessages() {
    if (!this.#run?.result) return [];
    const { quoted, near } = this.#run.evidence;
    return [...quoted, ...near].map(({ message }) => message);
  }

  #clear() {
    for (const part of [this.verdict, this.answer, this.evidence]) part.replaceChildren();
    this.steps.of(this.#run);
    this.exportBar.hidden = true;
    this.highlight([]);
  }

  #result() {
    const run = this.#run;
    this.verdict.replaceChildren(verdict(run));
    this.answer.replaceChildren(memoryView(run.result, { show: this.show }));
    this.#evidence();
    this.highlight(this.#evidenceMessages());
    this.say(`verdict.${(run.result.verdict ?? "").replace("VERDICT_", "").toLowerCase()}`);
  }

  #evidence() {
    this.evidence.replaceChildren(evidenceList(this.#run, { show: this.show }) ?? "");
  }

  #over() {
    if (this.#run.error) {
      this.verdict.replaceChildren(verdict(this.#run));
      this.failed(this.#run.error, { isShown: true });
    } else {
      this.#evidence();
    }
    this.steps.over();
    this.exportBar.hidden = false;
  }

  #exporting() {
    const includeContent = element("input", { type: "checkbox", id: "include-content", checked: true });
    const label = element("label", {}, includeContent, element("span", { word: "export.content" }));
    const go = button("export", async () => save(await reportOf(this.#run, { includeContent: includeContent.checked })), { id: "export" });
    return element("div", { class: "keep", hidden: true }, go, label);
  }
}

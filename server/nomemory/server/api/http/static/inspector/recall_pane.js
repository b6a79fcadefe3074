// The pane that runs a recall and shows its verdict, memory view, steps and evidence.
import { button, element } from "./element.js";
import { evidenceList } from "./evidence.js";
import { word } from "./i18n.js";
import { memoryView } from "./memory_view.js";
import { QuestionForm } from "./question_form.js";
import { RecallRun } from "./recall_run.js";
import { reportOf, save } from "./report.js";
import { Steps } from "./steps.js";
import { suggestions } from "./suggested_questions.js";
import { facts, verdict } from "./verdict.js";

export class RecallPane {
  #user = "";
  #run = null;
  #isRequested = false; // a question was submitted before the user was known

  // `show(message, spans)` opens a message, `highlight(messages)` marks messages in the timeline, `say(word, args)` announces
  // a string to screen readers.
  constructor(pane, { show, highlight, say, failed }) {
    Object.assign(this, { pane, show, highlight, say, failed });
    this.form = new QuestionForm({ id: "question", skills: 1, onSubmit: () => this.ask() });
    this.verdict = element("div", {});
    this.steps = new Steps({ show, highlight: (messages) => highlight(messages ?? this.#evidenceMessages()), say, failed });
    this.answer = element("div", { class: "answer" });
    this.evidence = element("div", { class: "found-messages" });
    this.exportBar = this.#exporting();
    this.intro = this.#introduction();
    const result = element("div", { class: "made" }, this.intro, this.verdict, this.answer, this.steps.node, this.evidence, this.exportBar);
    result.addEventListener("animationend", ({ target }) => target.classList.add("came")); // animate once, not at each return to the pane
    pane.append(element("h2", { class: "unseen", word: "recall" }), this.form.node, result);
  }

  of(user) {
    this.#user = user;
    this.#run?.stop();
    this.#run = null;
    this.#clear();
    this.intro.hidden = false;
    this.suggest([]);
    if (user && this.#isRequested) this.ask();
  }

  // Suggest questions about the messages of the user.
  suggest(messages) {
    const items = suggestions(messages).map((question) => element("li", {}, button(question.word, () => this.#askFor(question), { args: question.args, class: "sample" })));
    this.samples.replaceChildren(...items);
    this.offer.hidden = !items.length;
  }

  ask() {
    this.#isRequested = !this.#user;
    if (!this.#user) return;
    this.#run?.stop();
    const run = new RecallRun(this.#user, this.form.recall());
    this.#run = run;
    this.#clear();
    this.intro.hidden = true;
    this.pane.scrollTop = 0;
    if (matchMedia("(pointer: coarse)").matches) this.form.question.blur(); // hides the keyboard of a phone
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

  // The introduction with suggested questions, shown before the first recall.
  #introduction() {
    this.samples = element("ul", { class: "samples", label: "samples" });
    this.offer = element("div", { hidden: true }, element("p", { word: "samples" }), this.samples);
    return element("div", { class: "empty" }, element("p", { word: "recall.empty" }), this.offer);
  }

  #askFor({ word: name, args }) {
    this.form.question.value = word(name, args);
    this.ask();
  }

  // Return the evidence in display order.
  #evidenceMessages() {
    if (!this.#run?.result) return [];
    return this.#run.evidence.used.map(({ message }) => message);
  }

  #clear() {
    for (const part of [this.verdict, this.answer, this.evidence]) part.replaceChildren();
    this.steps.node.after(this.evidence);
    this.steps.of(this.#run);
    this.exportBar.hidden = true;
    this.highlight([]);
  }

  #result() {
    const run = this.#run;
    this.verdict.replaceChildren(verdict(run));
    const view = memoryView(run.result, { show: this.show });
    this.answer.replaceChildren(view ?? "");
    if (!view) this.verdict.after(this.evidence); // the nearest messages take the place of the answer
    this.steps.describe(facts(run, this.form));
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

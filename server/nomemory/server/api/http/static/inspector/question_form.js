// The form of a recall: the question, the skill if there is a choice, and the time.
import { element } from "./element.js";

export class QuestionForm {
  #names = [];

  // `skills` is the number of skills to choose: 1, or 2 for a comparison.
  constructor({ id, skills, onSubmit }) {
    this.question = element("textarea", { id, rows: "2", maxlength: "2000", hint: "question.hint", label: "question" });
    this.skills = Array.from({ length: skills }, () => element("select", {}, option("")));
    this.choices = this.skills.map((skill, index) => field(skills > 1 ? `skill.${index + 1}` : "skill", skill));
    this.choices.forEach((choice) => (choice.hidden = true));
    this.now = element("input", { type: "datetime-local" });
    this.go = element("button", { type: "submit", class: "go", word: skills > 1 ? "compare.run" : "ask" });
    this.node = element("form", { class: "ask" },
      this.question,
      element("div", { class: "with" },
        skills > 1 && this.choices,
        element("details", {}, element("summary", { word: "options" }),
          element("div", { class: "options" }, skills === 1 && this.choices, field("now", this.now))),
        this.go),
    );
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.question.value.trim()) onSubmit();
    });
    this.question.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.node.requestSubmit();
    });
  }

  get hasSkills() {
    return this.#names.length > 1;
  }

  // Set the cursor to the end of the question.
  focus() {
    this.question.focus();
    this.question.setSelectionRange(this.question.value.length, this.question.value.length);
  }

  // Set the available skills. The first is the server's default; the second form field starts with the second skill.
  setSkills(names) {
    if (names.join() === this.#names.join()) return;
    this.#names = names;
    this.choices.forEach((choice) => (choice.hidden = !this.hasSkills));
    this.skills.forEach((skill, index) => {
      skill.replaceChildren(...(names.length ? names : [""]).map(option));
      skill.selectedIndex = Math.min(index, Math.max(0, names.length - 1));
    });
  }

  // Return the request of a recall with one of the chosen skills.
  recall(index = 0) {
    const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const now = this.now.value ? new Date(this.now.value).toISOString() : undefined;
    return { question: this.question.value.trim(), skill: this.skills[index].value, context: { timeZone, now } };
  }
}

const option = (name) => element("option", { value: name, ...(name ? { text: name } : { word: "skill.default" }) });

function field(name, input) {
  return element("label", {}, element("span", { word: name }), input);
}

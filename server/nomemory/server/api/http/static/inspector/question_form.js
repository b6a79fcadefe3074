// A question, and from where the search starts.
import { element } from "./element.js";

export class QuestionForm {
  #names = [];

  // `skills` is how many skills are asked about: one, or two to compare.
  constructor({ id, skills, asked }) {
    this.question = element("textarea", { id, rows: "2", maxlength: "2000", hint: "question.hint", label: "question" });
    this.skills = Array.from({ length: skills }, () => element("select", {}, option("")));
    const choices = this.skills.map((skill, place) => field(skills > 1 ? `skill.${place + 1}` : "skill", skill));
    this.now = element("input", { type: "datetime-local" });
    this.go = element("button", { type: "submit", class: "go", word: skills > 1 ? "compare.go" : "ask" });
    this.node = element("form", { class: "ask" },
      this.question,
      element("div", { class: "with" },
        skills > 1 && choices,
        element("details", {}, element("summary", { word: "options" }),
          element("div", { class: "options" }, skills === 1 && choices, field("now", this.now))),
        this.go),
    );
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.question.value.trim()) asked();
    });
    this.question.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.node.requestSubmit();
    });
  }

  // Offer the skills that the server names, its own first; of two, the second begins with the next one.
  offer(names) {
    if (names.join() === this.#names.join()) return;
    this.#names = names;
    this.skills.forEach((skill, place) => {
      skill.replaceChildren(...(names.length ? names : [""]).map(option));
      skill.selectedIndex = Math.min(place, Math.max(0, names.length - 1));
    });
  }

  // The request of a recall, with one of the skills.
  recall(place = 0) {
    const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const now = this.now.value ? new Date(this.now.value).toISOString() : undefined;
    return { question: this.question.value.trim(), skill: this.skills[place].value, context: { timeZone, now } };
  }
}

const option = (name) => element("option", { value: name, ...(name ? { text: name } : { word: "skill.own" }) });

function field(name, input) {
  return element("label", {}, element("span", { word: name }), input);
}

// A question, and from where the search starts.
import { element } from "./element.js";

const SKILL = "nomemory-recall-default";

export class QuestionForm {
  // `skills` is how many skills are asked about: one, or two to compare.
  constructor({ id, skills, asked }) {
    this.question = element("textarea", { id, rows: "2", maxlength: "2000", hint: "question.hint", label: "question" });
    this.skills = Array.from({ length: skills }, (_, place) => field(skills > 1 ? `skill.${place + 1}` : "skill",
      element("input", { type: "text", spellcheck: "false", autocomplete: "off", placeholder: SKILL, maxlength: "64" })));
    this.now = field("now", element("input", { type: "datetime-local" }));
    this.go = element("button", { type: "submit", class: "go", word: skills > 1 ? "compare.go" : "ask" });
    this.node = element("form", { class: "ask" },
      this.question,
      element("div", { class: "with" },
        skills > 1 && this.skills,
        element("details", {}, element("summary", { word: "options" }),
          element("div", { class: "options" }, skills === 1 && this.skills, this.now)),
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

  // The request of a recall, with one of the skills.
  recall(place = 0) {
    const now = this.now.querySelector("input").value;
    const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    return {
      question: this.question.value.trim(),
      skill: this.skills[place].querySelector("input").value.trim(),
      context: { timeZone, now: now ? new Date(now).toISOString() : undefined },
    };
  }
}

function field(name, input) {
  return element("label", {}, element("span", { word: name }), input);
}

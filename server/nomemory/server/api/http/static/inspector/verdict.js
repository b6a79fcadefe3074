// What came of a recall: how likely it is an answer, what it rests on, and what the server notes, in the page's language.
import { element } from "./element.js";
import { lasted } from "./moment.js";

// What a verdict or the meter says already.
const SAID = new Set(["estimated", "pending", "contradictory"]);
const SPENT = { STOP_REASON_ITERATIONS: "iterations", STOP_REASON_TOOL_CALLS: "calls", STOP_REASON_DEADLINE: "deadline" };

export function verdict(run) {
  if (run.error) return failure(run.error);
  if (!run.result) {
    return element("div", { class: "verdict running" }, element("strong", { word: "verdict.running" }));
  }
  const { limits = {} } = run.result;
  const kind = (run.result.verdict ?? "").replace("VERDICT_", "").toLowerCase();
  const spent = SPENT[limits.stopReason];
  const facts = [
    { word: "verdict.considered", args: { n: limits.messagesConsidered ?? 0 } },
    { word: "verdict.calls", args: { n: limits.toolCalls ?? 0 } },
    { text: lasted(run.tookMs) },
    limits.skill && { text: limits.skill },
    spent && { word: `verdict.spent.${spent}` },
    limits.indexLagging && { word: "verdict.behind" },
    limits.widened && { word: "verdict.widened" },
    limits.truncated && { word: "verdict.truncated" },
  ].filter(Boolean);
  return element("div", { class: `verdict ${kind}` },
    element("strong", { word: `verdict.${kind}` }),
    element("p", { word: `verdict.${kind}.about` }),
    limits.sufficiency !== undefined && likelihood(limits),
    element("ul", { class: "facts" }, facts.map((fact) => element("li", fact))),
    notes(limits),
  );
}

// Show how likely it is that this answers, and from where on that is enough. No estimate is certain.
function likelihood({ sufficiency, enough }) {
  const n = Math.min(99, Math.max(1, Math.round(sufficiency * 100)));
  const gauge = element("div", { class: "gauge", role: "meter", label: "verdict.meter", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": n },
    element("i"), enough !== undefined && element("b"));
  gauge.firstChild.style.width = `${n}%`;
  if (enough !== undefined) gauge.lastChild.style.left = `${enough * 100}%`;
  return element("div", { class: "likely" },
    element("span", { word: "verdict.likely", args: { n } }), gauge,
    enough !== undefined && element("span", { class: "dim", word: "verdict.enough", args: { n: Math.round(enough * 100) } }));
}

function notes({ notes: texts = [], codedNotes = [] }) {
  const shown = texts.map((text, place) => note(text, codedNotes[place] ?? {})).filter(Boolean);
  return shown.length > 0 && element("ul", { class: "notes" }, shown);
}

// A skill's own entries are named as the server names them; a note that this page does not know stands in the server's words.
function note(text, { code = "", count = 0 }) {
  const name = code.replace("NOTE_CODE_", "").toLowerCase();
  if (SAID.has(name)) return null;
  if (!KNOWN.has(name)) return element("li", { text, lang: "en" });
  return element("li", {}, element("span", { word: `note.${name}`, args: { n: count }, title: text }),
    name === "skill" && element("span", { text, lang: "en" }));
}

const KNOWN = new Set([
  "one_conversation", "meaning_incomplete", "planner_failed", "model_failed", "skill", "not_retrieved", "not_there",
  "uncited", "over_limit", "verdict_misfit", "verdict_of_model", "nothing_cited", "not_estimated",
]);

export function failure(error) {
  return element("div", { class: "verdict failed", role: "alert" },
    element("strong", { word: "failed" }),
    element("p", { text: error.message }),
    error.reason && element("p", { class: "dim", text: error.reason }),
  );
}

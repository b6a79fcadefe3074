// What came of a recall: how likely it is an answer, what it rests on, and what the server notes, in the page's language.
import { element } from "./element.js";
import { lasted } from "./moment.js";

// What a verdict or the meter says already.
const SAID = new Set(["sufficiency_estimated", "indexing_pending", "conflict"]);
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
function likelihood({ sufficiency, sufficiencyThreshold: threshold }) {
  const n = Math.min(99, Math.max(1, Math.round(sufficiency * 100)));
  const gauge = element("div", { class: "gauge", role: "meter", label: "verdict.meter", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": n },
    element("i"), threshold !== undefined && element("b"));
  gauge.firstChild.style.width = `${n}%`;
  if (threshold !== undefined) gauge.lastChild.style.left = `${threshold * 100}%`;
  return element("div", { class: "likely" },
    element("span", { word: "verdict.likely", args: { n } }), gauge,
    threshold !== undefined && element("span", { class: "dim", word: "verdict.threshold", args: { n: Math.round(threshold * 100) } }));
}

function notes({ notes: list = [] }) {
  const shown = list.map(note).filter(Boolean);
  return shown.length > 0 && element("ul", { class: "notes" }, shown);
}

// A skill's own entries are named as the server names them; a note that this page does not know stands in the server's words.
function note({ code = "", count = 0, text = "" }) {
  const name = code.replace("NOTE_CODE_", "").toLowerCase();
  if (SAID.has(name)) return null;
  if (!KNOWN.has(name)) return element("li", { text, lang: "en" });
  return element("li", {}, element("span", { word: `note.${name}`, args: { n: count }, title: text }),
    name === "skill_ignored" && element("span", { text, lang: "en" }));
}

const KNOWN = new Set([
  "single_conversation", "semantic_incomplete", "planner_failed", "model_failed", "skill_ignored", "citation_not_retrieved",
  "quote_not_found", "statement_uncited", "statement_limit", "model_verdict_rejected", "model_verdict", "no_statement",
  "sufficiency_unknown", "corrected", "time_range_empty", "quoted_instead",
]);

export function failure(error) {
  return element("div", { class: "verdict failed", role: "alert" },
    element("strong", { word: "failed" }),
    element("p", { text: error.message }),
    error.reason && element("p", { class: "dim", text: error.reason }),
  );
}

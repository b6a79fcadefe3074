// The verdict of a recall with its sufficiency and its notes, and the facts about its search.
import { element } from "./element.js";
import { formatDuration } from "./dates.js";

// Notes that repeat the verdict or the meter.
const REDUNDANT = new Set(["sufficiency_estimated", "indexing_pending", "conflict"]);
const LIMIT_REACHED = { STOP_REASON_ITERATIONS: "iterations", STOP_REASON_TOOL_CALLS: "calls", STOP_REASON_DEADLINE: "deadline" };

export function verdict(run) {
  if (run.error) return failure(run.error);
  if (!run.result) {
    return element("div", { class: "verdict running" }, element("strong", { word: "verdict.running" }));
  }
  const { limits = {} } = run.result;
  const kind = (run.result.verdict ?? "").replace("VERDICT_", "").toLowerCase();
  const isEmpty = kind === "insufficient" && !run.result.evidence?.length;
  return element("div", { class: `verdict ${kind}` },
    element("strong", { word: `verdict.${kind}` }),
    element("p", { word: isEmpty ? "verdict.insufficient.none" : `verdict.${kind}.about` }),
    limits.sufficiency !== undefined && likelihood(limits),
    notes(limits),
  );
}

// Return the list of facts about the search of a recall. The skill is a fact only if there is a choice.
export function facts({ result, tookMs }, { hasSkills }) {
  const { limits = {} } = result ?? {};
  const items = [
    { word: "verdict.considered", args: { n: limits.messagesConsidered ?? 0 } },
    { text: formatDuration(tookMs) },
    limits.modelCalls > 0 && { word: "verdict.model_calls", args: { n: limits.modelCalls } },
    limits.tokenUsage && tokens(limits.tokenUsage),
    hasSkills && limits.skill && { text: limits.skill },
  ].filter(Boolean);
  return element("ul", { class: "facts" }, items.map((fact) => element("li", fact)));
}

function tokens({ promptTokens: prompt = 0, completionTokens: completion = 0, cachedTokens: cached = 0 }) {
  return { word: "verdict.tokens", args: { n: prompt + completion, prompt, completion, cached } };
}

// Show the sufficiency and its threshold in words. It is limited to 1 to 99 percent, because an estimate is never certain.
function likelihood({ sufficiency, sufficiencyThreshold: threshold }) {
  const n = Math.min(99, Math.max(1, Math.round(sufficiency * 100)));
  const gauge = element("div", { class: "gauge", role: "meter", label: "verdict.meter", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": n },
    element("i"), threshold !== undefined && element("b"));
  gauge.firstChild.style.width = `${n}%`;
  if (threshold !== undefined) gauge.lastChild.style.left = `${threshold * 100}%`;
  return element("div", { class: "likely" }, gauge,
    element("span", { word: "verdict.sufficiency", args: { percent: n } }), " ",
    threshold !== undefined && element("span", { class: "dim", word: "verdict.threshold", args: { percent: Math.round(threshold * 100) } }));
}

function notes(limits) {
  const limit = LIMIT_REACHED[limits.stopReason];
  const restrictions = [
    limit && `verdict.limit.${limit}`,
    limits.indexLagging && "verdict.lagging",
    limits.widened && "verdict.widened",
    limits.truncated && "verdict.truncated",
  ].filter(Boolean);
  const shown = [...restrictions.map((word) => element("li", { word })), ...(limits.notes ?? []).map(note).filter(Boolean)];
  return shown.length > 0 && element("ul", { class: "notes" }, shown);
}

// Notes whose translation precedes the text from the server: the part of a skill, the failure of the chat model.
const WITH_TEXT = new Set(["skill_ignored", "model_failed"]);

// Translate a note. The text of an unknown note comes from the server.
function note({ code = "", count = 0, text = "" }) {
  const name = code.replace("NOTE_CODE_", "").toLowerCase();
  if (REDUNDANT.has(name)) return null;
  if (!KNOWN.has(name)) return element("li", { text, lang: "en" });
  return element("li", {}, element("span", { word: `note.${name}`, args: { n: count }, title: text }),
    WITH_TEXT.has(name) && element("span", { text, lang: "en" }));
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

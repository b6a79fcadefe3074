// What came of a recall, in a line, and what it rests on.
import { element } from "./element.js";
import { lasted } from "./moment.js";

export function verdict(run) {
  if (run.error) return failure(run.error);
  if (!run.result) {
    return element("div", { class: "verdict running" }, element("strong", { word: "verdict.running" }));
  }
  const { limits = {} } = run.result;
  const kind = (run.result.verdict ?? "").replace("VERDICT_", "").toLowerCase();
  const facts = [
    limits.sufficiency !== undefined && { word: "verdict.likely", args: { n: Math.round(limits.sufficiency * 100) } },
    { word: "verdict.considered", args: { n: limits.messagesConsidered ?? 0 } },
    { word: "verdict.calls", args: { n: limits.toolCalls ?? 0 } },
    { text: lasted(run.tookMs) },
    limits.skill && { text: limits.skill },
    limits.indexBehind && { word: "verdict.behind" },
    limits.widened && { word: "verdict.widened" },
    limits.truncated && { word: "verdict.truncated" },
  ].filter(Boolean);
  return element("div", { class: `verdict ${kind}` },
    element("strong", { word: `verdict.${kind}` }),
    element("p", { word: `verdict.${kind}.about` }),
    element("ul", { class: "facts" }, facts.map((fact) => element("li", fact))),
    limits.notes?.length > 0 && element("ul", { class: "notes" }, limits.notes.map((note) => element("li", { text: note }))),
  );
}

export function failure(error) {
  return element("div", { class: "verdict failed", role: "alert" },
    element("strong", { word: "failed" }),
    element("p", { text: error.message }),
    error.reason && element("p", { class: "dim", text: error.reason }),
  );
}

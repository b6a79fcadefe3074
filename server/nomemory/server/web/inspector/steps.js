// What a recall does, call by call.
import { element } from "./element.js";
import { lasted, milliseconds } from "./moment.js";

export function stepRow(step, place) {
  const tool = step.tool || "none";
  const asked = step.arguments ?? {};
  const about = asked.query_text ?? asked.message_id ?? "";
  const head = element("summary", {},
    element("span", { class: `tool t-${tool}`, word: `tool.${tool}` }),
    about && element("q", { text: about }),
    element("span", { class: "why", ...outcome(step) }),
    step.tool && element("span", { class: "took", text: lasted(milliseconds(step.elapsed)) }),
  );
  const row = element("li", {}, element("details", {}, head, details(step, asked)));
  row.style.setProperty("--place", place);
  return row;
}

// How many messages a call brought; where it says something else, that.
function outcome({ tool, thought = "", hits = 0, observation = "" }) {
  if (!tool) return { text: thought };
  return /^\d+ messages?$/.test(observation) ? { word: "step.hits", args: { n: hits } } : { text: observation };
}

function details(step, asked) {
  return element("dl", {},
    element("dt", { word: "step.round" }), element("dd", { text: step.iteration ?? 1 }),
    step.thought && [element("dt", { word: "step.thought" }), element("dd", { text: step.thought })],
    step.tool && [
      element("dt", { word: "step.arguments" }), element("dd", {}, element("pre", { text: JSON.stringify(asked, null, 1) })),
      element("dt", { word: "step.brought" }), element("dd", { text: (step.messageIds ?? []).join("  ") }),
    ],
  );
}

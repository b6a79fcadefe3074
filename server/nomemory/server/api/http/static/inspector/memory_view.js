// The memory view: each statement with the quotes that prove it. What was said anew stands beside what it takes the place
// of, and what contradicts each other side by side.
import { element } from "./element.js";
import { day } from "./moment.js";

const SECTIONS = ["preferences", "constraints", "profile"];

export function memoryView(result, { show }) {
  const view = result.memoryView ?? {};
  const sections = SECTIONS.filter((name) => view[name]?.length).map((name) =>
    element("div", { class: "part" }, element("h4", { word: `view.${name}` }), statements(view[name], show)));
  const conflicts = (result.conflicts ?? []).map((one) => conflict(one, show));
  const isNear = result.verdict === "VERDICT_INSUFFICIENT" || result.verdict === "VERDICT_PENDING"; // said, but no answer
  return element("section", { class: isNear ? "view near" : "view" },
    element("h3", { word: "view" }),
    conflicts.length > 0 && element("div", { class: "part" }, element("h4", { word: "view.conflicts" }), conflicts),
    sections.length ? sections : element("p", { class: "dim", word: "view.empty" }),
  );
}

function statements(all, show) {
  const ofNewer = new Map(all.map((one) => [one, []]));
  const beside = new Set();
  for (const one of all.filter((statement) => statement.supersededBy)) {
    const newer = all.find((other) => other !== one && cites(other, one.supersededBy));
    if (newer && !beside.has(newer)) {
      ofNewer.get(newer).push(one);
      beside.add(one);
    }
  }
  return all.filter((one) => !beside.has(one)).map((one) => {
    const former = ofNewer.get(one);
    if (!former.length) return statement(one, show);
    return pair("view.now", statement(one, show), "view.before", former.map((older) => statement(older, show)), "superseded");
  });
}

function conflict({ earlier, later, possible }, show) {
  const words = possible ? ["view.maybe.earlier", "view.maybe.later"] : ["view.earlier", "view.later"];
  return pair(words[0], statement(earlier, show), words[1], statement(later, show), "conflict");
}

function pair(firstWord, first, secondWord, second, kind) {
  return element("div", { class: `pair ${kind}` },
    element("div", {}, element("h5", { word: firstWord }), first),
    element("div", {}, element("h5", { word: secondWord }), second),
  );
}

function statement(one, show) {
  const citations = one.citations ?? [];
  const isQuote = citations.length === 1 && citations[0].quote === one.text;
  const other = { ATTRIBUTION_OTHER: "view.other", ATTRIBUTION_QUOTED: "view.quoted" }[one.attribution];
  return element("article", { class: "statement" },
    !isQuote && element("p", { text: one.text }),
    citations.map((citation) => quote(citation, show, isQuote)),
    other && element("p", { class: "by", word: other }),
  );
}

function quote(citation, show, isStatement) {
  const open = () => show(citation, [{ start: citation.span?.start ?? 0, end: citation.span?.end ?? 0 }]);
  return element("blockquote", { class: isStatement ? "whole" : "" },
    element("button", { type: "button", class: "place", on: { click: open } },
      element("span", { class: "text", text: citation.quote }),
      element("span", { class: "by" }, element("time", { text: day(citation.ts) }), element("span", { text: citation.messageId })),
    ));
}

const cites = (one, messageId) => (one.citations ?? []).some((citation) => citation.messageId === messageId);

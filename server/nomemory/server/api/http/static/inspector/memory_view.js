// The memory view, which is the answer: statements with their citations. Superseded statements are shown next to the newer
// ones, and contradictory statements next to each other.
import { element } from "./element.js";

const SECTIONS = ["preferences", "constraints", "profile"];

// Return the memory view; null if it has no statements. A single section has no heading.
export function memoryView(result, { show }) {
  const view = result.memoryView ?? {};
  const ranks = new Map((result.evidence ?? []).map(({ message }, rank) => [message.messageId, rank]));
  const parts = SECTIONS.filter((name) => view[name]?.length)
    .map((name) => ({ name, shown: statements(view[name], { show, ranks }) }));
  const conflicts = (result.conflicts ?? []).map((pair) => conflict(pair, show));
  if (conflicts.length) parts.unshift({ name: "conflicts", shown: conflicts });
  if (!parts.length) return null;
  const isNear = result.verdict === "VERDICT_INSUFFICIENT" || result.verdict === "VERDICT_PENDING"; // the statements do not answer
  const hasHeadings = parts.length > 1 || conflicts.length > 0;
  return element("section", { class: isNear ? "view near" : "view" },
    element("h3", { word: "view" }),
    parts.map(({ name, shown }) => element("div", { class: "part" }, hasHeadings && element("h4", { word: `view.${name}` }), shown)),
  );
}

function statements(all, { show, ranks }) {
  const olderByNewer = new Map(all.map((item) => [item, []]));
  const paired = new Set();
  for (const older of all.filter((item) => item.supersededBy)) {
    const newer = all.find((other) => other !== older && cites(other, older.supersededBy));
    if (newer && !paired.has(newer)) {
      olderByNewer.get(newer).push(older);
      paired.add(older);
    }
  }
  const rankOf = (item) => Math.min(...[item, ...olderByNewer.get(item)].flatMap(({ citations = [] }) => citations)
    .map(({ messageId }) => ranks.get(messageId) ?? Infinity));
  const isPair = (item) => olderByNewer.get(item).length > 0;
  return pairsFirst(all.filter((item) => !paired.has(item)), { isPair, rankOf }).map((item) => {
    const superseded = olderByNewer.get(item);
    if (!superseded.length) return statement(item, show);
    return pair("view.current", statement(item, show), "view.superseded", superseded.map((older) => statement(older, show)), "superseded");
  });
}

// Move each pair before the statements with a lower rank. The others keep the order of the server.
function pairsFirst(items, { isPair, rankOf }) {
  const ordered = items.filter((item) => !isPair(item));
  for (const pair of items.filter(isPair)) {
    const next = ordered.findIndex((item) => rankOf(item) > rankOf(pair));
    ordered.splice(next < 0 ? ordered.length : next, 0, pair);
  }
  return ordered;
}

function conflict({ earlier, later, possible }, show) {
  const keys = possible ? ["view.possible.earlier", "view.possible.later"] : ["view.earlier", "view.later"];
  return pair(keys[0], statement(earlier, show), keys[1], statement(later, show), "conflict");
}

function pair(firstWord, first, secondWord, second, kind) {
  return element("div", { class: `pair ${kind}` },
    element("div", {}, element("h5", { word: firstWord }), first),
    element("div", {}, element("h5", { word: secondWord }), second),
  );
}

function statement({ text, citations = [], attribution }, show) {
  const isQuote = citations.length === 1 && citations[0].quote === text;
  const attributionKey = { ATTRIBUTION_OTHER: "view.other", ATTRIBUTION_QUOTED: "view.quoted" }[attribution];
  return element("article", { class: "statement" },
    !isQuote && element("p", { text }),
    citations.map((citation) => quote(citation, show, isQuote)),
    attributionKey && element("p", { class: "by", word: attributionKey }),
  );
}

function quote(citation, show, isStatement) {
  const open = () => show(citation, [{ start: citation.span?.start ?? 0, end: citation.span?.end ?? 0 }]);
  return element("blockquote", { class: isStatement ? "whole" : "" },
    element("button", { type: "button", class: "place", on: { click: open } },
      element("span", { class: "text", text: citation.quote }),
      element("span", { class: "by" }, element("time", { moment: citation.ts, format: "day" }), element("span", { text: citation.messageId })),
    ));
}

const cites = ({ citations = [] }, messageId) => citations.some((citation) => citation.messageId === messageId);

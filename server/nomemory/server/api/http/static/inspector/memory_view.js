// The memory view: statements with their citations. Superseded statements are shown next to the newer ones, and
// contradictory statements next to each other.
import { element } from "./element.js";
import { day } from "./dates.js";

const SECTIONS = ["preferences", "constraints", "profile"];

export function memoryView(result, { show }) {
  const view = result.memoryView ?? {};
  const sections = SECTIONS.filter((name) => view[name]?.length).map((name) =>
    element("div", { class: "part" }, element("h4", { word: `view.${name}` }), statements(view[name], show)));
  const conflicts = (result.conflicts ?? []).map((pair) => conflict(pair, show));
  const isNear = result.verdict === "VERDICT_INSUFFICIENT" || result.verdict === "VERDICT_PENDING"; // the statements do not answer
  return element("section", { class: isNear ? "view near" : "view" },
    element("h3", { word: "view" }),
    conflicts.length > 0 && element("div", { class: "part" }, element("h4", { word: "view.conflicts" }), conflicts),
    sections.length ? sections : element("p", { class: "dim", word: "view.empty" }),
  );
}

function statements(all, show) {
  const olderByNewer = new Map(all.map((item) => [item, []]));
  const paired = new Set();
  for (const older of all.filter((item) => item.supersededBy)) {
    const newer = all.find((other) => other !== older && cites(other, older.supersededBy));
    if (newer && !paired.has(newer)) {
      olderByNewer.get(newer).push(older);
      paired.add(older);
    }
  }
  return all.filter((item) => !paired.has(item)).map((item) => {
    const superseded = olderByNewer.get(item);
    if (!superseded.length) return statement(item, show);
    return pair("view.current", statement(item, show), "view.superseded", superseded.map((older) => statement(older, show)), "superseded");
  });
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
      element("span", { class: "by" }, element("time", { text: day(citation.ts) }), element("span", { text: citation.messageId })),
    ));
}

const cites = ({ citations = [] }, messageId) => citations.some((citation) => citation.messageId === messageId);

// The messages that a recall found, best first, with what their scores are made of: first those that are quoted, then,
// under a line, those that are only near.
import { element } from "./element.js";
import { messageButton } from "./message.js";
import { figures, legend, scaleOf, scoreBar } from "./score_bar.js";

export function evidenceList(run, { show }) {
  const { quoted, near, others } = run.evidence;
  const all = [...quoted, ...near, ...others];
  if (!all.length) return null;
  const scale = scaleOf(all);
  const list = (items, from) => items.length > 0 &&
    element("ol", { class: "evidence-list" }, items.map((item, place) => row(item, from + place, scale, show)));
  const rest = others.length > 0 && element("details", { class: "others" },
    element("summary", { word: "evidence.others", args: { n: others.length } }),
    list(others, quoted.length + near.length + 1),
  );
  return element("section", {}, element("h3", { word: run.result ? "evidence" : "evidence.sofar" }), legend(all),
    quoted.length > 0 && element("h4", { class: "quoted", word: "evidence.quoted" }), list(quoted, 1),
    run.result && near.length > 0 && element("h4", { class: "near", word: "evidence.near" }), list(near, quoted.length + 1),
    rest);
}

function row(item, rank, scale, show) {
  const { message } = item;
  const score = item.explanation && element("details", { class: "score" },
    element("summary", { label: "score.open", args: { n: rank } }, scoreBar(item, scale),
      element("output", { text: (item.score ?? 0).toFixed(2) })),
    figures(item),
  );
  return element("li", { "data-message": message.messageId, class: message.retractedBy && "retracted" },
    element("span", { class: "rank", text: rank }), element("div", {}, messageButton(message, { show, chars: 300 }), score));
}

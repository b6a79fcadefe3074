// The evidence of a recall with score bars: first the cited messages, then the other messages.
import { element } from "./element.js";
import { messageButton } from "./message.js";
import { figures, legend, scaleOf, scoreBar } from "./score_bar.js";

export function evidenceList(run, { show }) {
  const { quoted, near, others } = run.evidence;
  const all = [...quoted, ...near, ...others];
  if (!all.length) return null;
  const scale = scaleOf(all);
  const list = (items, from) => items.length > 0 &&
    element("ol", { class: "evidence-list" }, items.map((item, index) => row(item, from + index, scale, show)));
  const rest = others.length > 0 && element("details", { class: "others" },
    element("summary", { word: "evidence.unused", args: { n: others.length } }),
    list(others, quoted.length + near.length + 1),
  );
  return element("section", {}, element("h3", { word: run.result ? "evidence" : "evidence.so_far" }), legend(all),
    quoted.length > 0 && element("h4", { class: "quoted", word: "evidence.cited" }), list(quoted, 1),
    run.result && near.length > 0 && element("h4", { class: "near", word: "evidence.uncited" }), list(near, quoted.length + 1),
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

// The evidence of a recall with score bars, in the order of the scores. Messages that the answer quotes are marked.
import { element } from "./element.js";
import { messageButton } from "./message.js";
import { figures, legend, scaleOf, scoreBar } from "./score_bar.js";

export function evidenceList(run, { show }) {
  const { used, others, cited } = run.evidence;
  const all = [...used, ...others];
  if (!all.length) return null;
  const scale = scaleOf(all);
  const list = (items, from) =>
    element("ol", { class: "evidence-list" }, items.map((item, index) => row(item, from + index, { scale, cited, show })));
  const rest = others.length > 0 && element("details", { class: "others" },
    element("summary", { word: "evidence.unused", args: { n: others.length } }), list(others, used.length + 1));
  return element("section", {}, element("h3", { word: title(run) }), legend(all), used.length > 0 && list(used, 1), rest);
}

function title({ result }) {
  if (!result) return "evidence.so_far";
  return result.verdict === "VERDICT_INSUFFICIENT" ? "evidence.nearest" : "evidence";
}

function row(item, rank, { scale, cited, show }) {
  const { message } = item;
  const isCited = cited.has(message.messageId);
  const score = item.explanation && element("details", { class: "score" },
    element("summary", { label: "score.open", args: { n: rank }, tip: "score.tip" }, scoreBar(item, scale),
      element("output", { text: (item.score ?? 0).toFixed(2) })),
    figures(item),
  );
  const about = [isCited && element("span", { class: "cited", word: "evidence.cited" }), !score && element("span", { word: "evidence.unscored" })];
  return element("li", { "data-message": message.messageId, class: message.retractedBy && "retracted" },
    element("span", { class: "rank", text: rank }), element("div", {}, messageButton(message, { show, chars: 300, about }), score));
}

// The messages that a recall found, best first, with what their scores are made of.
import { element } from "./element.js";
import { roleOf } from "./speaker.js";
import { beginning } from "./spans.js";
import { figures, legend, scaleOf, scoreBar } from "./score_bar.js";

export function evidenceList(run, { show }) {
  const { chosen, others } = run.evidence;
  const all = [...chosen, ...others];
  if (!all.length) return null;
  const scale = scaleOf(all);
  const rows = (items, from) => items.map((item, place) => row(item, from + place, scale, show));
  const title = run.result ? "evidence" : "evidence.sofar";
  const list = element("ol", { class: "evidence-list" }, rows(chosen, 1));
  const rest = others.length && element("details", { class: "others" },
    element("summary", { word: "evidence.others", args: { n: others.length } }),
    element("ol", { class: "evidence-list" }, rows(others, chosen.length + 1)),
  );
  return element("section", {}, element("h3", { word: title, args: { n: chosen.length } }), legend(all), list, rest);
}

function row(item, rank, scale, show) {
  const { message } = item;
  const who = message.name ? { text: message.name } : { word: `role.${roleOf(message)}` };
  const place = element("button", { type: "button", class: "place", on: { click: () => show(message) } },
    element("span", { class: "text", text: beginning(message.content ?? "", 300) }),
    element("span", { class: "by" }, element("span", who), element("time", { moment: message.ts })),
  );
  const score = item.explanation && element("details", { class: "score" },
    element("summary", { label: "score.open", args: { n: rank } }, scoreBar(item, scale),
      element("output", { text: (item.score ?? 0).toFixed(2) })),
    figures(item),
  );
  return element("li", { "data-message": message.messageId, class: message.retractedBy && "retracted" },
    element("span", { class: "rank", text: rank }), element("div", {}, place, score));
}

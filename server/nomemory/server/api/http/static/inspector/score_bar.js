// A score as a stacked bar. The components of the score are drawn as few groups, each with one color: positive values to the
// right of zero, penalties to the left.
import { element } from "./element.js";
import { word } from "./i18n.js";

// The groups in drawing order, with their components. Unknown components belong to the last group.
const GROUPS = {
  meaning: ["meaning"],
  words: ["words", "shared"],
  details: ["speaker", "concrete", "dates", "occasion"],
  context: ["answers", "around", "conversation", "retracts", "asks", "retracted"],
};
export const COMPONENTS = Object.values(GROUPS).flat();
const PENALTY = "penalty";
const DRAWN = [...Object.keys(GROUPS), PENALTY];

const figure = (value) => value.toFixed(2);

const groupOf = ({ name, value }) =>
  value < 0 ? PENALTY : Object.keys(GROUPS).find((group) => GROUPS[group].includes(name)) ?? "context";

// Return the common scale of all bars: the maximum length on both sides of zero.
export function scaleOf(items) {
  const parts = items.map((item) => item.explanation?.components ?? []);
  const maxSum = (sign) => Math.max(0, ...parts.map((part) => sum(part.map(({ value = 0 }) => Math.max(0, sign * value)))));
  return { above: maxSum(1) || 1, below: maxSum(-1) };
}

export function scoreBar(item, { above, below }) {
  const parts = grouped(item.explanation?.components ?? []);
  const whole = above + below;
  const bar = element("div", { class: "bar-of-score", role: "img" });
  bar.setAttribute("aria-label", parts.map(({ group, value }) => `${word(`group.${group}`)} ${figure(value)}`).join(", "));
  const side = (sign) => {
    const row = element("div", { class: sign > 0 ? "plus" : "minus" });
    row.style.width = `${((sign > 0 ? above : below) / whole) * 100}%`;
    for (const { group, value } of parts.filter((part) => sign * part.value > 0)) {
      const text = word(`group.${group}`);
      const piece = element("i", { class: `c-${group}`, title: `${text} ${figure(value)}: ${word(`group.${group}.about`)}` });
      piece.style.width = `${(Math.abs(value) / (sign > 0 ? above : below)) * 100}%`;
      piece.append(element("span", { class: sizeClass(text), text })); // visible if the piece is wide enough
      row.append(piece);
    }
    return row;
  };
  bar.append(...(below ? [side(-1), side(1)] : [side(1)]));
  return bar;
}

// Return a CSS class for the width of a name.
const sizeClass = (name) => (name.length <= 3 ? "short" : name.length <= 8 ? "middling" : "long");

// Return a legend of the used groups, with their explanations.
export function legend(items) {
  const used = new Set(items.flatMap((item) => (item.explanation?.components ?? []).filter(({ value }) => value).map(groupOf)));
  const groups = DRAWN.filter((group) => used.has(group));
  if (!groups.length) return null;
  return element("div", { class: "legend" },
    element("p", { word: "legend" }),
    element("dl", {}, groups.map((group) => element("div", {},
      element("dt", {}, element("i", { class: `c-${group}` }), element("span", { word: `group.${group}` })),
      element("dd", { word: `group.${group}.about` })))));
}

export function figures(item) {
  const { components = [], semanticScore = 0, coverage = 0 } = item.explanation ?? {};
  const rows = sorted(components).map((part) => [
    [element("i", { class: `c-${groupOf(part)}` }), element("span", { word: `component.${part.name}` })],
    figure(part.value), `about.${part.name}`,
  ]);
  const name = (key) => element("span", { word: `figures.${key}` });
  rows.push([name("sum"), figure(item.score ?? 0), "figures.sum.about"]);
  rows.push([name("cosine"), figure(semanticScore), "figures.cosine.about"]);
  rows.push([name("coverage"), figure(coverage), "figures.coverage.about"]);
  if (item.recallScore) rows.push([name("recall"), figure(item.recallScore), "figures.recall.about"]);
  return element("table", { class: "figures" }, rows.map(([title, value, about]) =>
    element("tr", {}, element("th", { scope: "row" }, title), element("td", { text: value }), element("td", { word: about }))));
}

// Return the sum of each group, in drawing order.
function grouped(components) {
  const sums = new Map(DRAWN.map((group) => [group, 0]));
  for (const part of components) sums.set(groupOf(part), sums.get(groupOf(part)) + (part.value ?? 0));
  return [...sums].map(([group, value]) => ({ group, value })).filter(({ value }) => value);
}

function sorted(components) {
  const order = ({ name }) => (COMPONENTS.includes(name) ? COMPONENTS.indexOf(name) : COMPONENTS.length);
  return components.filter(({ value }) => value).sort((a, b) => order(a) - order(b));
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

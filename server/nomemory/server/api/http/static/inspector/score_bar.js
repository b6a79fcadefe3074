// A score as a stacked bar of its components: positive components to the right of zero, negative ones to the left.
import { element } from "./element.js";
import { word } from "./i18n.js";

export const COMPONENTS = [
  "meaning", "words", "speaker", "concrete", "dates", "occasion", "answers", "asks", "around", "conversation",
  "shared", "retracts", "retracted",
];

const figure = (value) => value.toFixed(2);

// Return the common scale of all bars: the maximum length on both sides of zero.
export function scaleOf(items) {
  const parts = items.map((item) => item.explanation?.components ?? []);
  const maxSum = (sign) => Math.max(0, ...parts.map((part) => sum(part.map(({ value = 0 }) => Math.max(0, sign * value)))));
  return { above: maxSum(1) || 1, below: maxSum(-1) };
}

export function scoreBar(item, { above, below }) {
  const parts = sorted(item.explanation?.components ?? []);
  const whole = above + below;
  const bar = element("div", { class: "bar-of-score", role: "img" });
  bar.setAttribute("aria-label", parts.map(({ name, value }) => `${word(`component.${name}`)} ${figure(value)}`).join(", "));
  const side = (sign) => {
    const row = element("div", { class: sign > 0 ? "plus" : "minus" });
    row.style.width = `${((sign > 0 ? above : below) / whole) * 100}%`;
    for (const { name, value } of parts.filter((part) => sign * part.value > 0)) {
      const piece = element("i", { class: `c-${COMPONENTS.includes(name) ? name : "other"}` });
      piece.style.width = `${(Math.abs(value) / (sign > 0 ? above : below)) * 100}%`;
      piece.title = `${word(`component.${name}`)} ${figure(value)}: ${word(`about.${name}`)}`;
      const text = word(`component.${name}`);
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

// Return a legend of the components. If opened, it explains them.
export function legend(items) {
  const used = new Set(items.flatMap((item) => (item.explanation?.components ?? []).map(({ name }) => name)));
  const names = COMPONENTS.filter((name) => used.has(name));
  if (!names.length) return null;
  const named = (name) => [element("i", { class: `c-${name}` }), element("span", { word: `component.${name}` })];
  return element("details", { class: "legend" },
    element("summary", {}, names.map((name) => element("span", {}, named(name)))),
    element("dl", {}, names.map((name) => [element("dt", {}, named(name)), element("dd", { word: `about.${name}` })])));
}

export function figures(item) {
  const { components = [], semanticScore = 0, coverage = 0 } = item.explanation ?? {};
  const rows = sorted(components).map(({ name, value }) => [{ word: `component.${name}` }, figure(value), `about.${name}`]);
  rows.push([{ word: "figures.sum" }, figure(item.score ?? 0), "figures.sum.about"]);
  rows.push([{ word: "figures.cosine" }, figure(semanticScore), "figures.cosine.about"]);
  rows.push([{ word: "figures.coverage" }, figure(coverage), "figures.coverage.about"]);
  if (item.recallScore) rows.push([{ word: "figures.recall" }, figure(item.recallScore), "figures.recall.about"]);
  return element("table", { class: "figures" }, rows.map(([name, value, about]) =>
    element("tr", {}, element("th", { scope: "row", ...name }), element("td", { text: value }), element("td", { word: about }))));
}

function sorted(components) {
  const order = ({ name }) => (COMPONENTS.includes(name) ? COMPONENTS.indexOf(name) : COMPONENTS.length);
  return components.filter(({ value }) => value).sort((a, b) => order(a) - order(b));
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

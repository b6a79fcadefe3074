// The page's own words, in the language of whoever looks. An element says by `data-word` what stands in it, by
// `data-label` its name for screen readers, by `data-hint` its placeholder, and by `data-moment` a time.
import { dayAndTime } from "./moment.js";
import { ENGLISH } from "./words/en.js";
import { CHINESE } from "./words/zh.js";

const KEPT_AS = "nomemory-language";
const LANGUAGES = { en: ENGLISH, zh: CHINESE };
const changed = new EventTarget();

let current = first();

function first() {
  const kept = localStorage.getItem(KEPT_AS);
  if (kept in LANGUAGES) return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export const language = () => current;

// A text that differs by how many (`n`) has a form for each of its language's plurals.
export function word(name, args = {}) {
  const known = LANGUAGES[current][name] ?? ENGLISH[name] ?? name;
  const text = typeof known === "string" ? known : known[plural(args.n)] ?? known.other;
  return text.replace(/\{(\w+)\}/g, (_, key) => shown(args[key] ?? ""));
}

function plural(many) {
  return new Intl.PluralRules(current).select(Number(many));
}

function shown(value) {
  return typeof value === "number" ? value.toLocaleString(current) : String(value);
}

export function translate(node) {
  const { word: name, args, label, hint, moment } = node.dataset;
  const given = args ? JSON.parse(args) : {};
  if (name) node.textContent = word(name, given);
  if (moment) node.textContent = dayAndTime(moment);
  if (label) node.setAttribute("aria-label", word(label, given));
  if (hint) node.setAttribute("placeholder", word(hint, given));
}

export function translateAll() {
  document.documentElement.lang = current === "zh" ? "zh-CN" : "en";
  document.title = word("title");
  document.querySelectorAll("[data-word], [data-label], [data-hint], [data-moment]").forEach(translate);
}

export function speak(chosen) {
  current = chosen;
  localStorage.setItem(KEPT_AS, chosen);
  translateAll();
  changed.dispatchEvent(new Event("change"));
}

export function onLanguage(listener) {
  changed.addEventListener("change", listener);
}

// Translations of the page. The attributes of an element have the keys of its strings: `data-word` for its text, `data-label`
// for its accessible name, `data-hint` for its placeholder, `data-tip` for its tooltip. `data-moment` has a timestamp to
// format, and `data-format` its format. All of them follow a change of the language.
import { moment } from "./dates.js";
import { ENGLISH } from "./strings/en.js";
import { CHINESE } from "./strings/zh.js";

const STORAGE_KEY = "nomemory-language";
const LANGUAGES = { en: ENGLISH, zh: CHINESE };
const changed = new EventTarget();

let current = initial();

function initial() {
  const stored = localStorage.getItem(STORAGE_KEY);
  if (stored in LANGUAGES) return stored;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export const language = () => current;

// Return a translated string. Strings with a plural have a form for each plural category of `n`.
export function word(name, args = {}) {
  const entry = LANGUAGES[current][name] ?? ENGLISH[name] ?? name;
  const text = typeof entry === "string" ? entry : entry[plural(args.n)] ?? entry.other;
  return text.replace(/\{(\w+)\}/g, (_, key) => formatted(args[key] ?? ""));
}

function plural(count) {
  return new Intl.PluralRules(current).select(Number(count));
}

function formatted(value) {
  return typeof value === "number" ? number(value) : String(value);
}

export const number = (value) => value.toLocaleString(current === "zh" ? "zh-CN" : "en");

export function translate(node) {
  const { word: name, args, label, hint, tip, moment: ts, format } = node.dataset;
  const values = args ? JSON.parse(args) : {};
  if (name) node.textContent = word(name, values);
  if (ts) node.textContent = moment(ts, format);
  if (label) node.setAttribute("aria-label", word(label, values));
  if (hint) node.setAttribute("placeholder", word(hint, values));
  if (tip) node.title = word(tip, values);
}

export function translateAll() {
  document.documentElement.lang = current === "zh" ? "zh-CN" : "en";
  document.title = word("title");
  document.querySelectorAll("[data-word], [data-label], [data-hint], [data-tip], [data-moment]").forEach(translate);
}

export function setLanguage(chosen) {
  current = chosen;
  localStorage.setItem(STORAGE_KEY, chosen);
  translateAll();
  changed.dispatchEvent(new Event("change"));
}

export function onLanguage(listener) {
  changed.addEventListener("change", listener);
}

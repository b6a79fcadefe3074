// Suggests questions that the messages of a user can answer: each asks for something that the user mentions repeatedly, such as
// a name, a title or, in Chinese, a word without function characters.
const MAX_QUESTIONS = 3;
const MIN_MESSAGES = 2;
const MIN_MESSAGES_OF_WORD = 3;
const MAX_CHARS = 1000; // of a message, so that long messages do not delay the page

const TITLE = /《[^《》]{2,12}》/gu;
// Words with a capital letter inside a sentence. At the beginning of a sentence, the capital letter means nothing.
const NAME = /(?<![\p{L}\p{N}])(?<!(?:^|[.!?…:;\n([]|["“”‘'*>|–—-])\s*)\p{Lu}[\p{L}\p{N}]*\p{Ll}[\p{L}\p{N}]+(?: \p{Lu}[\p{L}\p{N}]*\p{Ll}[\p{L}\p{N}]+)*/gu;
const LATIN = /\p{Script=Latin}/u;
const HAN = /^\p{Script=Han}{2,4}$/u;
// Characters of pronouns, particles, numerals, adverbs and times. A word that contains one of them is no subject of a question.
const FUNCTION_CHARACTERS = new Set(
  "一二三两几半不没别了着过我你您他她它们咱自己人这那哪谁什么怎多少可以能会要想就是还也又再才只但而且因为所如果虽然和跟或的地得个些点次种样第" +
  "上下前后里外来去回起出进到在从对把被让给用说看听做有好大小早晚今明昨日周时候分现最已经刚太很真觉知道哈嗯啊吧呢吗完定打问东",
);
const CALENDAR = new Set(
  [...Array(12).keys()].flatMap((index) => ["long", "short"].flatMap((style) => [
    new Date(2024, index, 1).toLocaleDateString("en", { month: style }),
    new Date(2024, 0, index + 1).toLocaleDateString("en", { weekday: style }),
  ])),
);

// Return up to three questions: the key and the arguments of a translated string.
export function suggestions(messages) {
  return topics(messages).slice(0, MAX_QUESTIONS).map((topic) => ({ word: "sample.about", args: { topic } }));
}

// Return what the user mentions repeatedly: names and titles first, then words, each by the number of messages.
export function topics(messages) {
  const texts = messages.filter(({ role, retractedBy }) => role === "ROLE_USER" && !retractedBy).map(({ content = "" }) => content.slice(0, MAX_CHARS));
  const named = counted(texts, (text) => [...text.matchAll(TITLE), ...text.matchAll(NAME)].map(([name]) => name), MIN_MESSAGES);
  const frequent = counted(texts, wordsOf, MIN_MESSAGES_OF_WORD);
  const distinct = [];
  for (const topic of [...named.filter((name) => !CALENDAR.has(name)), ...frequent]) {
    if (!distinct.some((other) => other.includes(topic) || topic.includes(other))) distinct.push(topic);
  }
  return distinct;
}

// Return the terms that enough texts contain, most frequent first; of equally frequent ones, the latest first.
function counted(texts, termsOf, least) {
  const last = new Map();
  texts.forEach((text, index) => termsOf(text).forEach((term) => last.set(term, index)));
  const counts = new Map([...last.keys()].map((term) => [term, texts.filter((text) => contains(text, term)).length]));
  return [...counts.keys()].filter((term) => counts.get(term) >= least)
    .sort((a, b) => counts.get(b) - counts.get(a) || last.get(b) - last.get(a));
}

// Return whether a text contains a term. Terms in Latin letters are whole words.
function contains(text, term) {
  for (let at = text.indexOf(term); at >= 0; at = text.indexOf(term, at + 1)) {
    if (!LATIN.test(text[at - 1] ?? "") && !LATIN.test(text[at + term.length] ?? "") || !LATIN.test(term)) return true;
  }
  return false;
}

function wordsOf(text) {
  if (!/\p{Script=Han}/u.test(text)) return [];
  const segments = new Intl.Segmenter("zh", { granularity: "word" }).segment(text);
  return [...segments].map(({ segment }) => segment)
    .filter((segment) => HAN.test(segment) && !Array.from(segment).some((character) => FUNCTION_CHARACTERS.has(character)));
}

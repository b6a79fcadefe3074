// Puts the page together.
import { address } from "./address.js";
import { Comparison } from "./comparison.js";
import { serverInfo } from "./contract.js";
import { credential } from "./credential.js";
import { byId, element } from "./element.js";
import { Key } from "./key.js";
import { language, onLanguage, speak, translate, translateAll, word } from "./language.js";
import { RecallPane } from "./recall_pane.js";
import { ServerState } from "./server_state.js";
import { Tabs } from "./tabs.js";
import { Talk } from "./talk.js";
import { next, theme, wear } from "./theme.js";
import { Users } from "./users.js";

const NOTICE_MS = 8000;
let user = "";
let own = ""; // the one user whom a user's token reads

const say = (name, args) => (byId("live").textContent = word(name, args));

// Tell of what went wrong where nothing else shows it.
function notice(name, args) {
  byId("notice").textContent = word(name, args);
  byId("notice").hidden = false;
  setTimeout(() => (byId("notice").hidden = true), NOTICE_MS);
}

function failed(error, { isShown = false } = {}) {
  if (error.isOfCredentials && !credential.isLocal) key.open();
  else if (!isShown) notice("live.failed", { why: error.message });
  if (!error.code) throw error; // a fault of this page
}

async function show(message, spans) {
  tabs.showTalk();
  if (!(await talk.show(message, spans))) notice("live.gone");
}

// Look at a user: all panes do at once, so none asks about another one than the address says.
function look(chosen) {
  user = chosen;
  address.note(user);
  byId("user").replaceChildren(element("span", user ? { text: user } : { word: "users.choose" }));
  if (user) users.close();
  for (const part of [talk, recall, comparison, state]) part.of(user);
}

async function follow(asked) {
  const wanted = own || asked;
  address.note(wanted, { isSame: true });
  if (wanted !== user) look(wanted);
  if (!user) await users.open();
}

async function begin() {
  try {
    const { caller, skills = [] } = await serverInfo();
    own = caller?.userId ?? "";
    byId("user").disabled = Boolean(own);
    for (const { form } of [recall, comparison]) form.offer(skills);
    const first = own || address.user;
    address.note(first, { isSame: true });
    look(first);
    if (!user) await users.open();
  } catch (error) {
    failed(error);
  }
}

function skip(event) {
  event.preventDefault(); // the address stays as it is
  if (!recall.form.question.checkVisibility()) tabs.choose("recall");
  recall.form.question.focus();
}

function labelTools() {
  byId("language").textContent = language() === "zh" ? "English" : "中文";
  byId("language").lang = language() === "zh" ? "en" : "zh-CN";
  Object.assign(byId("theme").dataset, { label: `theme.${theme()}`, now: theme() });
  translate(byId("theme"));
  byId("theme").title = byId("theme").ariaLabel;
}

const talk = new Talk(byId("talk"), { failed });
const recall = new RecallPane(byId("recall"), { show, point: (messages) => talk.line.point(messages), say, failed });
const comparison = new Comparison(byId("compare"), { show, say, failed });
const state = new ServerState(byId("state"), { show, failed });
const users = new Users({ chosen: look, failed });
const key = new Key({ changed: begin });
const tabs = new Tabs({ chosen: (name) => state.watch(name === "state") });

wear(theme());
tabs.choose("recall");
byId("user").addEventListener("click", () => users.open());
byId("key").addEventListener("click", () => key.open());
byId("key").hidden = credential.isLocal;
byId("language").addEventListener("click", () => speak(language() === "zh" ? "en" : "zh"));
byId("theme").addEventListener("click", () => {
  wear(next());
  labelTools();
});
onLanguage(() => {
  labelTools();
  talk.refresh();
  recall.refresh();
});
translateAll();
labelTools();
document.querySelector(".skip").addEventListener("click", skip);
recall.form.question.value = credential.question;
address.onChange((asked) => follow(asked).catch(failed));
begin();

// Puts the page together.
import { Comparison } from "./comparison.js";
import { serverInfo } from "./contract.js";
import { credential, noteUser } from "./credential.js";
import { byId } from "./element.js";
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

function look(chosen) {
  user = chosen;
  noteUser(user);
  byId("user").textContent = user;
  delete byId("user").dataset.word;
  for (const part of [talk, recall, comparison, state]) part.of(user);
}

async function begin() {
  try {
    const { caller } = await serverInfo();
    const own = caller?.userId || user || credential.asked.user;
    byId("user").disabled = Boolean(caller?.userId); // a user's token reads that user only
    if (own) look(own);
    else await users.open();
  } catch (error) {
    failed(error);
  }
}

function labelTools() {
  byId("language").textContent = language() === "zh" ? "English" : "中文";
  byId("language").lang = language() === "zh" ? "en" : "zh-CN";
  byId("theme").dataset.word = `theme.${theme()}`;
  translate(byId("theme"));
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
byId("user").dataset.word = "users.choose";
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
recall.form.question.value = credential.asked.question;
begin();

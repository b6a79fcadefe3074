// Creates the panes and dialogs of the page and connects them.
import { address } from "./address.js";
import { Comparison } from "./comparison.js";
import { serverInfo } from "./contract.js";
import { credential } from "./credential.js";
import { byId, element } from "./element.js";
import { CredentialDialog } from "./credential_dialog.js";
import { language, onLanguage, setLanguage, translate, translateAll, word } from "./i18n.js";
import { RecallPane } from "./recall_pane.js";
import { ServerState } from "./server_state.js";
import { Tabs } from "./tabs.js";
import { MessagesPane } from "./messages_pane.js";
import { nextTheme, setTheme, theme } from "./theme.js";
import { UserDialog } from "./user_dialog.js";

const NOTICE_MS = 8000;
let user = "";
let boundUser = ""; // the user of a user token

const say = (name, args) => (byId("live").textContent = word(name, args));

// Show an error message for some seconds.
function notice(name, args) {
  byId("notice").textContent = word(name, args);
  byId("notice").hidden = false;
  setTimeout(() => (byId("notice").hidden = true), NOTICE_MS);
}

function failed(error, { isShown = false } = {}) {
  if (error.isOfCredentials) showKey(true);
  if (error.isOfCredentials && !credential.isLocal) credentialDialog.open();
  else if (!isShown) notice("live.failed", { why: error.message });
  if (!error.code) throw error; // a bug of this page
}

async function show(message, spans) {
  tabs.showMessages();
  if (!(await messagesPane.show(message, spans))) notice("live.deleted");
}

// Show a user in all panes.
function showUser(chosen) {
  user = chosen;
  address.setUser(user);
  byId("user").replaceChildren(element("span", user ? { text: user } : { word: "users.choose" }));
  if (user) users.close();
  for (const part of [messagesPane, recall, comparison, state]) part.of(user);
}

async function onUserInUrl(requested) {
  const next = boundUser || requested;
  address.setUser(next, { isSame: true });
  if (next !== user) showUser(next);
  if (!user) await users.open();
}

async function begin() {
  try {
    const { caller, skills = [], features = [] } = await serverInfo();
    boundUser = caller?.userId ?? "";
    byId("user").disabled = Boolean(boundUser);
    for (const { form } of [recall, comparison]) form.setSkills(skills);
    tabs.offer("compare", skills.length > 1);
    showKey(features.includes("authentication"));
    const first = boundUser || address.user;
    address.setUser(first, { isSame: true });
    showUser(first);
    if (!user) await users.open();
    else if (hasQuestion) focusQuestion();
  } catch (error) {
    failed(error);
  }
}

// Offer to enter a credential only if the server checks it.
function showKey(isChecked) {
  byId("key").hidden = credential.isLocal || !isChecked;
}

function focusQuestion() {
  if (!recall.form.question.checkVisibility()) tabs.choose("recall");
  recall.form.focus();
}

function skip(event) {
  event.preventDefault(); // keeps the URL
  focusQuestion();
}

function labelTools() {
  byId("language").textContent = language() === "zh" ? "English" : "中文";
  byId("language").lang = language() === "zh" ? "en" : "zh-CN";
  Object.assign(byId("theme").dataset, { label: `theme.${theme()}`, now: theme() });
  translate(byId("theme"));
  byId("theme").title = byId("theme").ariaLabel;
}

const messagesPane = new MessagesPane(byId("messages"), { failed, loaded: (messages) => recall.suggest(messages) });
const recall = new RecallPane(byId("recall"), { show, highlight: (messages) => messagesPane.timeline.highlight(messages), say, failed });
const comparison = new Comparison(byId("compare"), { show, say, failed });
const state = new ServerState(byId("state"), { show, failed });
const users = new UserDialog({ chosen: showUser, failed });
const credentialDialog = new CredentialDialog({ changed: begin });
const tabs = new Tabs({ chosen: (name) => state.watch(name === "state") });

setTheme(theme());
tabs.choose("recall");
tabs.offer("compare", false);
byId("user").addEventListener("click", () => users.open());
byId("key").addEventListener("click", () => credentialDialog.open());
byId("language").addEventListener("click", () => setLanguage(language() === "zh" ? "en" : "zh"));
byId("theme").addEventListener("click", () => {
  setTheme(nextTheme());
  labelTools();
});
onLanguage(() => {
  labelTools();
  for (const part of [messagesPane, recall, users]) part.refresh();
});
translateAll();
labelTools();
document.querySelector(".skip").addEventListener("click", skip);
recall.form.question.value = credential.question;
const hasQuestion = credential.question !== "";
address.onChange((requested) => onUserInUrl(requested).catch(failed));
begin();

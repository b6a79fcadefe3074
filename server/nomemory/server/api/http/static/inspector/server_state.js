// The pane with the status of the message log, the indexes, the embedder and the server. Technical details are collapsed.
import { getMessages, indexStatus, serverInfo } from "./contract.js";
import { element } from "./element.js";
import { failure } from "./verdict.js";

const REFRESH_MS = 4000;

export class ServerState {
  #user = "";
  #timer = 0;
  #lastStatus = "";

  constructor(pane, { show, failed }) {
    Object.assign(this, { pane, show, failed });
    this.whole = element("input", { type: "checkbox", id: "whole", on: { change: () => this.#load() } });
    this.cards = element("div", { class: "cards" });
    const choice = element("label", { class: "choice" }, this.whole, element("span", { word: "state.all_users" }));
    pane.append(element("div", { class: "head" }, element("h2", { class: "unseen", word: "state" }), choice), this.cards);
  }

  of(user) {
    this.#user = user;
    this.whole.checked = !user;
  }

  // Refresh periodically while the pane is visible.
  watch(isVisible) {
    clearTimeout(this.#timer);
    if (isVisible) this.#load();
  }

  async #load() {
    clearTimeout(this.#timer);
    try {
      const userId = this.whole.checked ? "" : this.#user;
      const [status, info] = await Promise.all([indexStatus({ userId }), serverInfo()]);
      this.#draw(status, info);
    } catch (error) {
      this.#lastStatus = "";
      this.cards.replaceChildren(failure(error));
      this.failed(error, { isShown: true });
      return;
    }
    if (this.pane.checkVisibility()) this.#timer = setTimeout(() => this.#load(), REFRESH_MS);
  }

  #draw(status, info) {
    const current = JSON.stringify([status, { ...info, readLoad: undefined }]);
    if (current === this.#lastStatus) return; // keep the DOM, with the user's selection
    this.#lastStatus = current;
    const faults = status.faults ?? [];
    this.cards.replaceChildren(...[
      faultsCard(faults),
      logCard(status.log ?? {}, !this.whole.checked),
      this.#indexCard("state.lexical", status.lexical),
      this.#indexCard("state.vector", status.vector, status.embedder),
      status.nextVector && this.#indexCard("state.next_vector", status.nextVector, status.nextEmbedder),
      serverCard(info),
    ].filter(Boolean));
  }

  #indexCard(name, index = {}, embedder) {
    const [pending, deadLetters] = [Number(index.pending ?? 0), Number(index.deadLetters ?? 0)];
    const state = index.error ? "bad" : pending ? "busy" : "good";
    const ids = index.deadLetterMessageIds ?? [];
    return card(name, state, [
      [{ word: "state.progress" }, pending ? { word: "state.pending", args: { n: pending } } : { word: "state.up_to_date" }],
      deadLetters > 0 && [{ word: "state.dead_letters" }, { word: "state.dead_letters.about", args: { n: deadLetters } }],
      embedder && [{ word: "state.embedder" }, { word: embedderKey(embedder), args: { model: embedder.model ?? "", n: embedder.dimension ?? 0 } }],
      index.error && [{ word: "state.fault" }, ofKind(index.error)],
      index.errorTs && [{ word: "state.since" }, { moment: index.errorTs }],
      index.notice && [{ word: "state.notice" }, { text: index.notice, lang: "en" }],
    ], ids.length > 0 && element("ul", { class: "dead-letters" }, ids.map((id) => element("li", {},
      element("button", { type: "button", class: "link", text: id, on: { click: () => this.#open(id) } })))),
    details("state.technical", [
      index.name && [{ word: "state.index" }, { text: index.name }],
      index.checkpoint && [{ word: "state.checkpoint" }, { word: "state.checkpoint.about", args: { change: Number(index.checkpoint) } }],
    ]));
  }

  async #open(messageId) {
    const { items = [] } = await getMessages({ userId: this.#user, messageIds: [messageId] });
    if (items.length) this.show(items[0]);
  }
}

const KINDS = new Set([
  "UNRESPONSIVE", "MEMORY_LIMIT_EXCEEDED", "UNREACHABLE", "INDEX_INCONSISTENT", "ERASURE_BLOCKED", "TIMEOUT",
  "CREDENTIALS_REJECTED", "RATE_LIMITED", "ERROR_STATUS", "INVALID_RESPONSE", "INVALID_OUTPUT",
]);
const FAULTY = new Set([
  "MESSAGE_LOG", "LEXICAL_INDEXER", "VECTOR_ENGINE", "VECTOR_INDEX", "QDRANT", "QUERY_EMBEDDER", "DOCUMENT_EMBEDDER", "ERASURE",
  "CHAT_MODEL",
]);

const nameOf = (value = "", prefix = "") => value.replace(prefix, "").toLowerCase().replaceAll("_", " ");

const ofKind = (kind) => (KINDS.has(kind) ? { word: `fault.${kind.toLowerCase()}` } : { text: kind });

function ofComponent(component = "") {
  const name = component.replace("COMPONENT_", "");
  return FAULTY.has(name) ? { word: `faulty.${name.toLowerCase()}` } : { text: nameOf(name) };
}

// Return the list of active faults: the translated component and kind, and the detail from the server.
export function faultsCard(faults) {
  if (!faults.length) return element("p", { class: "calm", word: "state.no_faults" });
  return element("ul", { class: "faults" }, faults.map((fault) => element("li", {},
    element("strong", {}, element("span", ofComponent(fault.component)), ": ", element("span", ofKind((fault.kind ?? "").replace("FAULT_KIND_", "")))),
    element("p", { text: fault.detail ?? "", lang: "en" }))));
}

function logCard(log, isOfUser) {
  const damaged = Number(log.damaged ?? 0);
  return card("state.log", log.error || damaged ? "bad" : "good", [
    [{ word: "state.content" }, { word: "state.messages", args: { n: Number(log.messages ?? 0) } }],
    !isOfUser && [{ word: "users" }, count(Number(log.users ?? 0))],
    damaged > 0 && [{ word: "state.damaged" }, count(damaged)],
    log.error && [{ word: "state.fault" }, { text: log.error, lang: "en" }],
    log.checkTs && [{ word: "state.checked" }, { moment: log.checkTs }],
  ]);
}

function serverCard(info) {
  const limits = Object.entries(info.limits ?? {}).map(([name, value]) => [
    LIMITS.has(name) ? { word: `limit.${name}` } : { text: name },
    name.endsWith("Bytes") ? bytes(Number(value)) : count(Number(value)),
  ]);
  const scopes = info.caller?.scopes ?? [];
  return card("state.server", "good", [
    [{ word: "state.version" }, { text: info.version }],
    info.caller?.userId && [{ word: "state.caller" }, { text: info.caller.userId }],
    scopes.length > 0 && [{ word: "state.scopes" }, list(scopes, "scope", SCOPES)],
    [{ word: "state.features" }, list(info.features ?? [], "feature", FEATURES)],
  ], details("state.limits", limits));
}

const LIMITS = new Set([
  "maxRequestBytes", "maxContentBytes", "maxBatchMessages", "maxPageSize", "maxQueryChars", "maxTopK", "maxTurns",
  "maxInflightReadsPerUser", "maxInflightReadsPerCaller",
]);
const SCOPES = new Set(["ingest", "query", "recall", "admin", "act-as"]);
const FEATURES = new Set(["recall", "query", "ingest", "semantic_search_text", "recall_model", "authentication", "retention"]);
const EMBEDDERS = new Set(["none", "local", "openai", "plugin"]);
const UNITS = ["b", "kib", "mib", "gib"];

const count = (n) => ({ word: "count", args: { n } });

// Return a number of bytes in the largest unit that keeps it at least 1.
export function bytes(value) {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, value)) / 10));
  return { word: `bytes.${UNITS[power]}`, args: { n: Math.round((value / 1024 ** power) * 10) / 10 } };
}

function embedderKey({ kind }) {
  const name = nameOf(kind, "EMBEDDER_KIND_");
  return EMBEDDERS.has(name) ? `embedder.${name}` : "embedder.plugin";
}

// Return a list of names: the translated ones, and unknown ones as they are.
function list(names, prefix, known) {
  return element("ul", { class: "names" }, names.map((name) => element("li", known.has(name) ? { word: `${prefix}.${name}` } : { text: name })));
}

function rowsOf(rows) {
  return element("dl", {}, rows.filter(Boolean).map(([term, value]) =>
    [element("dt", term), value instanceof Node ? element("dd", {}, value) : element("dd", value)]));
}

function details(name, rows) {
  const shown = rows.filter(Boolean);
  return shown.length > 0 && element("details", { class: "technical" }, element("summary", { word: name }), rowsOf(shown));
}

function card(name, state, rows, ...more) {
  return element("article", { class: `state-card ${state}` },
    element("h3", {}, element("i", { class: "light", role: "img", label: `light.${state}` }), element("span", { word: name })),
    rowsOf(rows), more);
}

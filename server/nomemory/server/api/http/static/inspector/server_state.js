// The pane with the status of the message log, the indexes, the embedder and the server.
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
      logCard(status.log ?? {}),
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
      [{ word: "state.pending" }, pending],
      [{ word: "state.dead_letters" }, deadLetters],
      index.checkpoint && [{ word: "state.checkpoint" }, Number(index.checkpoint)],
      [{ word: "state.index" }, index.name ?? "–"],
      embedder && [{ word: "state.embedder" }, [nameOf(embedder.kind, "EMBEDDER_KIND_"), embedder.model].filter(Boolean).join(" · ")],
      index.error && [{ word: "state.fault" }, ofKind(index.error)],
      index.errorTs && [{ word: "state.since" }, { moment: index.errorTs }],
      index.notice && [{ word: "state.notice" }, { text: index.notice, lang: "en" }],
    ], ids.length > 0 && element("ul", { class: "dead-letters" }, ids.map((id) => element("li", {},
      element("button", { type: "button", class: "link", text: id, on: { click: () => this.#open(id) } })))));
  }

  async #open(messageId) {
    const { items = [] } = await getMessages({ userId: this.#user, messageIds: [messageId] });
    if (items.length) this.show(items[0]);
  }
}

const KINDS = new Set(["UNRESPONSIVE", "MEMORY_LIMIT_EXCEEDED", "UNREACHABLE", "INDEX_INCONSISTENT", "ERASURE_BLOCKED"]);

const nameOf = (value = "", prefix = "") => value.replace(prefix, "").toLowerCase().replaceAll("_", " ");

const ofKind = (kind) => (KINDS.has(kind) ? { word: `fault.${kind.toLowerCase()}` } : { text: kind });

// Return the list of active faults: the translated kind, and the detail from the server.
export function faultsCard(faults) {
  if (!faults.length) return element("p", { class: "calm", word: "state.no_faults" });
  return element("ul", { class: "faults" }, faults.map((fault) => element("li", {},
    element("strong", {}, `${nameOf(fault.component, "COMPONENT_")}: `, element("span", ofKind((fault.kind ?? "").replace("FAULT_KIND_", "")))), element("p", { text: fault.detail ?? "", lang: "en" }))));
}

function logCard(log) {
  const damaged = Number(log.damaged ?? 0);
  return card("state.log", log.error || damaged ? "bad" : "good", [
    [{ word: "state.messages" }, Number(log.messages ?? 0)],
    [{ word: "state.users" }, Number(log.users ?? 0)],
    damaged && [{ word: "state.damaged" }, damaged],
    log.error && [{ word: "state.fault" }, { text: log.error, lang: "en" }],
    log.checkTs && [{ word: "state.checked" }, { moment: log.checkTs }],
  ]);
}

function serverCard(info) {
  const limits = Object.entries(info.limits ?? {}).map(([name, value]) => `${name} ${Number(value).toLocaleString()}`);
  return card("state.server", "good", [
    [{ word: "state.version" }, info.version],
    [{ word: "state.features" }, (info.features ?? []).join(" · ")],
    info.caller?.userId && [{ word: "state.caller" }, info.caller.userId],
    [{ word: "state.scopes" }, (info.caller?.scopes ?? []).join(" · ") || "–"],
    [{ word: "state.limits" }, limits.join(" · ")],
  ]);
}

function card(name, state, rows, more) {
  const shown = (value) => (typeof value === "object" ? value : { text: typeof value === "number" ? value.toLocaleString() : value });
  return element("article", { class: `state-card ${state}` },
    element("h3", {}, element("i", { class: "light", role: "img", label: `light.${state}` }), element("span", { word: name })),
    element("dl", {}, rows.filter(Boolean).map(([term, value]) => [element("dt", term), element("dd", shown(value))])), more);
}

// The state of the server: log, indexes, backlog, parked texts, embedder, faults, and what the server is.
import { getMessages, indexStatus, serverInfo } from "./contract.js";
import { element } from "./element.js";
import { failure } from "./verdict.js";

const AGAIN_MS = 4000;

export class ServerState {
  #user = "";
  #timer = 0;
  #said = "";

  constructor(pane, { show, failed }) {
    Object.assign(this, { pane, show, failed });
    this.whole = element("input", { type: "checkbox", id: "whole", on: { change: () => this.#load() } });
    this.cards = element("div", { class: "cards" });
    const choice = element("label", { class: "choice" }, this.whole, element("span", { word: "state.whole" }));
    pane.append(element("div", { class: "head" }, element("h2", { class: "unseen", word: "state" }), choice), this.cards);
  }

  of(user) {
    this.#user = user;
    this.whole.checked = !user;
  }

  // Look again and again while the pane is seen.
  watch(isSeen) {
    clearTimeout(this.#timer);
    if (isSeen) this.#load();
  }

  async #load() {
    clearTimeout(this.#timer);
    try {
      const userId = this.whole.checked ? "" : this.#user;
      const [status, info] = await Promise.all([indexStatus({ userId }), serverInfo()]);
      this.#draw(status, info);
    } catch (error) {
      this.#said = "";
      this.cards.replaceChildren(failure(error));
      this.failed(error, { isShown: true });
      return;
    }
    if (this.pane.checkVisibility()) this.#timer = setTimeout(() => this.#load(), AGAIN_MS);
  }

  #draw(status, info) {
    const said = JSON.stringify([status, { ...info, reads: undefined }]);
    if (said === this.#said) return; // what somebody reads or has marked stays as it is
    this.#said = said;
    const faults = status.faults ?? [];
    this.cards.replaceChildren(...[
      faultsCard(faults),
      logCard(status.log ?? {}),
      this.#indexCard("state.lexical", status.lexical),
      this.#indexCard("state.vector", status.vector, status.embedder),
      status.nextVector && this.#indexCard("state.coming", status.nextVector, status.nextEmbedder),
      serverCard(info),
    ].filter(Boolean));
  }

  #indexCard(name, index = {}, embedder) {
    const [pending, parked] = [Number(index.pending ?? 0), Number(index.parked ?? 0)];
    const state = index.fault ? "bad" : pending ? "busy" : "good";
    const ids = index.deadLetterMessageIds ?? [];
    return card(name, state, [
      [{ word: "state.behind" }, pending],
      [{ word: "state.parked" }, parked],
      index.checkpoint && [{ word: "state.checkpoint" }, Number(index.checkpoint)],
      [{ word: "state.index" }, index.name ?? "–"],
      embedder && [{ word: "state.embedder" }, [embedder.kind, embedder.model].filter(Boolean).join(" · ")],
      index.fault && [{ word: "state.fault" }, ofKind(index.fault)],
      index.errorTs && [{ word: "state.since" }, { moment: index.errorTs }],
      index.notice && [{ word: "state.notice" }, { text: index.notice, lang: "en" }],
    ], ids.length > 0 && element("ul", { class: "parked" }, ids.map((id) => element("li", {},
      element("button", { type: "button", class: "link", text: id, on: { click: () => this.#open(id) } })))));
  }

  async #open(messageId) {
    const { items = [] } = await getMessages({ userId: this.#user, messageIds: [messageId] });
    if (items.length) this.show(items[0]);
  }
}

const KINDS = new Set(["UNRESPONSIVE", "MEMORY_LIMIT_EXCEEDED", "UNREACHABLE", "INDEX_INCONSISTENT", "ERASURE_BLOCKED"]);

const ofKind = (kind) => (KINDS.has(kind) ? { word: `fault.${kind.toLowerCase()}` } : { text: kind });

// What is at fault, in the page's language; the details in the server's words.
export function faultsCard(faults) {
  if (!faults.length) return element("p", { class: "calm", word: "state.calm" });
  return element("ul", { class: "faults" }, faults.map((fault) => element("li", {},
    element("strong", {}, `${fault.part}: `, element("span", ofKind(fault.kind))), element("p", { text: fault.detail ?? "", lang: "en" }))));
}

function logCard(log) {
  const damaged = Number(log.damaged ?? 0);
  return card("state.log", log.fault || damaged ? "bad" : "good", [
    [{ word: "state.messages" }, Number(log.messages ?? 0)],
    [{ word: "state.users" }, Number(log.users ?? 0)],
    damaged && [{ word: "state.damaged" }, damaged],
    log.fault && [{ word: "state.fault" }, { text: log.fault, lang: "en" }],
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

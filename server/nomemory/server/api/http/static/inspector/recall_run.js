// One recall, from its question to its result, and what the scores behind it are made of: for each HybridSearch among
// its steps, the same search is asked once more with its explanation.
import { MOST_IDS, getMessages, searchHybrid, streamRecall } from "./contract.js";

const ROLES = { user: "ROLE_USER", assistant: "ROLE_ASSISTANT", system: "ROLE_SYSTEM", tool: "ROLE_TOOL" };

export class RecallRun extends EventTarget {
  #aborting = new AbortController();
  #messages = new Map(); // by their ids

  constructor(user, recall) {
    super();
    Object.assign(this, { user, recall, steps: [], found: new Map(), result: null, error: null, tookMs: 0 });
  }

  stop() {
    this.#aborting.abort();
  }

  async run() {
    const begun = performance.now();
    const explaining = [];
    try {
      for await (const { step, result } of streamRecall(this.recall, this.user, this.#aborting.signal)) {
        this.tookMs = performance.now() - begun;
        if (result) this.result = result;
        else this.steps.push(step);
        if (step?.tool === "hybrid_search") explaining.push(this.#explain(step.arguments));
        this.dispatchEvent(new Event(result ? "result" : "step"));
      }
    } catch (error) {
      this.error = error;
    }
    await Promise.all(explaining);
    this.dispatchEvent(new Event("over"));
  }

  // Return the messages of some ids that are there still, in their order.
  async messages(ids) {
    const absent = ids.filter((id) => !this.#messages.has(id)).slice(0, MOST_IDS);
    if (absent.length) {
      const { items = [] } = await getMessages({ userId: this.user, messageIds: absent }, this.#aborting.signal);
      this.#keep(items);
    }
    return ids.map((id) => this.#messages.get(id)).filter(Boolean);
  }

  #keep(messages) {
    for (const message of messages) this.#messages.set(message.messageId, message);
  }

  // What the scores are made of is shown beside a recall; where it cannot be had, the recall is shown without.
  async #explain(asked) {
    const { time_range: range, role, conversation_id: conversationId } = asked.filter ?? {};
    const filter = { timeRange: range, role: ROLES[role], conversationId };
    const request = { userId: this.user, queryText: asked.query_text, topK: asked.top_k, filter, explain: true };
    try {
      const { items = [] } = await searchHybrid(request, this.#aborting.signal);
      this.#keep(items.map(({ message }) => message));
      for (const item of items) {
        const former = this.found.get(item.message.messageId);
        if (!former || former.score < item.score) this.found.set(item.message.messageId, item);
      }
      this.dispatchEvent(new Event("explained"));
    } catch (error) {
      if (error.name !== "AbortError") this.dispatchEvent(new CustomEvent("unexplained", { detail: error }));
    }
  }

  // The messages, best first: of the evidence those that the memory view quotes and those that are only near, and those
  // that were left out; before there is a result, what has been found so far.
  get evidence() {
    const best = [...this.found.values()].sort((one, other) => other.score - one.score);
    if (!this.result) return { quoted: [], near: best, others: [] };
    const cited = citedBy(this.result);
    const chosen = (this.result.evidence ?? []).map(({ message, score }) => ({
      ...this.found.get(message.messageId), message, recallScore: score,
    }));
    const ids = new Set(chosen.map(({ message }) => message.messageId));
    return {
      quoted: chosen.filter(({ message }) => cited.has(message.messageId)),
      near: chosen.filter(({ message }) => !cited.has(message.messageId)),
      others: best.filter(({ message }) => !ids.has(message.messageId)),
    };
  }
}

function citedBy({ memoryView = {}, conflicts = [] }) {
  const stated = [...Object.values(memoryView).flat(), ...conflicts.flatMap(({ earlier, later }) => [earlier, later])];
  return new Set(stated.flatMap(({ citations = [] }) => citations.map(({ messageId }) => messageId)));
}

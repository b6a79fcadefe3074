// One recall, from its question to its result, and what the scores behind it are made of: for each HybridSearch among
// its steps, the same search is asked once more with its explanation.
import { searchHybrid, streamRecall } from "./contract.js";

const ROLES = { user: "ROLE_USER", assistant: "ROLE_ASSISTANT", system: "ROLE_SYSTEM", tool: "ROLE_TOOL" };

export class RecallRun extends EventTarget {
  #aborting = new AbortController();

  constructor(user, recall) {
    super();
    Object.assign(this, { user, recall, steps: [], found: new Map(), result: null, error: null, tookMs: 0 });
  }

  get isOver() {
    return Boolean(this.result || this.error);
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

  // What the scores are made of is shown beside a recall; where it cannot be had, the recall is shown without.
  async #explain(asked) {
    const { time_range: range, role, conversation_id: conversationId } = asked.filter ?? {};
    const filter = { timeRange: range, role: ROLES[role], conversationId };
    const request = { userId: this.user, queryText: asked.query_text, topK: asked.top_k, filter, explain: true };
    try {
      const { items = [] } = await searchHybrid(request, this.#aborting.signal);
      for (const item of items) {
        const former = this.found.get(item.message.messageId);
        if (!former || former.score < item.score) this.found.set(item.message.messageId, item);
      }
      this.dispatchEvent(new Event("explained"));
    } catch (error) {
      if (error.name !== "AbortError") this.dispatchEvent(new CustomEvent("unexplained", { detail: error }));
    }
  }

  // The messages, best first: the evidence, or, before there is a result, what has been found so far.
  get evidence() {
    const best = [...this.found.values()].sort((one, other) => other.score - one.score);
    if (!this.result) return { chosen: best, others: [] };
    const chosen = (this.result.evidence ?? []).map(({ message, score }) => ({
      ...this.found.get(message.messageId), message, recallScore: score,
    }));
    const ids = new Set(chosen.map(({ message }) => message.messageId));
    return { chosen, others: best.filter(({ message }) => !ids.has(message.messageId)) };
  }
}

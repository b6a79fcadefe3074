// Runs a recall. Each hybrid search of the recall is repeated with `explain`, to get the components of the scores.
import { MAX_IDS, getMessages, searchHybrid, streamRecall } from "./contract.js";

const ROLES = { user: "ROLE_USER", assistant: "ROLE_ASSISTANT", system: "ROLE_SYSTEM", tool: "ROLE_TOOL" };

export class RecallRun extends EventTarget {
  #aborting = new AbortController();
  #messages = new Map(); // by id

  constructor(user, recall) {
    super();
    Object.assign(this, { user, recall, steps: [], explained: new Map(), result: null, error: null, tookMs: 0 });
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

  // Return the messages with the given ids that still exist, in the order of the ids.
  async messages(ids) {
    const absent = ids.filter((id) => !this.#messages.has(id)).slice(0, MAX_IDS);
    if (absent.length) {
      const { items = [] } = await getMessages({ userId: this.user, messageIds: absent }, this.#aborting.signal);
      this.#keep(items);
    }
    return ids.map((id) => this.#messages.get(id)).filter(Boolean);
  }

  #keep(messages) {
    for (const message of messages) this.#messages.set(message.messageId, message);
  }

  // Get the components of the scores. If this fails, the recall is shown without them.
  async #explain(step) {
    const { time_range: range, role, conversation_id: conversationId } = step.filter ?? {};
    const filter = { timeRange: range, role: ROLES[role], conversationId };
    const request = { userId: this.user, queryText: step.query_text, topK: step.top_k, filter, explain: true };
    try {
      const { items = [] } = await searchHybrid(request, this.#aborting.signal);
      this.#keep(items.map(({ message }) => message));
      for (const item of items) {
        const previous = this.explained.get(item.message.messageId);
        if (!previous || previous.score < item.score) this.explained.set(item.message.messageId, item);
      }
      this.dispatchEvent(new Event("explained"));
    } catch (error) {
      if (error.name !== "AbortError") this.dispatchEvent(new CustomEvent("unexplained", { detail: error }));
    }
  }

  // Return the evidence and the other results, each in the order of the shown scores, and the ids of the cited messages. Before
  // the result, `used` has all results so far.
  get evidence() {
    const best = [...this.explained.values()].sort((a, b) => b.score - a.score);
    if (!this.result) return { used: best, others: [], cited: new Set() };
    const evidence = (this.result.evidence ?? []).map(({ message, score }) => ({
      ...this.explained.get(message.messageId), message, recallScore: score,
    }));
    const ids = new Set(evidence.map(({ message }) => message.messageId));
    return {
      used: evidence.sort(byScore),
      others: best.filter(({ message }) => !ids.has(message.messageId)),
      cited: citedBy(this.result),
    };
  }
}

// Messages without a score of the hybrid search, such as neighbors, come last.
const byScore = (a, b) => (b.score ?? -Infinity) - (a.score ?? -Infinity) || (b.recallScore ?? 0) - (a.recallScore ?? 0);

function citedBy({ memoryView = {}, conflicts = [] }) {
  const stated = [...Object.values(memoryView).flat(), ...conflicts.flatMap(({ earlier, later }) => [earlier, later])];
  return new Set(stated.flatMap(({ citations = [] }) => citations.map(({ messageId }) => messageId)));
}

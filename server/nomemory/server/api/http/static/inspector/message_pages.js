// The messages of a user by index, 0 is the oldest. Pages are loaded on demand, at any position: the number of messages before
// a time is the index of the first message from that time on.
import { countMessages, listMessages } from "./contract.js";

const PAGE = 100;
const NEAR = 2 * PAGE; // rows up to this distance from loaded rows are reached page by page
const NEWEST = "LIST_ORDER_NEWEST_FIRST";
const OLDEST = "LIST_ORDER_OLDEST_FIRST";

const at = (ms) => new Date(ms).toISOString();
const instant = (message) => Date.parse(message.ts);

export class MessagePages extends EventTarget {
  #rows = [];
  #ranges = []; // loaded ranges in order: start, end, and the requests for the pages before and after
  #requested = [0, 0];
  #loading = false;
  #closing = new AbortController();

  constructor(user) {
    super();
    this.user = user;
    this.count = 0;
    this.index = new Map(); // by message id
  }

  async open() {
    const [counted, newest, oldest] = await Promise.all([
      countMessages({ userId: this.user }, this.#signal),
      this.#list({ order: NEWEST }),
      this.#list({ order: OLDEST }),
    ]);
    this.count = Number(counted.count ?? 0);
    this.#keep(this.count - newest.items.length, newest.items.reverse(), newest.rest, null);
    this.#keep(0, oldest.items, null, oldest.rest);
  }

  close() {
    this.#closing.abort();
  }

  at(index) {
    return this.#rows[index];
  }

  // Return the messages that are loaded, oldest first.
  get loaded() {
    return this.#rows.filter(Boolean);
  }

  get first() {
    return this.#rows[0];
  }

  get last() {
    return this.#rows[this.count - 1];
  }

  // Load the rows of a range. It replaces the range of the previous call.
  async want(from, to) {
    this.#requested = [from, to];
    if (this.#loading) return;
    this.#loading = true;
    try {
      for (let missing = this.#firstMissing(); missing !== undefined; missing = this.#firstMissing()) {
        await this.#load(missing);
        this.dispatchEvent(new Event("loaded"));
      }
    } catch (error) {
      if (error.name !== "AbortError") this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    } finally {
      this.#loading = false;
    }
  }

  // Return the index of a message; undefined if it no longer exists.
  async indexOf({ messageId, ts }) {
    if (this.index.has(messageId)) return this.index.get(messageId);
    await this.#loadAt(ts);
    for (let range = this.#ranges.find((item) => this.#ends(item, ts)); range; range = this.#ranges.find((item) => this.#ends(item, ts)))
      await this.#loadNext(range);
    return this.index.get(messageId);
  }

  get #signal() {
    return this.#closing.signal;
  }

  // Return whether a range ends with messages of a timestamp, so that more of them may follow.
  #ends(range, ts) {
    return range.next && this.#rows[range.end - 1]?.ts === ts;
  }

  #firstMissing() {
    for (let index = this.#requested[0]; index < this.#requested[1]; index += 1) if (!this.#rows[index]) return index;
    return undefined;
  }

  async #load(index) {
    const below = this.#ranges.findLast((range) => range.end <= index);
    const above = this.#ranges.find((range) => range.start > index);
    const before = this.#ranges.length + this.#loaded();
    if (below?.next && index - below.end < NEAR) await this.#loadNext(below);
    else if (above?.prev && above.start - index <= NEAR) await this.#loadPrevious(above);
    else await this.#search(index, below, above);
    if (this.#ranges.length + this.#loaded() === before) this.#requested = [0, 0]; // the messages have changed in the meantime
  }

  #loaded() {
    return this.#ranges.reduce((sum, range) => sum + range.end - range.start, 0);
  }

  async #loadNext(range) {
    try {
      const page = await this.#list(range.next);
      this.#keep(range.end, page.items, null, page.rest);
    } catch (error) {
      if (!error.reason?.startsWith("ERROR_REASON_CURSOR")) throw error; // an expired cursor: start again at its position
      range.next = null;
      await this.#loadAt(this.#rows[range.end - 1].ts);
    }
  }

  async #loadPrevious(range) {
    const page = await this.#list(range.prev);
    this.#keep(range.start - page.items.length, page.items.reverse(), page.rest, null);
  }

  // Find the page of an index by interpolation search over time.
  async #search(index, below, above) {
    let low = { index: below.end - 1, ms: instant(this.#rows[below.end - 1]) };
    let high = { index: above.start, ms: instant(this.#rows[above.start]) };
    for (let guess = 0; high.ms - low.ms > 1 && !this.#rows[index]; guess += 1) {
      const share = guess % 3 === 2 ? 0.5 : (index - PAGE / 2 - low.index) / (high.index - low.index);
      const ms = Math.floor(low.ms + Math.min(0.98, Math.max(0.02, share)) * (high.ms - low.ms));
      const page = await this.#loadAt(at(ms));
      if (page.start > index) high = { index: page.start, ms };
      else low = { index: page.end - 1, ms: page.end > page.start ? instant(this.#rows[page.end - 1]) : ms };
    }
    if (this.#rows[index]) return;
    if (below.next) await this.#loadNext(below);
    else await this.#loadPrevious(above);
  }

  // Load the page that starts at a time.
  async #loadAt(ts) {
    const [counted, page] = await Promise.all([
      countMessages({ userId: this.user, filter: { timeRange: { until: ts } } }, this.#signal),
      this.#list({ order: OLDEST, filter: { timeRange: { since: ts } } }),
    ]);
    const start = Number(counted.count ?? 0);
    const before = { order: NEWEST, filter: { timeRange: { until: ts } } };
    this.#keep(start, page.items, before, page.rest);
    return { start, end: start + page.items.length };
  }

  // Return a page and the request for the next page.
  async #list(request) {
    const page = await listMessages({ userId: this.user, pageSize: PAGE, ...request }, this.#signal);
    return { items: page.items ?? [], rest: page.nextCursor ? { ...request, cursor: page.nextCursor } : null };
  }

  #keep(start, items, prev, next) {
    if (!items.length || start < 0) return;
    items.forEach((message, offset) => {
      this.#rows[start + offset] = message;
      this.index.set(message.messageId, start + offset);
    });
    const whole = { start, end: start + items.length, prev: start > 0 ? prev : null, next };
    const touching = this.#ranges.filter((range) => range.start <= whole.end && range.end >= whole.start);
    for (const range of touching) {
      if (range.start <= whole.start) [whole.start, whole.prev] = [range.start, range.prev];
      if (range.end >= whole.end) [whole.end, whole.next] = [range.end, range.next];
    }
    this.#ranges = [...this.#ranges.filter((range) => !touching.includes(range)), whole].sort((a, b) => a.start - b.start);
  }
}

// One user's messages by their place in time, 0 the oldest. Pages are loaded as they are looked at, wherever that is:
// the contract lists by time, and counts what was said before a time, so a page that begins at a time has a place.
import { countMessages, listMessages } from "./contract.js";

const PAGE = 100;
const NEAR = 2 * PAGE; // rows that are as near as this to loaded ones are reached page by page
const NEWEST = "LIST_ORDER_NEWEST_FIRST";
const OLDEST = "LIST_ORDER_OLDEST_FIRST";

const at = (ms) => new Date(ms).toISOString();
const instant = (message) => Date.parse(message.ts);

export class TalkLog extends EventTarget {
  #rows = [];
  #runs = []; // stretches that are loaded, in order: start, end, and where to go on from each of them
  #wanted = [0, 0];
  #loading = false;
  #closing = new AbortController();

  constructor(user) {
    super();
    this.user = user;
    this.count = 0;
    this.index = new Map(); // of a message's id
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

  get first() {
    return this.#rows[0];
  }

  get last() {
    return this.#rows[this.count - 1];
  }

  // Load what is between two places. What was wanted before and is not any more is left out.
  async want(from, to) {
    this.#wanted = [from, to];
    if (this.#loading) return;
    this.#loading = true;
    try {
      for (let hole = this.#hole(); hole !== undefined; hole = this.#hole()) {
        await this.#load(hole);
        this.dispatchEvent(new Event("loaded"));
      }
    } catch (error) {
      if (error.name !== "AbortError") this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    } finally {
      this.#loading = false;
    }
  }

  // Return the place of a message; undefined: it is not there any more.
  async placeOf({ messageId, ts }) {
    if (this.index.has(messageId)) return this.index.get(messageId);
    await this.#jump(ts);
    for (let run = this.#runs.find((one) => this.#ends(one, ts)); run; run = this.#runs.find((one) => this.#ends(one, ts)))
      await this.#forth(run);
    return this.index.get(messageId);
  }

  get #signal() {
    return this.#closing.signal;
  }

  // Whether a stretch ends among messages of one time, which may go on behind it.
  #ends(run, ts) {
    return run.next && this.#rows[run.end - 1]?.ts === ts;
  }

  #hole() {
    for (let index = this.#wanted[0]; index < this.#wanted[1]; index += 1) if (!this.#rows[index]) return index;
    return undefined;
  }

  async #load(index) {
    const below = this.#runs.findLast((run) => run.end <= index);
    const above = this.#runs.find((run) => run.start > index);
    const before = this.#runs.length + this.#loaded();
    if (below?.next && index - below.end < NEAR) await this.#forth(below);
    else if (above?.prev && above.start - index <= NEAR) await this.#back(above);
    else await this.#search(index, below, above);
    if (this.#runs.length + this.#loaded() === before) this.#wanted = [0, 0]; // the log has changed meanwhile
  }

  #loaded() {
    return this.#runs.reduce((sum, run) => sum + run.end - run.start, 0);
  }

  async #forth(run) {
    try {
      const page = await this.#list(run.next);
      this.#keep(run.end, page.items, null, page.rest);
    } catch (error) {
      if (!error.reason?.startsWith("ERROR_REASON_CURSOR")) throw error; // an old cursor: begin anew where it stood
      run.next = null;
      await this.#jump(this.#rows[run.end - 1].ts);
    }
  }

  async #back(run) {
    const page = await this.#list(run.prev);
    this.#keep(run.start - page.items.length, page.items.reverse(), page.rest, null);
  }

  // Guess the time at which the message of a place was said, look, and guess again.
  async #search(index, below, above) {
    let low = { place: below.end - 1, ms: instant(this.#rows[below.end - 1]) };
    let high = { place: above.start, ms: instant(this.#rows[above.start]) };
    for (let guess = 0; high.ms - low.ms > 1 && !this.#rows[index]; guess += 1) {
      const share = guess % 3 === 2 ? 0.5 : (index - PAGE / 2 - low.place) / (high.place - low.place);
      const ms = Math.floor(low.ms + Math.min(0.98, Math.max(0.02, share)) * (high.ms - low.ms));
      const found = await this.#jump(at(ms));
      if (found.start > index) high = { place: found.start, ms };
      else low = { place: found.end - 1, ms: found.end > found.start ? instant(this.#rows[found.end - 1]) : ms };
    }
    if (this.#rows[index]) return;
    if (below.next) await this.#forth(below);
    else await this.#back(above);
  }

  // Load the page that begins at a time.
  async #jump(ts) {
    const [counted, page] = await Promise.all([
      countMessages({ userId: this.user, filter: { timeRange: { until: ts } } }, this.#signal),
      this.#list({ order: OLDEST, filter: { timeRange: { since: ts } } }),
    ]);
    const start = Number(counted.count ?? 0);
    const before = { order: NEWEST, filter: { timeRange: { until: ts } } };
    this.#keep(start, page.items, before, page.rest);
    return { start, end: start + page.items.length };
  }

  // Return a page, and how to ask for the rest: a cursor continues the very listing that it comes from.
  async #list(asked) {
    const page = await listMessages({ userId: this.user, pageSize: PAGE, ...asked }, this.#signal);
    return { items: page.items ?? [], rest: page.nextCursor ? { ...asked, cursor: page.nextCursor } : null };
  }

  #keep(start, items, prev, next) {
    if (!items.length || start < 0) return;
    items.forEach((message, offset) => {
      this.#rows[start + offset] = message;
      this.index.set(message.messageId, start + offset);
    });
    const whole = { start, end: start + items.length, prev: start > 0 ? prev : null, next };
    const touching = this.#runs.filter((run) => run.start <= whole.end && run.end >= whole.start);
    for (const run of touching) {
      if (run.start <= whole.start) [whole.start, whole.prev] = [run.start, run.prev];
      if (run.end >= whole.end) [whole.end, whole.next] = [run.end, run.next];
    }
    this.#runs = [...this.#runs.filter((run) => !touching.includes(run)), whole].sort((a, b) => a.start - b.start);
  }
}

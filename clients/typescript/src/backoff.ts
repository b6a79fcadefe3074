import { Code } from "@connectrpc/connect";
import { NoMemoryError } from "./errors.js";

const INITIAL_MS = 100;
const MAX_MS = 2_000;
const MULTIPLIER = 3;

/** The time and the attempts that a call has. */
export class Patience {
  readonly #ends: number;
  #left: number;
  #sent = 0;

  constructor(timeoutMs: number, attempts: number) {
    this.#ends = Date.now() + timeoutMs;
    this.#left = attempts;
  }

  /** Milliseconds until the deadline; at least 1, for a transport takes 0 for no deadline. */
  get remainingMs(): number {
    return Math.max(1, this.#ends - Date.now());
  }

  /** Wait before a call is sent again. Throws the error if it is not one to try again after, or if no attempt is left. */
  async after(thrown: unknown, signal: AbortSignal | undefined): Promise<void> {
    const error = NoMemoryError.from(thrown);
    const pause = Math.random() * Math.min(INITIAL_MS * MULTIPLIER ** this.#sent, MAX_MS);
    this.#sent += 1;
    this.#left -= 1;
    if (error.code !== Code.Unavailable || this.#left < 1 || pause >= this.remainingMs || signal?.aborted) {
      throw error;
    }
    await elapsed(pause, signal);
  }
}

/** Resolve after some milliseconds, or as soon as a signal is aborted. */
function elapsed(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
  });
}

import { Code } from "@connectrpc/connect";
import { NoMemoryError } from "./errors.js";

const INITIAL_MS = 100;
const MAX_MS = 2_000;
const MULTIPLIER = 3;

/** The remaining time and attempts of a call. */
export class RetryBudget {
  readonly #deadline: number;
  #attemptsLeft: number;
  #retries = 0;

  constructor(timeoutMs: number, attempts: number) {
    this.#deadline = Date.now() + timeoutMs;
    this.#attemptsLeft = attempts;
  }

  /** Milliseconds until the deadline. At least 1: to a transport, 0 means no deadline. */
  get remainingMs(): number {
    return Math.max(1, this.#deadline - Date.now());
  }

  /** Wait before the next attempt. Throw the error if it is not retryable, or if no attempt or time is left. */
  async waitAfter(thrown: unknown, signal: AbortSignal | undefined): Promise<void> {
    const error = NoMemoryError.from(thrown);
    const pause = Math.random() * Math.min(INITIAL_MS * MULTIPLIER ** this.#retries, MAX_MS);
    this.#retries += 1;
    this.#attemptsLeft -= 1;
    if (error.code !== Code.Unavailable || this.#attemptsLeft < 1 || pause >= this.remainingMs || signal?.aborted) {
      throw error;
    }
    await delay(pause, signal);
  }
}

/** Resolve after a delay in milliseconds, or when the signal is aborted. */
function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
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

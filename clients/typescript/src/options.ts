/** What stands behind "Bearer " in the authorization of a call: an API key of a service or a token of a user. */
export type Token = string | (() => string | Promise<string>);

/** What of a client is not as by default. */
export interface ClientOptions {
  /** The credential. A function is asked at each call, for tokens that expire. */
  readonly token?: Token;
  /** Milliseconds that a call may take, retries included. Default: 30,000. */
  readonly timeoutMs?: number;
  /** The same for imports and exports. Default: an hour. */
  readonly bulkTimeoutMs?: number;
  /** How often a call that meets UNAVAILABLE is sent in all, 1 to 5. Default: 4. Imports are sent once. */
  readonly attempts?: number;
  /** Called by `close`. */
  readonly onClose?: () => void;
}

export const defaults = { timeoutMs: 30_000, bulkTimeoutMs: 3_600_000, attempts: 4 } as const;

const MAX_ATTEMPTS = 5;

/** Refuse options that cannot be meant. */
export function checked(options: ClientOptions): ClientOptions {
  const { attempts = 1, timeoutMs = 1, bulkTimeoutMs = 1 } = options;
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > MAX_ATTEMPTS) {
    throw new RangeError(`attempts must be 1 to ${MAX_ATTEMPTS}: ${attempts}`);
  }
  if (!(timeoutMs > 0 && bulkTimeoutMs > 0)) {
    throw new RangeError("a timeout must be more than 0");
  }
  return options;
}

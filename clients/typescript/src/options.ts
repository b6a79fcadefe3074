/** An API key or a user token, sent as a bearer token. */
export type Token = string | (() => string | Promise<string>);

/** Options of a client. */
export interface ClientOptions {
  /** The credential. If it is a function, it is called before each attempt of a call, for tokens that expire. */
  readonly token?: Token;
  /** Timeout of a call in milliseconds, including retries. Default: 30,000. */
  readonly timeoutMs?: number;
  /** Timeout of an import or export in milliseconds. Default: 3,600,000 (1 hour). */
  readonly bulkTimeoutMs?: number;
  /** Maximum number of attempts of a call that fails with UNAVAILABLE, 1 to 5. Default: 4. Imports are not retried. */
  readonly attempts?: number;
  /** Called by `close`. */
  readonly onClose?: () => void;
}

export const defaults = { timeoutMs: 30_000, bulkTimeoutMs: 3_600_000, attempts: 4 } as const;

const MAX_ATTEMPTS = 5;

/** Validate options and return them. Throw a RangeError if an option is out of range. */
export function validated(options: ClientOptions): ClientOptions {
  const { attempts = 1, timeoutMs = 1, bulkTimeoutMs = 1 } = options;
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > MAX_ATTEMPTS) {
    throw new RangeError(`attempts must be 1 to ${MAX_ATTEMPTS}, got ${attempts}`);
  }
  if (!(timeoutMs > 0 && bulkTimeoutMs > 0)) {
    throw new RangeError(`timeoutMs and bulkTimeoutMs must be positive, got ${timeoutMs} and ${bulkTimeoutMs}`);
  }
  return options;
}

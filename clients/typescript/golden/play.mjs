import { Code, ErrorReason, ErrorReasonSchema, NoMemoryError } from "@nomemory/client";
import { called } from "./called.mjs";

/**
 * @typedef {import("@nomemory/client").NoMemory} NoMemory
 * @typedef {{ call: string, as: string, for?: string, all?: boolean, request: unknown, keep?: Record<string, string> }} Step
 * A call of the scenario. scripts/golden checks the result.
 */

/** Makes the calls of the steps as their callers, and stores values for later steps. */
export class Play {
  /** @type {Map<string, unknown>} */
  #kept = new Map();

  /** @param {Map<string, NoMemory>} clients by the names of callers */
  constructor(clients) {
    this.clients = clients;
  }

  /**
   * Run a step and return its responses or its error.
   * @param {Step} step
   */
  async outcome(step) {
    const client = this.clients.get(step.as);
    if (!client) {
      throw new Error(`there is no caller ${step.as}`);
    }
    const replies = [];
    try {
      for await (const reply of called(client, step, this.#filled(step.request))) {
        replies.push(reply);
      }
    } catch (error) {
      return { refused: refusal(error) };
    }
    for (const [name, path] of Object.entries(step.keep ?? {})) {
      this.#kept.set(name, at(replies[0], path));
    }
    return { replies };
  }

  /**
   * Replace each `$name` with a stored value.
   * @param {unknown} value
   * @returns {any}
   */
  #filled(value) {
    if (Array.isArray(value)) {
      return value.map((each) => this.#filled(each));
    }
    if (typeof value === "object" && value !== null) {
      return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, this.#filled(each)]));
    }
    return typeof value === "string" && value.startsWith("$") ? this.#kept.get(value.slice(1)) : value;
  }
}

/**
 * @param {any} value
 * @param {string} path
 */
function at(value, path) {
  return path.split(".").reduce((inner, part) => inner[part], value);
}

/** @param {unknown} error */
function refusal(error) {
  if (!(error instanceof NoMemoryError)) {
    throw error;
  }
  const { code, reason, message, violations } = error;
  return {
    code: String(Code[code]).replace(/\B[A-Z]/g, "_$&").toUpperCase(),
    reason: ErrorReasonSchema.value[reason ?? ErrorReason.UNSPECIFIED]?.name,
    message,
    violations: violations.map(({ field }) => field),
  };
}

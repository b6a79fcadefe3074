// A recall as a file for a report of a bug: the question, each step, the result, the scores, the state of the server.
import { indexStatus, serverInfo } from "./contract.js";

const SAID = new Set([
  "content", "text", "quote", "question", "query_text", "thought", "observation", "name", "notes", "userId",
]);

export async function reportOf(run, { withWords }) {
  const [server, status] = await Promise.all([serverInfo(), indexStatus({ userId: run.user })].map(orError));
  const { readLoad: _, caller: __, ...described } = server;
  const whole = {
    format: "nomemory-recall", version: 1, exported: new Date().toISOString(), withWords,
    server: described, status, userId: run.user, request: run.recall, tookMs: Math.round(run.tookMs), steps: run.steps,
    result: run.result, error: run.error && { code: run.error.code, reason: run.error.reason },
    scores: [...run.found.values()].map(({ message, score, explanation }) => ({ messageId: message.messageId, score, explanation })),
  };
  return withWords ? whole : { ...withoutWords(whole), server: described, status, userId: "" };
}

export function save(report) {
  const file = new Blob([JSON.stringify(report, null, 2)], { type: "application/json" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = `recall-${report.exported.replace(/[:.]/g, "-")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const orError = (asked) => asked.catch((error) => ({ error: error.reason ?? "unknown" }));

// Ids, times, figures and places stay; whatever somebody has said becomes its length.
function withoutWords(value, name = "") {
  if (typeof value === "string") return SAID.has(name) ? `‹${Array.from(value).length}›` : value;
  if (Array.isArray(value)) return value.map((one) => withoutWords(one, name));
  if (value === null || typeof value !== "object") return value;
  const kept = Object.entries(value).filter(([key]) => key !== "metadata");
  const named = (key) => (key === "name" && "value" in value ? "" : key); // the name of a component
  return Object.fromEntries(kept.map(([key, one]) => [key, withoutWords(one, named(key))]));
}

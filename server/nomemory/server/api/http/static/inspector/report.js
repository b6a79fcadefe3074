// Exports a recall as a JSON file for a bug report.
import { indexStatus, serverInfo } from "./contract.js";

const CONTENT_FIELDS = new Set([
  "content", "text", "quote", "question", "query_text", "thought", "observation", "name", "notes", "userId",
]);

export async function reportOf(run, { includeContent }) {
  const [server, status] = await Promise.all([serverInfo(), indexStatus({ userId: run.user })].map(orError));
  const { readLoad: _, caller: __, ...described } = server;
  const whole = {
    format: "nomemory-recall", version: 1, exported: new Date().toISOString(), includeContent,
    server: described, status, userId: run.user, request: run.recall, tookMs: Math.round(run.tookMs), steps: run.steps,
    result: run.result, error: run.error && { code: run.error.code, reason: run.error.reason },
    scores: [...run.explained.values()].map(({ message, score, explanation }) => ({ messageId: message.messageId, score, explanation })),
  };
  return includeContent ? whole : { ...withoutContent(whole), server: described, status, userId: "" };
}

export function save(report) {
  const file = new Blob([JSON.stringify(report, null, 2)], { type: "application/json" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = `recall-${report.exported.replace(/[:.]/g, "-")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const orError = (call) => call.catch((error) => ({ error: error.reason ?? "unknown" }));

// Replace each text with its length. Ids, times and numbers remain.
function withoutContent(value, name = "") {
  if (typeof value === "string") return CONTENT_FIELDS.has(name) ? `‹${Array.from(value).length}›` : value;
  if (Array.isArray(value)) return value.map((item) => withoutContent(item, name));
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).filter(([key]) => key !== "metadata");
  const named = (key) => (key === "name" && "value" in value ? "" : key); // names of score components remain
  return Object.fromEntries(entries.map(([key, item]) => [key, withoutContent(item, named(key))]));
}

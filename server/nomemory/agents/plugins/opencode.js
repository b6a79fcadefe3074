// Plugin of OpenCode, which `nomemory agent install opencode` writes to OpenCode's plugins.
//
// It hands each event to the hook program of NoMemory. A failure never reaches the agent: it is logged once, without
// content, until an event succeeds again.

import { spawn } from "node:child_process";

const COMMAND = []; // set by the installation
const TIMEOUT_MS = 5_000;

export const NoMemory = async ({ client, directory }) => {
  const startedSessions = new Set();
  const storedIds = new Set();
  const storing = new Set();
  let isFailing = false;

  // Sends an event to the hook program. Returns its output, or null if it failed.
  const send = async (name, sessionID, fields) => {
    const event = { hook_event_name: name, session_id: sessionID, cwd: directory, ...fields };
    const { output, failure } = await run(COMMAND, JSON.stringify(event));
    const isReported = isFailing;
    isFailing = Boolean(failure);
    if (failure && !isReported) {
      const message = `NoMemory is unavailable (${failure}). The agent continues without it.`;
      await client.app.log({ body: { service: "nomemory", level: "warn", message } }).catch(() => {});
    }
    return failure ? null : output;
  };

  const isSubagent = async (sessionID) => {
    const { data } = await client.session.get({ path: { id: sessionID } });
    return Boolean(data?.parentID);
  };

  // Stores the messages of a session that this process has not stored yet. Their ids make a repetition harmless.
  const store = async (sessionID) => {
    if (await isSubagent(sessionID)) return;
    const { data } = await client.session.messages({ path: { id: sessionID } });
    const messages = (data ?? []).flatMap(toMessages).filter(({ id }) => !storedIds.has(id));
    if (messages.length && (await send("Stop", sessionID, { messages })) !== null) {
      for (const { id } of messages) storedIds.add(id);
    }
  };

  return {
    // Adds the rules of the project to the first prompt of a session, and related messages to every prompt.
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const texts = parts.filter(isText);
      try {
        if (!texts.length || (await isSubagent(sessionID))) return;
        const prompt = texts.map(({ text }) => text).join("\n");
        const events = [send("UserPromptSubmit", sessionID, { prompt })];
        if (!startedSessions.has(sessionID)) events.unshift(send("SessionStart", sessionID, {}));
        startedSessions.add(sessionID);
        const text = (await Promise.all(events)).map(readContext).filter(Boolean).join("\n");
        if (!text) return;
        // Parts are sorted by id, so this one follows the text of the user.
        const id = `${texts.at(-1).id}m`;
        parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true });
      } catch {
        // The agent continues without the messages.
      }
    },

    event: async ({ event }) => {
      if (event.type !== "session.idle") return;
      const stored = store(event.properties.sessionID).catch(() => {}); // the next turn stores them
      storing.add(stored);
      await stored;
      storing.delete(stored);
    },

    dispose: async () => {
      await Promise.all(storing);
    },
  };
};

const isText = (part) => part.type === "text" && !part.synthetic && !part.ignored && part.text.trim() !== "";

// Returns the texts and the tool output of a message of OpenCode. A summary of a session is not a message.
const toMessages = ({ info, parts }) => {
  if (info.summary === true) return [];
  const created = info.time.created;
  return parts.flatMap((part) => {
    if (isText(part)) {
      return [{ id: part.id, role: info.role, text: part.text, name: "", time: part.time?.start ?? created }];
    }
    if (part.type === "tool" && part.state.status === "completed") {
      return [{ id: part.id, role: "tool", text: part.state.output, name: part.tool, time: part.state.time.end }];
    }
    return [];
  });
};

const readContext = (output) => {
  try {
    return JSON.parse(output).hookSpecificOutput.additionalContext;
  } catch {
    return "";
  }
};

const run = ([program, ...args], input) =>
  new Promise((resolve) => {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "ignore"], timeout: TIMEOUT_MS });
    let output = "";
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (text) => (output += text));
    child.stdin.on("error", () => {}); // reported as the exit status
    child.on("error", (error) => resolve({ output: "", failure: error.code ?? error.name }));
    child.on("close", (code, signal) => resolve({ output, failure: code === 0 ? "" : `exit status ${code ?? signal}` }));
    child.stdin.end(input);
  });

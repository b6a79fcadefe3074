// Loads a plugin as OpenCode does, and calls its hooks: node opencode_host.mjs PLUGIN. Each line of standard input is a
// JSON list of a hook's name and its arguments; the reply is a line with the arguments after the call and the log.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { NoMemory } = await import(pathToFileURL(process.argv[2]));
const sessions = {};
const log = [];
const client = {
  app: { log: async ({ body }) => void log.push(body) },
  session: {
    get: async ({ path }) => ({ data: sessions[path.id]?.info }),
    messages: async ({ path }) => ({ data: sessions[path.id]?.messages }),
  },
};
const hooks = await NoMemory({ client, directory: "/work/harbour" });
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...parameters] = JSON.parse(line);
  if (name === "session") sessions[parameters[0]] = parameters[1];
  else await hooks[name](...parameters);
  console.log(JSON.stringify({ parameters, log }));
}
await hooks.dispose();

// Runs the scenario of scripts/golden: npm run golden -- SCENARIO SERVER WRITTEN
import { appendFileSync, readFileSync } from "node:fs";
import { connect } from "@nomemory/client/node";
import { Play } from "./play.mjs";

const [scenario = "", reached = "", written = ""] = process.argv.slice(2);
const { target, authorities, bearers } = JSON.parse(readFileSync(reached, "utf-8"));
const tls = { ca: readFileSync(authorities, "utf-8") };
const clients = new Map(
  Object.entries(bearers).map(([caller, token]) => [caller, connect(target, { tls, token: String(token) })]),
);
const play = new Play(clients);
for (const step of JSON.parse(readFileSync(scenario, "utf-8")).steps) {
  appendFileSync(written, `${JSON.stringify(await play.outcome(step))}\n`);
}
for (const client of clients.values()) {
  client.close();
}

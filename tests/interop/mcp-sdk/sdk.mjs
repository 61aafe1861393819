// sdk.mjs - the official TypeScript SDKs hold conversations with idem-conformance-server: each SDK, on
// each transport, in each era it knows, with a server of its own. Run by the script `run`.
import * as sdk1 from "./sdk1.mjs";
import * as sdk2 from "./sdk2.mjs";
import { withServer } from "./server.mjs";
import { converse } from "./talk.mjs";

const program = process.argv[2];
const watchdog = setTimeout(() => {
  console.error("the conversations did not come to their end in time");
  process.exit(1);
}, 500000);

const old = "2025-11-25";
const modern = "2026-07-28";
const conversations = [
  ["SDK 1, stdio", (where) => sdk1.open(where)],
  ["SDK 1, HTTP", (where) => sdk1.open(where)],
  ["SDK 1, HTTP+SSE", (where) => sdk1.open({ ...where, sse: true })],
  ["SDK 1, HTTP+SSE, 3 threads", (where) => sdk1.open({ ...where, sse: true }), 3],
  ["SDK 1, HTTP, 3 threads", (where) => sdk1.open(where), 3],
  [`SDK 2, stdio, ${old}`, (where) => sdk2.open(where, old)],
  [`SDK 2, HTTP, ${old}`, (where) => sdk2.open(where, old)],
  [`SDK 2, stdio, ${modern}`, (where) => sdk2.open(where, modern)],
  [`SDK 2, HTTP, ${modern}`, (where) => sdk2.open(where, modern)],
  [`SDK 2, HTTP, ${modern}, 3 threads`, (where) => sdk2.open(where, modern), 3],
];

let failures = 0;
await Promise.all(
  conversations.map(async ([name, open, workers = 1]) => {
    try {
      const command = [program, "--workers", String(workers)];
      if (name.includes("HTTP")) await withServer(command, (where) => converse(name, () => open(where)));
      else await converse(name, () => open({ command: [program, "--stdio"] }));
    } catch (error) {
      console.error(error.message.startsWith("SDK") ? error : `${name}: ${error.stack}`);
      failures++;
    }
  }),
);
clearTimeout(watchdog);
process.exit(failures ? 1 : 0);

// nodes.mjs - the official TypeScript SDK's client and two processes of `idem serve` that share a store, behind a balancer:
// one is drained while the client listens and asks. Its stream goes on at the other, no call fails, and it hears what
// changes there. Run by the script `run`.
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text, until } from "./talk.mjs";

const [program] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "idem-nodes-"));
const watchdog = setTimeout(() => {
  console.error("it did not come to its end in time");
  process.exit(1);
}, 500000);

function configure(name, tools) {
  const say = { run: ["echo", "hello"] };
  writeFileSync(join(folder, `${name}.json`), JSON.stringify({ tools: Object.fromEntries(tools.map((tool) => [tool, say])) }));
}

async function serve(name) {
  const child = spawn(program, ["serve", join(folder, `${name}.json`), "--http", "127.0.0.1:0", "--store",
    `sqlite:${join(folder, "store.db")}`, "--drain-ms", "300"], { stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "exit");
  const port = await new Promise((resolve, reject) => {
    createInterface({ input: child.stderr }).on("line", (line) => {
      const found = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(line);
      if (found) resolve(Number(found[1]));
    });
    ended.then(() => reject(new Error("it does not serve")));
  });
  return { child, ended, port };
}

// New connections go to whichever is ready; those that are open stay where they are.
function balance(nodes) {
  const server = createServer((from) => {
    const ready = nodes.find((node) => node.ready);
    const to = connect(ready.port, "127.0.0.1");
    from.pipe(to).on("error", () => from.destroy());
    to.pipe(from).on("error", () => to.destroy());
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

configure("one", ["say"]);
configure("other", ["say"]);
const nodes = [await serve("one"), await serve("other")];
for (const node of nodes) node.ready = true;
const server = await balance(nodes);
const client = new Client({ name: "nodes", version: "1" });
let heard = 0;
client.setNotificationHandler(ToolListChangedNotificationSchema, () => void heard++);
await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${server.address().port}/mcp`)));
assert.equal(text(await client.callTool({ name: "say" })).trim(), "hello");

// The first node goes; calls go on all the while.
let calling = true;
let calls = 0;
const asking = (async () => {
  while (calling) {
    assert.equal(text(await client.callTool({ name: "say" })).trim(), "hello");
    calls++;
  }
})();
nodes[0].ready = false;
nodes[0].child.kill("SIGTERM");
assert.equal((await nodes[0].ended)[0], 0);
const before = calls;
await until("a call after the first node went", () => calls > before);
calling = false;
await asking;

// The stream is at the other node now: it was told to look again, since the first has gone, and hears what changes there.
await until("the stream came back", () => heard > 0);
const already = heard;
configure("other", ["say", "more"]);
await until("the change was heard of", async () => {
  const { tools } = await client.listTools();
  return heard > already && tools.some(({ name }) => name === "more");
});
await client.close();
server.close();
nodes[1].child.kill("SIGTERM");
assert.equal((await nodes[1].ended)[0], 0);
rmSync(folder, { recursive: true });
clearTimeout(watchdog);
console.log(`${calls} calls while a node was drained, none failed; the stream went on at the other`);

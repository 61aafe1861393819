// demo.mjs - the official TypeScript SDKs use `idem serve` with the demo: every tool, its progress and
// its end when cancelled, resources and the prompt; each SDK, on each transport, in each era. And the
// Inspector's command line, with settings as an assistant has them. Run by the script `run`.
import assert from "node:assert/strict";
import { readFileSync, readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { inspect } from "./inspect.mjs";
import * as sdk1 from "./sdk1.mjs";
import * as sdk2 from "./sdk2.mjs";
import { withServer } from "./server.mjs";
import { callWithProgress, tell, text, until } from "./talk.mjs";

const [program, config] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const watchdog = setTimeout(() => {
  console.error("the conversations did not come to their end in time");
  process.exit(1);
}, 500000);

async function lists({ client }) {
  assert.equal(client.getServerVersion().name, "idem-demo");
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name }) => name).sort(), ["count_words", "countdown", "planets", "search_docs"]);
  assert.deepEqual(tools.find(({ name }) => name === "count_words").inputSchema.required, ["file"]);
  const { resources } = await client.listResources();
  assert.ok(resources.some(({ uri }) => uri === "idem://docs/guide/serve.md"));
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.match(resourceTemplates[0].uriTemplate, /^idem:\/\/docs\//);
  const { prompts } = await client.listPrompts();
  assert.deepEqual(prompts.map(({ name }) => name), ["explain"]);
}

async function calls({ call }) {
  const found = await call("search_docs", { text: "MAKES A MODEL CONTEXT", ignore_case: true });
  assert.match(text(found), /guide\/serve\.md:\d+:/);
  assert.equal((await call("search_docs", { text: `no such ${"text"} anywhere` })).isError ?? false, false);
  assert.match(text(await call("count_words", { file: "guide/serve.md" })), /^\s*\d+ +\d+ +\d+ .*guide\/serve\.md\s*$/);
  const planets = await call("planets", { moons: 50 });
  assert.deepEqual(planets.structuredContent.rows.map(({ name }) => name), ["Jupiter", "Saturn"]);
  assert.match(text(planets), /Jupiter/);
}

// What a model does wrong is told to it in words.
async function faults({ call }) {
  const outside = await call("count_words", { file: "../../../../etc/passwd" });
  assert.equal(outside.isError, true);
  const mistaken = await call("countdown", { seconds: "many" });
  assert.equal(mistaken.isError, true);
  assert.match(text(mistaken), /seconds/);
  await assert.rejects(call("no_such_tool", {}), { code: -32602 });
}

async function progress(talk) {
  const { result, steps } = await callWithProgress(talk, "countdown", { seconds: 1 }, 1);
  assert.equal(text(result).trim(), "counted to 1");
  assert.deepEqual(steps, [{ progress: 1, total: 1, message: "second 1" }]);
}

// Whether the demo's countdown to this number runs somewhere.
function counting(seconds) {
  return readdirSync("/proc").some((pid) => {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0");
      const ours = readlinkSync(`/proc/${pid}/cwd`) === dirname(config);
      return ours && words.some((word) => word.endsWith("/countdown")) && words.includes(seconds);
    } catch {
      return false;
    }
  });
}

let nextCount = 40; // each conversation cancels a countdown of its own
async function cancels({ call }) {
  const seconds = nextCount++;
  const abort = new AbortController();
  const stop = () => {
    assert.ok(counting(String(seconds)));
    abort.abort("enough");
  };
  const ended = await call("countdown", { seconds }, { signal: abort.signal, onprogress: stop }).catch((error) => error);
  assert.ok(ended instanceof Error || ended === "enough");
  await until("the end of the program", () => !counting(String(seconds)));
}

async function reads({ client, missing }) {
  const { contents } = await client.readResource({ uri: "idem://docs/guide/serve.md" });
  assert.match(contents[0].text, /^# Serving programs/);
  assert.equal(contents[0].mimeType, "text/markdown");
  await assert.rejects(client.readResource({ uri: "idem://docs/none.md" }), { code: missing });
}

async function prompts({ client }) {
  const { messages } = await client.getPrompt({ name: "explain", arguments: { topic: "framing" } });
  assert.match(messages[0].content.text, /says about framing and explain it/);
  await assert.rejects(client.getPrompt({ name: "explain", arguments: {} }), { code: -32602 });
}

const chapters = { lists, calls, faults, progress, cancels, reads, prompts };
const old = "2025-11-25";
const modern = "2026-07-28";
const command = [program, "serve", config];
const conversations = [
  ["SDK 1", (where) => sdk1.open(where)],
  [`SDK 2, ${old}`, (where) => sdk2.open(where, old)],
  [`SDK 2, ${modern}`, (where) => sdk2.open(where, modern)],
].flatMap(([name, open]) => [
  [`${name}, stdio`, async (talk) => talk(await open({ command }))],
  [`${name}, HTTP`, (talk) => withServer(command, async (where) => talk(await open(where)))],
]);

// Both ways an assistant's settings name a server.
async function inspector() {
  await withServer(command, async ({ url }) => {
    const settings = join(here, "settings.json");
    const servers = { there: { type: "http", url }, here: { command: program, args: ["serve", config] } };
    writeFileSync(settings, JSON.stringify({ mcpServers: servers }));
    const ask = (server, era, ...rest) => inspect(["--config", settings, "--server", server], era, ...rest);
    const called = await ask("here", "legacy", "--method", "tools/call", "--tool-name", "planets", "--tool-arg", "moons=100");
    assert.equal(called.structuredContent.rows[0].name, "Saturn");
    const { tools } = await ask("here", "modern", "--method", "tools/list");
    assert.equal(tools.length, 4);
    const read = await ask("there", "modern", "--method", "resources/read", "--uri", "idem://readme");
    assert.match(read.contents[0].text, /^# idem/);
    const prompt = await ask("there", "legacy", "--method", "prompts/get", "--prompt-name", "explain", "--prompt-args", "topic=ids");
    assert.match(prompt.messages[0].content.text, /about ids/);
  });
  console.log("Inspector: list, call, read, prompt");
}

let failures = 0;
const attempt = (name, work) =>
  work().catch((error) => {
    console.error(error.message.startsWith("SDK") ? error : `${name}: ${error.stack}`);
    failures++;
  });
await Promise.all([
  ...conversations.map(([name, converse]) => attempt(name, () => converse((talk) => tell(name, talk, chapters)))),
  attempt("Inspector", inspector),
]);
clearTimeout(watchdog);
process.exit(failures ? 1 : 0);

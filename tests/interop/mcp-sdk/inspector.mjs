// inspector.mjs - the official MCP Inspector's command line lists, calls, reads and prompts, over stdio
// and HTTP, in both eras. Run by the script `run`.
import assert from "node:assert/strict";
import { inspect } from "./inspect.mjs";
import { withServer } from "./server.mjs";

const program = process.argv[2];

async function converse(target, era) {
  const { tools } = await inspect(target, era, "--method", "tools/list");
  assert.equal(tools[0].name, "test_simple_text");
  const called = await inspect(target, era, "--method", "tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada");
  assert.equal(called.content[0].text, "Hello, Ada!");
  const { resources } = await inspect(target, era, "--method", "resources/list");
  assert.ok(resources.some(({ uri }) => uri === "test://static-binary"));
  const read = await inspect(target, era, "--method", "resources/read", "--uri", "test://static-text");
  assert.match(read.contents[0].text, /static text resource/);
  const { prompts } = await inspect(target, era, "--method", "prompts/list");
  assert.equal(prompts[0].name, "test_simple_prompt");
  console.log(`Inspector, ${target[0].startsWith("http") ? "HTTP" : "stdio"}, ${era}: list, call, read`);
}

await Promise.all([
  converse([program], "legacy"),
  converse([program], "modern"),
  withServer([program], async ({ url }) => {
    await converse([url, "--transport", "http"], "legacy");
    await converse([url, "--transport", "http"], "modern");
  }),
]);

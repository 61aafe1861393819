// talk.mjs - what every client must be able to do with idem-conformance-server, whatever SDK it is
// written with. `open` makes a connected client: see sdk1.mjs and sdk2.mjs for what it looks like.
import assert from "node:assert/strict";

const text = (result) => result.content[0].text;

async function until(what, condition) {
  const end = Date.now() + 60000;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `${what} did not happen within a minute`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function lists({ client }) {
  const { tools } = await client.listTools();
  assert.equal(tools[0].name, "test_simple_text");
  assert.ok(tools.find((tool) => tool.name === "json_schema_2020_12_tool").inputSchema.$defs.address);
  const { prompts } = await client.listPrompts();
  assert.ok(prompts.some((prompt) => prompt.name === "test_prompt_with_arguments"));
  const { resources } = await client.listResources();
  assert.ok(resources.some((resource) => resource.uri === "test://static-text"));
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.equal(resourceTemplates[0].uriTemplate, "test://template/{id}/data");
  assert.equal(client.getServerVersion().name, "idem-conformance-server");
}

async function calls({ client }) {
  assert.equal(text(await client.callTool({ name: "test_simple_text" })), "This is a simple text response for testing.");
  const mixed = await client.callTool({ name: "test_multiple_content_types", arguments: {} });
  assert.deepEqual(mixed.content.map((block) => block.type), ["text", "image", "resource"]);
  const failed = await client.callTool({ name: "test_error_handling", arguments: {} });
  assert.equal(failed.isError, true);
  const region = await client.callTool({ name: "test_x_mcp_header", arguments: { region: "Zürich" } });
  assert.equal(text(region), "region: Zürich");
  await assert.rejects(client.callTool({ name: "no_such_tool", arguments: {} }), { code: -32602 });
  const bad = await client.callTool({ name: "greet", arguments: { name: 7 } });
  assert.equal(bad.isError, true);
}

async function reads({ client, missing }) {
  const { contents } = await client.readResource({ uri: "test://static-text" });
  assert.equal(contents[0].text, "This is the content of the static text resource.");
  const binary = await client.readResource({ uri: "test://static-binary" });
  assert.equal(Buffer.from(binary.contents[0].blob, "base64").subarray(1, 4).toString(), "PNG");
  const template = await client.readResource({ uri: "test://template/a%20b/data" });
  assert.equal(JSON.parse(template.contents[0].text).id, "a b");
  await assert.rejects(client.readResource({ uri: "test://missing" }), { code: missing });
}

async function prompts({ client }) {
  const { messages } = await client.getPrompt({
    name: "test_prompt_with_arguments",
    arguments: { arg1: "one", arg2: "two" },
  });
  assert.match(messages[0].content.text, /'one'.*'two'/);
  const { completion } = await client.complete({
    ref: { type: "ref/prompt", name: "test_prompt_with_arguments" },
    argument: { name: "arg1", value: "testV" },
  });
  assert.deepEqual(completion.values, ["testValue1", "testValue2"]);
}

// A call and the steps that were told before its answer. The SDKs no longer know whose progress it is
// when the answer came in the same read, as it does on a busy machine; they tell their onerror then.
export async function callWithProgress({ client, call }, name, args, count) {
  const steps = [];
  client.onerror = ({ message }) => {
    const [, lost] = /^Received a progress notification for an unknown token: (.*)$/s.exec(message) ?? [];
    if (!lost) return;
    const { progressToken, _meta, ...step } = JSON.parse(lost).params;
    steps.push(step);
  };
  const result = await call(name, args, { onprogress: (step) => steps.push(step) });
  await until(`step ${count} of ${name}`, () => steps.length >= count);
  client.onerror = undefined;
  return { result, steps };
}

async function progress(talk) {
  const { result, steps } = await callWithProgress(talk, "test_tool_with_progress", {}, 3);
  assert.deepEqual(steps.map((step) => step.progress), [0, 50, 100]);
  assert.equal(text(result), "Finished after three steps");
}

async function logs(talk) {
  if (!talk.setLevel) return;
  const before = talk.heard("notifications/message").length;
  await talk.setLevel("debug");
  await talk.call("test_tool_with_logging", {});
  await until("three lines", () => talk.heard("notifications/message").length >= before + 3);
  assert.equal(talk.heard("notifications/message").length, before + 3);
}

async function cancels({ call }) {
  const count = async () => Number(text(await call("test_cancelled_count", {})));
  assert.equal(await count(), 0);
  const abort = new AbortController();
  const running = call("test_slow", {}, { signal: abort.signal }).catch((error) => error);
  setTimeout(() => abort.abort("enough"), 100);
  assert.ok((await running) instanceof Error || (await running) === "enough");
  await until("the cancellation", async () => (await count()) === 1);
}

async function asks({ client }) {
  const elicited = await client.callTool({ name: "test_elicitation", arguments: { message: "Who are you?" } });
  assert.match(text(elicited), /action=accept.*"username":"ada"/);
  const sampled = await client.callTool({ name: "test_sampling", arguments: { prompt: "Say yes" } });
  assert.equal(text(sampled), "LLM response: answer to: Say yes");
  const rooted = await client.callTool({ name: "test_input_required_result_list_roots", arguments: {} });
  assert.equal(text(rooted), "The client has 2 roots");
  const rounds = await client.callTool({ name: "test_input_required_result_multi_round", arguments: {} });
  assert.equal(text(rounds), "Both steps are done");
  const prompt = await client.getPrompt({ name: "test_input_required_result_prompt" });
  assert.match(prompt.messages[0].content.text, /context/);
}

async function subscriptions(talk) {
  const { call, heard } = talk;
  const end = await talk.subscribe("test://watched-resource");
  await call("test_trigger_resource_update", {});
  await until("news of the resource", () => heard("notifications/resources/updated").length === 1);
  assert.equal(heard("notifications/resources/updated")[0].params.uri, "test://watched-resource");
  await call("test_trigger_tool_change", {});
  await until("news of the tools", () => heard("notifications/tools/list_changed").length === 1);
  await call("test_trigger_prompt_change", {});
  await until("news of the prompts", () => heard("notifications/prompts/list_changed").length === 1);
  await end();
  await call("test_trigger_resource_update", {});
  await call("test_simple_text", {});
  assert.equal(heard("notifications/resources/updated").length, 1);
}

// A user who refuses is asked once, and the call ends.
async function refused({ client }) {
  const prompt = `Refuse ${Math.random()}`;
  const result = await client.callTool({ name: "test_sampling", arguments: { prompt } }).catch((error) => error);
  assert.equal(refusals.get(prompt), 1);
  assert.ok(result instanceof Error || result.content, "the call did not end");
}

// Clients hold results against the output schema that they were shown: what breaks it must not come to that.
async function promises({ client }) {
  await client.listTools();
  const kept = await client.callTool({ name: "test_kept_promise", arguments: {} });
  assert.deepEqual(kept.structuredContent, { sum: 3 });
  await assert.rejects(client.callTool({ name: "test_broken_promise", arguments: {} }), (error) => {
    assert.equal(error.code, -32603);
    assert.match(error.message, /Internal error/);
    return true;
  });
}

// The answer of a call whose stream was closed meanwhile is fetched by the SDK, where there are streams.
async function lostStream({ client }) {
  assert.match(text(await client.callTool({ name: "test_reconnection", arguments: {} })), /./);
}

// What people are shown is the message.
async function messages({ client }) {
  await assert.rejects(client.callTool({ name: "no_such_tool", arguments: {} }), /Unknown tool: no_such_tool/);
  await assert.rejects(client.readResource({ uri: "test://missing" }), /Resource not found: test:\/\/missing/);
  await assert.rejects(client.getPrompt({ name: "no_such_prompt" }), /no_such_prompt/);
  assert.match(text(await client.callTool({ name: "greet", arguments: { name: 7 } })), /name.*string/);
}

const chapters = { lists, calls, reads, prompts, progress, logs, cancels, asks, refused, promises, lostStream, messages, subscriptions };

// Holds the whole conversation with a client that `open` connected.
export async function converse(name, open) {
  const talk = await open();
  await tell(name, talk, { ...chapters, ...talk.more });
}

// Every chapter in its turn, then the end.
export async function tell(name, talk, all) {
  for (const [title, chapter] of Object.entries(all)) {
    try {
      await chapter(talk);
    } catch (error) {
      error.message = `${name}, ${title}: ${error.message}`;
      throw error;
    }
  }
  await talk.close();
  console.log(`${name}: ${Object.keys(all).join(", ")}`);
}

// What the user and the model of these clients say.
export const elicit = ({ requestedSchema }) => {
  const content = {};
  for (const [key, { type }] of Object.entries(requestedSchema.properties)) {
    content[key] = type === "boolean" ? true : key === "username" || key === "name" ? "ada" : `some ${key}`;
  }
  return { action: "accept", content };
};
// How often a model was asked what its user refuses.
const refusals = new Map();

export const sample = ({ messages }) => {
  const prompt = messages[0].content.text;
  if (prompt.startsWith("Refuse")) {
    refusals.set(prompt, (refusals.get(prompt) ?? 0) + 1);
    throw Object.assign(new Error("User rejected sampling request"), { code: -1 });
  }
  return { model: "parrot", role: "assistant", content: { type: "text", text: `answer to: ${prompt}` } };
};
export const roots = () => ({ roots: [{ uri: "file:///one" }, { uri: "file:///two", name: "two" }] });
export { text, until };

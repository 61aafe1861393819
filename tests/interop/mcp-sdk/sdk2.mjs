// sdk2.mjs - the TypeScript SDK 2.x in both eras, over stdio and HTTP. It has no functions for the
// tasks extension, so its general ones are used for that.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import assert from "node:assert/strict";
import { elicit, roots, sample, text, until } from "./talk.mjs";

const anything = { "~standard": { version: 1, vendor: "interop", validate: (value) => ({ value }) } };
const extension = "io.modelcontextprotocol/tasks";

// The SDK refuses results of type "task"; what came over the wire has the id.
async function startTask({ client, wire }, name, args) {
  let task;
  const receive = wire.onmessage;
  wire.onmessage = (message, extra) => {
    if (message.result?.resultType === "task") task = message.result;
    receive(message, extra);
  };
  await assert.rejects(client.callTool({ name, arguments: args }), /Unsupported result type 'task'/);
  wire.onmessage = receive;
  return task;
}

async function tasks(talk) {
  const { client } = talk;
  const ask = (method, params) => client.request({ method, params }, anything);
  const get = (taskId) => ask("tasks/get", { taskId });
  const { taskId } = await startTask(talk, "slow_compute", { seconds: 0.3, label: "sum" });
  let seen;
  await until("the end of the task", async () => (seen = await get(taskId)).status === "completed");
  assert.equal(text(seen.result), "sum: computed");

  const asking = await startTask(talk, "confirm_delete", { filename: "notes.txt" });
  await until("the question", async () => (seen = await get(asking.taskId)).status === "input_required");
  const [[key, { params }]] = Object.entries(seen.inputRequests);
  await ask("tasks/update", { taskId: asking.taskId, inputResponses: { [key]: elicit(params) } });
  await until("the deletion", async () => (seen = await get(asking.taskId)).status === "completed");
  assert.equal(text(seen.result), "Deleted notes.txt");

  const slow = await startTask(talk, "slow_compute", { seconds: 600 });
  await ask("tasks/cancel", { taskId: slow.taskId });
  await until("the end of the cancelled task", async () => (await get(slow.taskId)).status === "cancelled");
}

function transport(where) {
  if (where.url) return new StreamableHTTPClientTransport(new URL(where.url));
  const [command, ...args] = where.command;
  return new StdioClientTransport({ command, args, stderr: "ignore" });
}

const subscribeOld = (client) => async (uri) => {
  await client.subscribeResource({ uri });
  return () => client.unsubscribeResource({ uri });
};
const subscribeNew = (client) => async (uri) => {
  const subscription = await client.listen({
    resourceSubscriptions: [uri],
    toolsListChanged: true,
    promptsListChanged: true,
  });
  assert.deepEqual(subscription.honoredFilter.resourceSubscriptions, [uri]);
  return () => subscription.close();
};

export async function open(where, era) {
  const modern = era === "2026-07-28";
  const capabilities = { elicitation: {}, sampling: {}, roots: {} };
  if (modern) capabilities.extensions = { [extension]: {} };
  const client = new Client(
    { name: "interop", version: "2.0.0" },
    { capabilities, versionNegotiation: { mode: modern ? "auto" : "legacy" } },
  );
  const notifications = [];
  client.setRequestHandler("elicitation/create", (request) => elicit(request.params));
  client.setRequestHandler("sampling/createMessage", (request) => sample(request.params));
  client.setRequestHandler("roots/list", roots);
  client.fallbackNotificationHandler = async (notification) => void notifications.push(notification);
  const wire = transport(where);
  await client.connect(wire);
  assert.equal(client.getNegotiatedProtocolVersion(), era);
  return {
    client,
    wire,
    missing: -32602, // whatever the server said
    heard: (method) => notifications.filter((notification) => notification.method === method),
    call: (name, args, options) => client.callTool({ name, arguments: args }, options),
    setLevel: modern ? undefined : (level) => client.setLoggingLevel(level),
    subscribe: modern ? subscribeNew(client) : subscribeOld(client),
    more: modern ? { tasks } : {},
    close: async () => {
      if (where.url && !modern) await wire.terminateSession();
      await client.close();
    },
  };
}

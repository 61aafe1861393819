// sdk1.mjs - the TypeScript SDK 1.x (2025-11-25 and before), over stdio, HTTP and the
// two endpoints of 2024-11-05, and its tasks.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import assert from "node:assert/strict";
import { elicit, roots, sample, text } from "./talk.mjs";

async function runToEnd(client, name, args) {
  const kinds = [];
  let result;
  for await (const message of client.experimental.tasks.callToolStream({ name, arguments: args }, undefined, {
    task: { ttl: 60000 },
  })) {
    kinds.push(message.type);
    if (message.type === "error") throw message.error;
    if (message.type === "result") result = message.result;
  }
  assert.equal(kinds[0], "taskCreated");
  return result;
}

async function firstTask(client, name, args) {
  for await (const message of client.experimental.tasks.callToolStream({ name, arguments: args }, undefined, {
    task: { ttl: 60000 },
  })) {
    if (message.type === "taskCreated") return message.task;
  }
}

async function tasks({ client }) {
  const computed = await runToEnd(client, "slow_compute", { seconds: 0.3, label: "sum" });
  assert.equal(text(computed), "sum: computed");
  const asked = await runToEnd(client, "confirm_delete", { filename: "notes.txt" });
  assert.equal(text(asked), "Deleted notes.txt");
  const task = await firstTask(client, "slow_compute", { seconds: 600 });
  assert.equal((await client.experimental.tasks.getTask(task.taskId)).status, "working");
  assert.equal((await client.experimental.tasks.cancelTask(task.taskId)).status, "cancelled");
  assert.equal((await client.experimental.tasks.getTask(task.taskId)).status, "cancelled");
}

export function transport(where) {
  if (where.sse) return new SSEClientTransport(new URL("/sse", where.url));
  if (where.url) return new StreamableHTTPClientTransport(new URL(where.url));
  const [command, ...args] = where.command;
  return new StdioClientTransport({ command, args, stderr: "ignore" });
}

export async function open(where) {
  const client = new Client(
    { name: "interop", version: "1.0.0" },
    { capabilities: { elicitation: {}, sampling: {}, roots: {} } },
  );
  const notifications = [];
  client.setRequestHandler(ElicitRequestSchema, (request) => elicit(request.params));
  client.setRequestHandler(CreateMessageRequestSchema, (request) => sample(request.params));
  client.setRequestHandler(ListRootsRequestSchema, roots);
  client.fallbackNotificationHandler = async (notification) => void notifications.push(notification);
  const wire = transport(where);
  await client.connect(wire);
  return {
    client,
    missing: -32002,
    heard: (method) => notifications.filter((notification) => notification.method === method),
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    setLevel: (level) => client.setLoggingLevel(level),
    subscribe: async (uri) => {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    more: { tasks },
    close: async () => {
      if (wire.terminateSession) await wire.terminateSession();
      await client.close();
    },
  };
}

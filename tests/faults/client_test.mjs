// client_test.mjs - the clients of the fault test write down all that a server says, so that the checker can find it: here the server is wrong.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { LegacyClient, ModernClient, OldestClient } from "./client.mjs";
import { check } from "./checker.mjs";

const result = (id, text) => ({ jsonrpc: "2.0", id, result: text ? { content: [{ type: "text", text }] } : {} });
const event = (message) => `data: ${JSON.stringify(message)}\n\n`;

// `answers(id, call)` says what comes on the stream for a call.
class Server {
  constructor(answers) {
    this.answers = answers;
    this.ran = [];
  }
  async start() {
    this.server = http.createServer((request, response) => this.take(request, response));
    await new Promise((go) => this.server.listen(0, "127.0.0.1", go));
    return `http://127.0.0.1:${this.server.address().port}/mcp`;
  }
  async take(request, response) {
    let text = "";
    for await (const piece of request.setEncoding("utf8")) text += piece;
    if (request.method === "GET") return this.open(response);
    const message = JSON.parse(text), posted = request.url.startsWith("/message");
    if (message.id === undefined) return response.writeHead(202).end();
    if (message.method === "initialize" && !posted) return response.writeHead(200, { "mcp-session-id": "s" }).end(JSON.stringify(result(message.id)));
    if (posted) response.writeHead(202).end();
    else response.writeHead(200, { "content-type": "text/event-stream" });
    const told = message.method === "initialize" ? [result(message.id)] : this.run(message);
    for (const one of told) (posted ? this.stream : response).write(event(one));
    if (!posted) response.end();
  }
  run({ id, params }) {
    const { call } = params.arguments;
    this.ran.push({ call, token: "T", node: "1.1" });
    return this.answers(id, call);
  }
  open(response) {
    this.stream = response;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("event: endpoint\ndata: /message?sessionId=s\n\n");
  }
  end() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

async function kindsOf(Kind, answers) {
  const folder = mkdtempSync(join(tmpdir(), "idem-client-"));
  const server = new Server(answers);
  const client = new Kind(1, { url: await server.start(), seed: 1, folder, calm: true });
  await client.attempt({ name: "a", tool: "mark", key: "k" }, {});
  await client.close();
  server.end();
  rmSync(folder, { recursive: true });
  return check(client.history.records, server.ran).violations.map(({ kind }) => kind);
}

for (const Kind of [ModernClient, LegacyClient, OldestClient]) {
  const says = (words, kinds, answers) => test(`${Kind.name}: ${words}`, async () => assert.deepEqual(await kindsOf(Kind, answers), kinds));
  says("one answer is right", [], (id, call) => [result(id, `${call} T`)]);
  says("a second answer is found", ["answered-twice"], (id, call) => [result(id, `${call} T`), result(id, `${call} T`)]);
  says("another's answer is found", ["foreign-answer"], (id) => [result(id, "b T")]);
}
test("OldestClient: an answer to nobody's request is found", async () =>
  assert.deepEqual(await kindsOf(OldestClient, (id, call) => [result(99, "b T"), result(id, `${call} T`)]), ["unasked"]));

// probes.mjs - what the specification demands of servers, asked of a running one: each probe names its rows of list.txt and is
// made in each revision it says, on stdin and stdout and over HTTP: `node probes.mjs CONFORMANCE-SERVER REFERENCE CALCULATOR IDEM-VALIDATE [ID]`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { judge } from "./schemas.mjs";
import { Line, MODERN, Peer, Web, events, request } from "./talk.mjs";

const LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const ALL = [...LEGACY, MODERN];
const since = (date) => ALL.filter((one) => one >= date);
const STREAMS = ["2025-03-26", "2025-06-18", "2025-11-25"]; // legacy sessions over HTTP
const ASKING = { sampling: {}, roots: {}, elicitation: { form: {}, url: {} } };

const probes = [];
// `on`: the transports; `fresh`: a peer of its own, that did not shake hands if it is "raw".
function probe(ids, revisions, run, { on = ["stdio", "http"], fresh = false, caps } = {}) {
  for (const revision of revisions) for (const kind of on) probes.push({ ids, revision, kind, run, fresh, caps });
}
const text = ({ answer }) => answer.result?.content?.[0]?.text;

// ------------------------------------------------------------------------- messages

probe("base.id-kinds", ALL, async (peer) => {
  for (const id of [null, 1.5, true, [], {}]) {
    const message = { ...peer.message("tools/list", {}), id };
    const { answer } = await peer.wire.exchange(message, null);
    assert.equal(answer.error.code, -32600, JSON.stringify(id));
  }
});
probe("base.same-id", ALL, async (peer) => {
  for (const id of [7, "7", 0, -1, "", "é\u0000\"", "x".repeat(200), 9007199254740991]) {
    const { answer } = await peer.ask("tools/list", {}, { id });
    assert.deepEqual(answer.id, id);
  }
});
probe("base.same-id", ALL, async (peer) => {
  const sent = JSON.stringify(peer.message("tools/list", {}, 77)).replace('"id":77', '"id":123456789012345678901234567890');
  const { raw } = await peer.wire.exchange(sent, 123456789012345678901234567890);
  assert.match(raw, /"id":123456789012345678901234567890[,}]/);
}, { on: ["stdio"] });
probe("base.one-of-two base.code-integer", ALL, async (peer) => {
  const { answer: good } = await peer.ask("tools/list");
  assert.deepEqual(Object.keys(good).sort(), ["id", "jsonrpc", "result"]);
  for (const [method, params] of [["nope"], ["tools/call", { name: "nope" }], ["tools/call", {}], ["prompts/get", { name: 7 }],
    ["resources/read", { uri: "test://none" }], ["tools/list", { cursor: 5 }], ["completion/complete", {}]]) {
    const { answer } = await peer.ask(method, params);
    assert.deepEqual(Object.keys(answer).sort(), ["error", "id", "jsonrpc"]);
    assert.ok(Number.isInteger(answer.error.code) && typeof answer.error.message === "string" && answer.error.message, method);
  }
});
probe("base.silent-notifications", ALL, async (peer) => {
  const from = peer.wire.messages.length;
  for (const method of ["notifications/nope", "tools/list", "notifications/cancelled", "notifications/initialized"]) {
    peer.wire.send({ jsonrpc: "2.0", method, params: peer.params({ requestId: "none" }) });
  }
  await peer.ask("tools/list");
  assert.equal(peer.wire.messages.length, from + 1);
}, { on: ["stdio"] });
probe("base.silent-notifications", since("2025-03-26"), async (peer) => {
  const { status, text: body } = await peer.wire.post({ jsonrpc: "2.0", method: "notifications/nope", params: peer.params() });
  assert.deepEqual([status, body], [202, ""]);
}, { on: ["http"] });
probe("base.notifications-without-id logging.declared", ALL, async (peer) => {
  const level = peer.modern ? { "io.modelcontextprotocol/logLevel": "debug" } : {};
  const given = { name: "test_tool_with_logging", _meta: { progressToken: "t", ...level } };
  const { before } = await peer.ask("tools/call", given);
  const lines = before.filter((one) => one.method === "notifications/message");
  assert.ok(lines.length >= 2);
  for (const one of before) assert.ok(!("id" in one));
});
probe("base.ids-in-flight", ALL, async (peer) => {
  peer.wire.send(peer.message("tools/call", { name: "test_slow" }, "slow"));
  const { answer } = await peer.ask("tools/list", {}, { id: "slow" });
  assert.ok(answer.error, "an id in flight was taken twice");
  peer.wire.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: peer.params({ requestId: "slow" }) });
}, { on: ["stdio"] });
probe("base.own-ids", LEGACY, async (peer) => {
  peer.answers = () => ({ result: { role: "assistant", model: "m", content: { type: "text", text: "yes" } } });
  for (let i = 0; i < 3; i++) await peer.call("test_sampling", { prompt: "x" });
  const ids = peer.asked.map((one) => one.id);
  assert.equal(new Set(ids).size, 3);
  for (const id of ids) assert.ok(Number.isInteger(id) || typeof id === "string");
}, { on: ["stdio"], fresh: true, caps: ASKING });
probe("base.unknown-meta", since("2025-06-18"), async (peer) => {
  const _meta = { "com.example/x": [1], "io.modelcontextprotocol.nope/y": {}, z: null };
  assert.ok((await peer.result("tools/list", { _meta })).tools.length);
});
probe("base.schema-2020", since("2025-11-25"), async (peer) => {
  const good = await peer.call("json_schema_2020_12_tool", { name: "a", email: "e", address: { street: "s", city: "c" } });
  assert.ok(good.answer.result && !good.answer.result.isError);
  const bad = await peer.call("json_schema_2020_12_tool", { contactMethod: "phone", email: "e" });
  assert.equal(bad.answer.result.isError, true);
});
probe("base.batch", ["2025-03-26"], async (peer) => {
  const batch = JSON.stringify([peer.message("ping", {}, "b1"), { jsonrpc: "2.0", method: "notifications/x" }, peer.message("nope", {}, "b2")]);
  if (peer.wire.kind === "http") {
    const { status, text: body } = await peer.wire.post(batch);
    assert.equal(status, 200);
    const all = JSON.parse(body);
    assert.deepEqual(all.map((one) => one.id).sort(), ["b1", "b2"]);
  } else {
    peer.wire.send(batch);
    const { message } = await peer.wire.find((one) => Array.isArray(one));
    assert.deepEqual(message.map((one) => one.id).sort(), ["b1", "b2"]);
  }
});
probe("base.no-batch", ["2024-11-05", ...since("2025-06-18")], async (peer) => {
  const { answer } = await peer.wire.exchange(JSON.stringify([peer.message("tools/list", {}, "b1")]), null);
  const error = Array.isArray(answer) ? answer[0].error : answer.error;
  assert.equal(error.code, -32600);
});

// ------------------------------------------------------------------------- lifecycle

probe("lifecycle.first", LEGACY, async (peer) => {
  for (const method of ["tools/list", "tools/call", "resources/read", "prompts/get", "logging/setLevel"]) {
    const { answer } = await peer.ask(method, { name: "test_simple_text" });
    assert.ok(answer.error, `${method} was served before initialize`);
  }
  assert.deepEqual((await peer.ask("ping")).answer.result, {});
}, { on: ["stdio"], fresh: "raw" });
probe("lifecycle.first", STREAMS, async (peer) => {
  const { status } = await peer.ask("tools/list");
  assert.equal(status, 400);
}, { on: ["http"], fresh: "raw" });
probe("lifecycle.answer lifecycle.same-version tools.declared resources.declared prompts.declared logging.declared", LEGACY, async (peer) => {
  const { protocolVersion, capabilities, serverInfo } = peer.hello;
  assert.equal(protocolVersion, peer.revision);
  assert.ok(serverInfo.name && serverInfo.version);
  for (const name of ["tools", "resources", "prompts", "logging"]) assert.ok(capabilities[name], name);
}, { fresh: true });
probe("completion.declared", ["2025-03-26", "2025-06-18", "2025-11-25"], async (peer) => assert.ok(peer.hello.capabilities.completions), { fresh: true });
probe("tasks.declared", ["2025-11-25"], async (peer) => assert.ok(peer.hello.capabilities.tasks.requests.tools.call), { fresh: true });
for (const asked of ["1999-01-01", "2026-07-28", "nonsense", "", "2099-12-31"]) {
  probe("lifecycle.other-version", LEGACY, async (peer) => {
    const params = { protocolVersion: asked, capabilities: {}, clientInfo: { name: "p", version: "1" } };
    const { answer } = await peer.wire.exchange({ jsonrpc: "2.0", id: 1, method: "initialize", params }, 1);
    assert.ok(LEGACY.includes(answer.result.protocolVersion));
  }, { fresh: "raw", on: ["stdio"] });
}
probe("lifecycle.no-batch", ["2025-03-26"], async (peer) => {
  const params = { protocolVersion: peer.revision, capabilities: {}, clientInfo: { name: "p", version: "1" } };
  const batch = JSON.stringify([{ jsonrpc: "2.0", id: 1, method: "initialize", params }]);
  const { answer } = await peer.wire.exchange(batch, null);
  assert.ok((Array.isArray(answer) ? answer[0] : answer).error);
}, { fresh: "raw" });
probe("lifecycle.agreed-only", LEGACY, async (peer) => {
  const { tools } = await peer.result("tools/list");
  const { resources } = await peer.result("resources/list");
  const known = new Set([...tools, ...resources].flatMap(Object.keys));
  if (peer.revision < "2025-06-18") for (const name of ["title", "outputSchema", "_meta"]) assert.ok(!known.has(name), name);
  if (peer.revision < "2025-11-25") for (const name of ["icons", "execution"]) assert.ok(!known.has(name), name);
  if (peer.revision < "2025-03-26") assert.ok(!known.has("annotations") || !tools.some((tool) => tool.annotations));
  for (const method of ["server/discover", "subscriptions/listen", "tasks/update"]) assert.ok((await peer.ask(method)).answer.error);
  if (peer.revision < "2025-11-25") assert.equal((await peer.error("tasks/get", { taskId: "x" })).code, -32601);
});
probe("lifecycle.undeclared-not-asked sampling.declared elicitation.declared roots.declared", ALL, async (peer) => {
  for (const [name, args] of [["test_sampling", { prompt: "x" }], ["test_elicitation", { message: "x" }], ["test_input_required_result_list_roots", {}]]) {
    const { answer, before } = await peer.call(name, args);
    assert.ok(!before.some((one) => one.method && "id" in one), `${name} asked`);
    if (peer.modern) assert.equal(answer.error.code, -32021);
    else assert.equal(answer.result.isError, true);
  }
});
probe("ping.answered", LEGACY, async (peer) => assert.deepEqual(await peer.result("ping"), {}));
probe("versioning.no-ping", [MODERN], async (peer) => {
  for (const method of ["ping", "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list", "tasks/result"]) {
    assert.equal((await peer.error(method, { level: "info", uri: "test://x" })).code, -32601, method);
  }
});
probe("versioning.discover tools.declared resources.declared prompts.declared completion.declared logging.declared", [MODERN], async (peer) => {
  const found = await peer.result("server/discover");
  assert.ok(found.supportedVersions.includes(MODERN));
  for (const name of ["tools", "resources", "prompts", "completions", "logging"]) assert.ok(found.capabilities[name], name);
});
for (const asked of ["1900-01-01", "v999.0.0", "2025-11-25", "2026-07-29"]) {
  probe("versioning.unsupported http.unsupported-400", [MODERN], async (peer) => {
    const message = peer.message("tools/list", { _meta: { "io.modelcontextprotocol/protocolVersion": asked } });
    const { answer, status } = await peer.wire.exchange(message, message.id, { "mcp-protocol-version": asked });
    assert.equal(answer.error.code, -32022);
    assert.ok(answer.error.data.supported.includes(MODERN));
    assert.equal(answer.error.data.requested, asked);
    if (peer.wire.kind === "http") assert.equal(status, 400);
  });
}
for (const missing of ["protocolVersion", "clientCapabilities"]) {
  for (const value of [undefined, 7, null, []]) {
    probe("base.meta-required", [MODERN], async (peer) => {
      const message = peer.message("tools/list", { _meta: { ["io.modelcontextprotocol/" + missing]: value } });
      const { answer, status } = await peer.wire.exchange(message, message.id);
      assert.equal(answer.error.code, -32602);
      assert.match(answer.error.message, new RegExp(missing));
      if (peer.wire.kind === "http") assert.equal(status, 400);
    });
  }
}
probe("base.result-type", [MODERN], async (peer) => {
  for (const [method, params] of [["tools/list"], ["resources/list"], ["resources/templates/list"], ["prompts/list"], ["server/discover"],
    ["tools/call", { name: "test_simple_text" }], ["resources/read", { uri: "test://static-text" }], ["prompts/get", { name: "test_simple_prompt" }],
    ["completion/complete", { ref: { type: "ref/prompt", name: "test_prompt_with_arguments" }, argument: { name: "arg1", value: "t" } }]]) {
    assert.equal((await peer.result(method, params)).resultType, "complete", method);
  }
});
probe("base.no-foreign-codes resources.missing", [MODERN], async (peer) => {
  const codes = [];
  for (const [method, params] of [["resources/read", { uri: "test://none" }], ["tools/call", { name: "none" }], ["prompts/get", { name: "none" }],
    ["tools/list", { cursor: "zz" }], ["nope", {}], ["tasks/get", { taskId: "x" }]]) codes.push((await peer.error(method, params)).code);
  assert.equal(codes[0], -32602);
  for (const code of codes) assert.ok([-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022].includes(code), String(code));
});
probe("base.stateless tools.same-list", [MODERN], async (peer) => {
  const before = await peer.result("tools/list");
  await peer.call("test_simple_text");
  await peer.ask("tools/list", {}, { caps: { sampling: {} } });
  assert.deepEqual(await peer.result("tools/list"), before);
  // What one request declared another does not have.
  await peer.call("test_sampling", { prompt: "x" }, { caps: { sampling: {} } });
  assert.equal((await peer.call("test_sampling", { prompt: "x" })).answer.error.code, -32021);
});
probe("base.capability-missing", [MODERN], async (peer) => {
  const { answer, status } = await peer.call("test_missing_capability");
  assert.equal(answer.error.code, -32021);
  assert.equal(typeof answer.error.data.requiredCapabilities, "object");
  assert.ok(!Array.isArray(answer.error.data.requiredCapabilities));
  if (peer.wire.kind === "http") assert.equal(status, 400);
});
probe("versioning.extension-fallback", [MODERN], async (peer) => {
  assert.equal((await peer.call("greet", { name: "Ada" })).answer.result.resultType, "complete");
  const { answer } = await peer.ask("tasks/get", { taskId: "0".repeat(32) });
  assert.equal(answer.error.code, -32021);
});

// ---------------------------------------------------------------------- stdin, stdout

probe("stdio.one-line stdio.only-messages", ALL, async (peer) => {
  await peer.call("greet", { name: "line\nbreak\r\n\u2028" });
  for (const line of peer.wire.lines) assert.equal(JSON.parse(line).jsonrpc ?? JSON.parse(line)[0].jsonrpc, "2.0");
}, { on: ["stdio"] });
probe("transports.utf8", since("2025-03-26"), async (peer) => {
  const from = peer.wire.messages.length;
  peer.wire.write(Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":1,"method":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}\n')]));
  const { message } = await peer.wire.find((one) => one.error, from);
  assert.equal(message.error.code, -32700);
  const { answer } = await peer.call("greet", { name: "Žluťoučký 🐎" });
  assert.match(JSON.stringify(answer), /Žluťoučký 🐎/);
}, { on: ["stdio"] });
probe("stdio.no-requests mrtr.no-requests http.no-requests", [MODERN], async (peer) => {
  const from = peer.wire.messages?.length;
  const { answer, before } = await peer.call("test_sampling", { prompt: "x" }, { caps: ASKING });
  assert.equal(answer.result.resultType, "input_required");
  const sent = peer.wire.messages ? peer.wire.messages.slice(from) : before;
  assert.ok(!sent.some((one) => one.method && "id" in one));
});
probe("stdio.cancel-silences cancel.honoured", ALL, async (peer) => {
  const id = `c${++peer.count}`;
  peer.wire.send(peer.message("tools/call", { name: "test_slow" }, id));
  peer.wire.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: peer.params({ requestId: id }) });
  await peer.ask("tools/list");
  assert.ok(!peer.wire.messages.some((one) => one.id === id));
}, { on: ["stdio"] });
probe("cancel.races", ALL, async (peer) => {
  for (const requestId of ["never", 0, peer.count, -5, null, {}, undefined]) {
    await peer.wire.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: peer.params({ requestId, reason: "x" }) });
  }
  assert.ok((await peer.result("tools/list")).tools);
});

// ------------------------------------------------------------------------------- HTTP

probe("http.one-path", since("2025-03-26"), async (peer) => {
  assert.equal((await peer.ask("tools/list")).status, 200);
  if (!peer.modern) assert.notEqual((await request(peer.wire.url, { method: "DELETE", headers: { "mcp-session-id": "none" } })).status, 200);
}, { on: ["http"] });
probe("http.accepted", since("2025-03-26"), async (peer) => {
  const { status, text: body } = await peer.wire.post({ jsonrpc: "2.0", method: "notifications/progress", params: peer.params({ progressToken: 1, progress: 1 }) });
  assert.deepEqual([status, body], [202, ""]);
}, { on: ["http"] });
for (const body of ["", "{", "[]", "7", "null", '{"jsonrpc":"1.0","id":1,"method":"ping"}', '{"jsonrpc":"2.0","method":7}']) {
  probe("http.bad-input", since("2025-03-26"), async (peer) => {
    const { status } = await peer.wire.post(body);
    assert.ok(status >= 400 && status < 500, `${body}: ${status}`);
  }, { on: ["http"] });
}
probe("http.json-or-stream", since("2025-03-26"), async (peer) => {
  const plain = await peer.ask("tools/list");
  assert.match(plain.headers["content-type"], /^(application\/json|text\/event-stream)/);
  const told = await peer.ask("tools/call", { name: "test_tool_with_progress", _meta: { progressToken: 1 } });
  assert.match(told.headers["content-type"], /^text\/event-stream/);
  assert.ok(told.answer.result);
  const alone = await peer.ask("tools/list", {}, { headers: { accept: "text/event-stream" } });
  assert.match(alone.headers["content-type"], /^text\/event-stream/);
}, { on: ["http"] });
for (const origin of ["http://evil.example", "null", "https://127.0.0.1.evil.example", "file://"]) {
  probe("http.origin", since("2025-03-26"), async (peer) => {
    const { status } = await peer.ask("tools/list", {}, { headers: { origin } });
    assert.equal(status, 403);
  }, { on: ["http"] });
}
probe("http.get-stream", STREAMS, async (peer) => {
  const found = await new Promise((resolve, reject) => {
    request(peer.wire.url, { method: "GET", headers: { accept: "text/event-stream", ...peer.wire.headers }, onEvent: (text, sent) => {
      resolve(text);
      sent.destroy();
    } }).catch(reject);
  });
  assert.ok(!found.includes('"result"'), "a response on the GET stream");
}, { on: ["http"] });
probe("http.get-refused", [MODERN], async (peer) => {
  for (const method of ["GET", "DELETE", "PUT"]) {
    const { status } = await request(peer.wire.url, { method, headers: { "mcp-protocol-version": MODERN, accept: "text/event-stream" } });
    assert.ok(status === 405 || status === 400, `${method} ${status}`);
  }
}, { on: ["http"] });
probe("http.session-id", STREAMS, async (peer) => {
  const id = peer.wire.headers["mcp-session-id"];
  assert.match(id, /^[\x21-\x7e]{32,}$/);
  const again = await Peer.open(new Web(peer.wire.url), peer.revision);
  assert.notEqual(again.wire.headers["mcp-session-id"], id);
}, { on: ["http"] });
probe("http.session-404", STREAMS, async (peer) => {
  assert.ok((await peer.result("ping")));
  const gone = await request(peer.wire.url, { method: "DELETE", headers: peer.wire.headers });
  assert.ok(gone.status === 200 || gone.status === 204);
  assert.equal((await peer.ask("tools/list")).status, 404);
  assert.equal((await peer.wire.get()).status, 404);
}, { on: ["http"], fresh: true });
probe("http.session-needed", STREAMS, async (peer) => {
  for (const method of ["tools/list", "ping"]) assert.equal((await peer.ask(method)).status, 400);
  const { status } = await peer.wire.post({ jsonrpc: "2.0", method: "notifications/initialized" });
  assert.equal(status, 400);
}, { on: ["http"], fresh: "raw" });
for (const asked of ["1999-01-01", "nonsense", "2026-07-29"]) {
  probe("http.version-400", ["2025-06-18", "2025-11-25"], async (peer) => {
    const headers = { "mcp-protocol-version": asked };
    assert.equal((await peer.ask("tools/list", {}, { headers })).status, 400);
    assert.equal((await peer.wire.post({ jsonrpc: "2.0", method: "notifications/x" }, headers)).status, 400);
  }, { on: ["http"] });
}
probe("http.replay http.event-ids", STREAMS, async (peer) => {
  const { text: body } = await peer.wire.post(peer.message("tools/call", { name: "test_tool_with_progress", _meta: { progressToken: 1 } }));
  const ids = [...body.matchAll(/^id: ?(.+)$/gm)].map((found) => found[1]);
  const other = await peer.wire.post(peer.message("tools/call", { name: "test_tool_with_progress", _meta: { progressToken: 2 } }));
  const others = [...other.text.matchAll(/^id: ?(.+)$/gm)].map((found) => found[1]);
  assert.equal(new Set([...ids, ...others]).size, ids.length + others.length);
  const again = await peer.wire.get({ "last-event-id": ids[0] });
  const replayed = events(again.text).map((event) => event.id);
  assert.deepEqual(replayed, ids.slice(1).filter((id) => replayed.includes(id)));
  assert.ok(replayed.length >= 1 && !replayed.some((id) => others.includes(id)));
}, { on: ["http"] });
probe("http.unknown-404", [MODERN], async (peer) => {
  for (const method of ["nope", "initialize", "ping", "tasks/list"]) {
    const { status, answer } = await peer.ask(method);
    assert.deepEqual([status, answer.error.code], [404, -32601], method);
  }
}, { on: ["http"] });
probe("http.header-match", [MODERN], async (peer) => {
  const good = peer.message("tools/call", { name: "test_simple_text" });
  for (const headers of [{ "mcp-method": "tools/list" }, { "mcp-method": null }, { "mcp-name": "other" }, { "mcp-name": null },
    { "mcp-protocol-version": "2025-11-25" }, { "mcp-name": "=?base64?!!!?=" }, { "mcp-name": "TEST_SIMPLE_TEXT" }]) {
    const { status, answer } = await peer.wire.exchange(good, good.id, headers);
    assert.deepEqual([status, answer.error.code], [400, -32020], JSON.stringify(headers));
  }
}, { on: ["http"] });
probe("http.header-names", [MODERN], async (peer) => {
  const good = peer.message("tools/call", { name: "test_simple_text" });
  const { status } = await peer.wire.exchange(good, good.id, { "mcp-name": null, "MCP-NAME": "test_simple_text" });
  assert.equal(status, 200);
}, { on: ["http"] });
probe("http.header-decode http.param-match http.param-missing http.param-null", [MODERN], async (peer) => {
  const wrapped = `=?base64?${Buffer.from("Zürich").toString("base64")}?=`;
  const ask = (args, headers) => peer.call("test_x_mcp_header", args, { headers });
  assert.equal(text(await ask({ region: "Zürich" }, { "mcp-param-region": wrapped })), "region: Zürich");
  assert.equal((await ask({ region: "a" }, { "mcp-param-region": "a" })).status, 200);
  for (const [args, value] of [[{ region: "a" }, "b"], [{ region: "a" }, null], [{ region: "a" }, "=?base64?%%?="]]) {
    const { status, answer } = await ask(args, { "mcp-param-region": value });
    assert.deepEqual([status, answer.error.code], [400, -32020]);
  }
  assert.equal((await ask({}, {})).status, 200);
}, { on: ["http"] });
probe("http.no-responses", [MODERN], async (peer) => {
  for (const reply of [{ result: {} }, { error: { code: 1, message: "x" } }]) {
    const { status } = await peer.wire.post({ jsonrpc: "2.0", id: 1, ...reply });
    assert.equal(status, 400);
  }
}, { on: ["http"] });
probe("http.disconnect-cancels", [MODERN], async (peer) => {
  const count = async () => Number(text(await peer.call("test_cancelled_count")));
  const before = await count();
  const body = JSON.stringify(peer.message("tools/call", { name: "test_slow" }));
  await new Promise((resolve) => {
    const url = new URL(peer.wire.url);
    import("node:http").then(({ default: http }) => {
      const sent = http.request(url, { method: "POST", agent: false, headers: peer.wire.standard(JSON.parse(body)) }, () => {});
      sent.on("error", () => {});
      sent.on("close", resolve);
      sent.end(body, () => setTimeout(() => sent.destroy(), 50));
    });
  });
  const end = Date.now() + 30000;
  while ((await count()) === before) assert.ok(Date.now() < end, "the call was not cancelled");
}, { on: ["http"], fresh: true });
probe("http.only-related", [MODERN], async (peer) => {
  const { before } = await peer.ask("tools/call", { name: "test_tool_with_progress", _meta: { progressToken: "mine" } });
  assert.ok(before.length);
  for (const one of before) assert.equal(one.params.progressToken, "mine");
}, { on: ["http"] });

// -------------------------------------------------------------------------- progress

probe("progress.grows progress.known-token progress.stops", ALL, async (peer) => {
  for (const progressToken of ["t", 0, 12345678901, ""]) {
    const { before, answer } = await peer.ask("tools/call", { name: "test_tool_with_progress", _meta: { progressToken } });
    const steps = before.filter((one) => one.method === "notifications/progress");
    assert.ok(answer.result && steps.length >= 2);
    let last = -1;
    for (const { params } of steps) {
      assert.deepEqual(params.progressToken, progressToken);
      assert.ok(params.progress > last);
      last = params.progress;
    }
  }
  const quiet = await peer.call("test_tool_with_progress");
  assert.ok(!quiet.before.some((one) => one.method === "notifications/progress"));
});
probe("progress.token-kinds", ALL, async (peer) => {
  for (const progressToken of [1.5, true, null, {}, []]) {
    assert.equal((await peer.error("tools/call", { name: "test_simple_text", _meta: { progressToken } })).code, -32602);
  }
});

// ------------------------------------------------------- tools, resources, prompts, ...

probe("tools.validated", ALL, async (peer) => {
  for (const args of [{}, { name: 7 }, { name: null }, { name: ["a"] }]) {
    const { answer } = await peer.call("greet", args);
    if (peer.revision >= "2025-11-25") assert.equal(answer.result.isError, true);
    else assert.equal(answer.error.code, -32602);
  }
  for (const args of [7, "x", [], true]) assert.ok((await peer.call("greet", args)).answer.error, JSON.stringify(args));
});
probe("tools.schema-object tools.listed", since("2025-11-25"), async (peer) => {
  for (const tool of (await peer.result("tools/list")).tools) assert.equal(tool.inputSchema.type, "object", tool.name);
});
probe("resources.validated", ALL, async (peer) => {
  for (const uri of ["test://none", "", "no uri", "file:///etc/passwd", "test://template/../../x", 7, null]) {
    if (typeof uri !== "string" && peer.modern && peer.wire.kind === "http") continue; // no header can mirror it
    const error = await peer.error("resources/read", { uri });
    assert.ok([-32002, -32602].includes(error.code), String(uri));
    if (peer.modern) assert.equal(error.code, -32602);
  }
});
probe("resources.encoded", ALL, async (peer) => {
  const { contents } = await peer.result("resources/read", { uri: "test://static-binary" });
  assert.equal(Buffer.from(contents[0].blob, "base64").toString("base64"), contents[0].blob);
  assert.ok(contents[0].mimeType);
});
probe("resources.listed prompts.listed", [MODERN], async (peer) => {
  assert.ok((await peer.result("resources/list")).resources);
  assert.ok((await peer.result("prompts/list")).prompts);
});
probe("prompts.validated", ALL, async (peer) => {
  for (const params of [{ name: "none" }, {}, { name: 5 }, { name: "test_prompt_with_arguments" }, { name: "test_prompt_with_arguments", arguments: { arg1: 7, arg2: "x" } },
    { name: "test_prompt_with_arguments", arguments: [] }]) if (typeof params.name === "string" || !peer.modern || peer.wire.kind === "stdio") assert.equal((await peer.error("prompts/get", params)).code, -32602);
});
probe("prompts.image prompts.embedded", ALL, async (peer) => {
  const { messages } = await peer.result("prompts/get", { name: "test_prompt_with_image" });
  const image = messages.map((one) => one.content).find((one) => one.type === "image");
  assert.ok(image.mimeType && Buffer.from(image.data, "base64").length);
  const embedded = await peer.result("prompts/get", { name: "test_prompt_with_embedded_resource", arguments: { resourceUri: "test://x" } });
  const { resource } = embedded.messages.map((one) => one.content).find((one) => one.type === "resource");
  assert.ok(resource.uri && ("text" in resource || "blob" in resource));
});
probe("completion.validated", ALL, async (peer) => {
  const ref = { type: "ref/prompt", name: "test_prompt_with_arguments" }, argument = { name: "arg1", value: "t" };
  for (const params of [{}, { ref }, { argument }, { ref: 7, argument }, { ref: { type: "nope" }, argument }, { ref, argument: { name: "arg1" } },
    { ref, argument: { name: 7, value: "x" } }, { ref: { type: "ref/prompt", name: "none" }, argument }]) {
    assert.equal((await peer.error("completion/complete", params)).code, -32602, JSON.stringify(params));
  }
  assert.ok((await peer.result("completion/complete", { ref, argument })).completion.values.length <= 100);
});
probe("logging.validated", LEGACY, async (peer) => {
  for (const level of ["loud", 7, null, "", "INFO"]) assert.equal((await peer.error("logging/setLevel", { level })).code, -32602);
  assert.deepEqual(await peer.result("logging/setLevel", { level: "debug" }), {});
});
probe("logging.only-asked", [MODERN], async (peer) => {
  const { before } = await peer.call("test_tool_with_logging");
  assert.ok(!before.some((one) => one.method === "notifications/message"));
});
probe("pagination.cursors", ALL, async (peer) => {
  for (const method of ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]) {
    for (const cursor of ["nope", 7, {}, "t1.1"]) assert.equal((await peer.error(method, { cursor })).code, -32602, method);
  }
});
probe("caching.hints caching.ttl caching.scope", [MODERN], async (peer) => {
  for (const [method, params] of [["server/discover"], ["tools/list"], ["prompts/list"], ["resources/list"], ["resources/templates/list"], ["resources/read", { uri: "test://static-text" }]]) {
    const { ttlMs, cacheScope } = await peer.result(method, params);
    assert.ok(Number.isInteger(ttlMs) && ttlMs >= 0, method);
    assert.ok(["public", "private"].includes(cacheScope), method);
  }
});

// ---------------------------------------------------------------------------- asking

const answers = {
  "sampling/createMessage": { result: { role: "assistant", model: "m", content: { type: "text", text: "yes" } } },
  "roots/list": { result: { roots: [{ uri: "file:///r" }] } },
  "elicitation/create": { result: { action: "accept", content: { username: "ada", email: "a@b.example" } } },
};
probe("elicitation.params", ["2025-06-18", "2025-11-25"], async (peer) => {
  peer.answers = ({ method }) => answers[method];
  await peer.call("test_elicitation", { message: "Who?" });
  const { params } = peer.asked[0];
  assert.equal(params.message, "Who?");
  assert.equal(params.requestedSchema.type, "object");
  assert.ok(params.mode === undefined || params.mode === "form");
}, { fresh: true, caps: ASKING });
for (const [name, reply] of [["declined", { result: { action: "decline" } }], ["cancelled", { result: { action: "cancel" } }],
  ["failed", { error: { code: -32603, message: "no" } }], ["of no kind", { result: { action: "maybe" } }], ["empty", { result: {} }], ["null", { result: null }]]) {
  probe("elicitation.refusals", ["2025-06-18", "2025-11-25"], async (peer) => {
    peer.answers = () => reply;
    const { answer } = await peer.call("test_elicitation", { message: "Who?" });
    assert.ok(answer.result, name);
    assert.equal(peer.asked.length, 1, `asked ${peer.asked.length} times`);
  }, { fresh: true, caps: ASKING });
}
for (const reply of [{ error: { code: -1, message: "User rejected" } }, { error: { code: -32603, message: "x" } }, { result: { role: "nobody" } }, { result: 5 }]) {
  probe("sampling.refusals", LEGACY, async (peer) => {
    peer.answers = () => reply;
    const { answer } = await peer.call("test_sampling", { prompt: "x" });
    assert.ok(answer.result || answer.error);
    assert.equal(peer.asked.length, 1, `asked ${peer.asked.length} times`);
  }, { fresh: true, caps: ASKING });
}
const rounds = ["test_input_required_result_elicitation", "test_input_required_result_sampling", "test_input_required_result_list_roots",
  "test_input_required_result_request_state", "test_input_required_result_multiple_inputs", "test_input_required_result_multi_round"];
for (const name of rounds) {
  probe("mrtr.one-of mrtr.kinds mrtr.keys", [MODERN], async (peer) => {
    const { result } = (await peer.call(name, {}, { caps: ASKING })).answer;
    assert.equal(result.resultType, "input_required");
    assert.ok(result.inputRequests || result.requestState);
    for (const { method } of Object.values(result.inputRequests ?? {})) assert.ok(Object.hasOwn(answers, method), method);
    assert.ok(!("ttlMs" in result));
  });
}
probe("mrtr.declared", [MODERN], async (peer) => {
  for (const caps of [{}, { roots: {} }, { elicitation: { url: {} } }]) {
    const { answer } = await peer.call("test_input_required_result_elicitation", {}, { caps });
    assert.ok(!answer.result?.inputRequests || caps.elicitation?.form);
  }
});
probe("mrtr.state", [MODERN], async (peer) => {
  const { result } = (await peer.call("test_input_required_result_request_state", {}, { caps: ASKING })).answer;
  const inputResponses = Object.fromEntries(Object.entries(result.inputRequests).map(([key, { method }]) => [key, answers[method].result]));
  const flip = result.requestState.slice(0, -2) + (result.requestState.endsWith("AA") ? "BB" : "AA");
  for (const requestState of [flip, "", "x", 7, null, result.requestState + "A"]) {
    const error = await peer.error("tools/call", { name: "test_input_required_result_request_state", inputResponses, requestState }, { caps: ASKING });
    assert.equal(error.code, -32602);
  }
  const other = await peer.error("tools/call", { name: "test_input_required_result_sampling", inputResponses, requestState: result.requestState }, { caps: ASKING });
  assert.equal(other.code, -32602);
});
probe("mrtr.only-three", [MODERN], async (peer) => {
  for (const method of ["tools/list", "prompts/list", "resources/list", "server/discover"]) {
    assert.equal((await peer.result(method, { inputResponses: {} }, { caps: ASKING })).resultType, "complete");
  }
});

// --------------------------------------------------------------------- subscriptions

probe("subscriptions.acknowledged subscriptions.only-asked base.subscription-id cancel.listen logging.not-on-listen", [MODERN], async (peer) => {
  const id = `l${++peer.count}`, from = peer.wire.messages.length;
  peer.wire.send(peer.message("subscriptions/listen", { notifications: { toolsListChanged: true }, _meta: { "io.modelcontextprotocol/logLevel": "debug" } }, id));
  const mine = (one) => one.params?._meta?.["io.modelcontextprotocol/subscriptionId"] === id;
  const { message: first } = await peer.wire.find(mine, from);
  assert.equal(first.method, "notifications/subscriptions/acknowledged");
  assert.deepEqual(first.params.notifications, { toolsListChanged: true });
  await peer.call("test_trigger_prompt_change");
  await peer.call("test_trigger_resource_update");
  await peer.call("test_trigger_tool_change");
  await peer.wire.find((one) => mine(one) && one.method === "notifications/tools/list_changed", from);
  const told = peer.wire.messages.slice(from).filter((one) => one.method);
  for (const one of told) {
    assert.ok(mine(one), JSON.stringify(one));
    assert.ok(["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"].includes(one.method), one.method);
  }
  peer.wire.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: peer.params({ requestId: id }) });
  await peer.ask("tools/list");
}, { on: ["stdio"], fresh: true });
probe("subscriptions.nothing-unasked", [MODERN], async (peer) => {
  const from = peer.wire.messages.length;
  for (const name of ["test_trigger_tool_change", "test_trigger_prompt_change", "test_trigger_resource_update"]) await peer.call(name);
  await peer.ask("tools/list");
  assert.ok(!peer.wire.messages.slice(from).some((one) => one.method));
}, { on: ["stdio"], fresh: true });
for (const notifications of [undefined, 7, [], { toolsListChanged: "yes" }, { resourceSubscriptions: "test://x" }, { resourceSubscriptions: [7] }]) {
  probe("subscriptions.validated", [MODERN], async (peer) => {
    assert.equal((await peer.error("subscriptions/listen", { notifications })).code, -32602);
  });
}

// ----------------------------------------------------------------- tasks of 2025-11-25

const CORE = ["2025-11-25"];
async function started(peer, name, args = {}, task = {}) {
  const { task: made } = await peer.result("tools/call", { name, arguments: args, task });
  return made;
}
const related = (result) => result._meta?.["io.modelcontextprotocol/related-task"]?.taskId;
probe("tasks.id tasks.working tasks.times tasks.ttl tasks.created", CORE, async (peer) => {
  const one = await started(peer, "slow_compute", { seconds: 0 }), two = await started(peer, "slow_compute", { seconds: 0 }, { ttl: 60000 });
  for (const task of [one, two]) {
    assert.ok(typeof task.taskId === "string" && task.taskId.length >= 32);
    assert.equal(task.status, "working");
    for (const key of ["createdAt", "lastUpdatedAt"]) assert.match(task[key], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
    const seen = await peer.result("tasks/get", { taskId: task.taskId });
    assert.ok(seen.ttl === null || Number.isInteger(seen.ttl));
    assert.ok(seen.createdAt && seen.lastUpdatedAt);
  }
  assert.notEqual(one.taskId, two.taskId);
});
probe("tasks.result tasks.result-waits tasks.related tasks.execution-errors", CORE, async (peer) => {
  const { taskId } = await started(peer, "slow_compute", { seconds: 0.05 });
  const result = await peer.result("tasks/result", { taskId });
  assert.ok(result.content);
  assert.equal(related(result), taskId);
  assert.equal((await peer.result("tasks/get", { taskId })).status, "completed");
  const failing = await started(peer, "failing_job");
  assert.equal((await peer.result("tasks/result", { taskId: failing.taskId })).isError, true);
  assert.equal((await peer.result("tasks/get", { taskId: failing.taskId })).status, "failed");
  const wrong = await started(peer, "protocol_error_job");
  assert.ok((await peer.error("tasks/result", { taskId: wrong.taskId })).code);
});
probe("tasks.cancelled tasks.cancelled-stays tasks.terminal", CORE, async (peer) => {
  const { taskId } = await started(peer, "slow_compute", { seconds: 3000 });
  assert.equal((await peer.result("tasks/cancel", { taskId })).status, "cancelled");
  assert.equal((await peer.result("tasks/get", { taskId })).status, "cancelled");
  assert.equal((await peer.error("tasks/cancel", { taskId })).code, -32602);
  assert.equal((await peer.result("tasks/get", { taskId })).status, "cancelled");
});
probe("tasks.protocol-errors tasks.param-wins", CORE, async (peer) => {
  for (const method of ["tasks/get", "tasks/result", "tasks/cancel"]) {
    for (const taskId of ["none", "0".repeat(32), 7, null, undefined, {}]) assert.equal((await peer.error(method, { taskId })).code, -32602);
  }
  const { taskId } = await started(peer, "slow_compute", { seconds: 0 });
  const _meta = { "io.modelcontextprotocol/related-task": { taskId: "other" } };
  assert.equal((await peer.result("tasks/get", { taskId, _meta })).taskId, taskId);
});
probe("tasks.support", CORE, async (peer) => {
  assert.equal((await peer.error("tools/call", { name: "test_simple_text", task: {} })).code, -32601);
  assert.equal((await peer.error("tools/call", { name: "failing_job", arguments: {} })).code, -32601);
  for (const task of [7, "x", [], { ttl: "long" }, { ttl: -1 }, { ttl: {} }]) {
    assert.equal((await peer.error("tools/call", { name: "slow_compute", arguments: { seconds: 0 }, task })).code, -32602, JSON.stringify(task));
  }
});
probe("tasks.input tasks.related", CORE, async (peer) => {
  peer.answers = () => ({ result: { action: "accept", content: { confirm: true } } });
  const { taskId } = await started(peer, "confirm_delete", { filename: "f" });
  const result = await peer.result("tasks/result", { taskId });
  assert.ok(result.content);
  assert.equal(peer.asked.length, 1);
  assert.equal(related(peer.asked[0].params), taskId);
}, { fresh: true, caps: ASKING });

probe("tasks.random", CORE, async (peer) => {
  const ids = [];
  for (let i = 0; i < 20; i++) ids.push((await started(peer, "slow_compute", { seconds: 0 })).taskId);
  for (const part of [(id) => id.slice(0, 8), (id) => id.slice(-8)]) assert.equal(new Set(ids.map(part)).size, 20);
});
probe("tasks.undeclared", CORE, async () => {
  const peer = await Peer.open(new Line([calculator]), CORE[0]);
  assert.ok(!peer.hello.capabilities.tasks);
  const [{ name, inputSchema }] = (await peer.result("tools/list")).tools;
  const given = Object.fromEntries(Object.keys(inputSchema.properties).map((key) => [key, 1]));
  const { content } = await peer.result("tools/call", { name, arguments: given, task: { ttl: 1000 } });
  assert.ok(content);
  assert.equal((await peer.error("tasks/get", { taskId: "0".repeat(32) })).code, -32601);
  await peer.wire.close();
}, { on: ["stdio"] });

// ------------------------------------------------- questions that are taken back, 2024-11-05's streams

probe("cancel.own", LEGACY, async (peer) => {
  const quiet = new Promise((resolve) => (peer.wire.onRequest = resolve));
  const id = `q${++peer.count}`, from = peer.wire.messages.length;
  peer.wire.send(peer.message("tools/call", { name: "test_sampling", arguments: { prompt: "x" } }, id));
  const question = await quiet;
  peer.wire.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
  const { message } = await peer.wire.find((one) => one.method === "notifications/cancelled", from);
  assert.deepEqual(message.params.requestId, question.id);
  await peer.ask("ping");
  assert.equal(peer.wire.messages.slice(from).filter((one) => one.method === "notifications/cancelled").length, 1);
}, { on: ["stdio"], fresh: true, caps: ASKING });
probe("sse.endpoints sse.endpoint-event", ["2024-11-05"], async () => {
  const stream = new URL("/sse", url);
  const answered = new Promise((resolve, reject) => {
    let posted = false;
    request(stream, { method: "GET", headers: { accept: "text/event-stream" }, onEvent: async (text, sent) => {
      const [first] = text.split("\n\n");
      if (!posted) {
        posted = true;
        assert.match(first, /^event: endpoint$/m);
        const where = new URL(/^data: ?(.*)$/m.exec(first)[1], stream);
        const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
        await request(where, { headers: { "content-type": "application/json" }, body }).catch(reject);
      }
      if (text.includes('"id":1')) {
        resolve(text);
        sent.destroy();
      }
    } }).catch(reject);
  });
  assert.match(await answered, /^event: message$/m);
}, { on: ["http"] });
probe("http.origin", ["2024-11-05"], async () => {
  for (const origin of ["http://evil.example", "null"]) {
    assert.equal((await request(new URL("/sse", url), { method: "GET", headers: { origin, accept: "text/event-stream" } })).status, 403);
  }
}, { on: ["http"] });

// -------------------------------------------------- what no MUST says and clients were hurt by

const also = (revisions, run, options) => probe("", revisions, run, options);

// A stream or question without a way to travel is refused at once.
also([MODERN], async (peer) => {
  const { status, answer } = await peer.ask("subscriptions/listen", { notifications: { toolsListChanged: true } }, { headers: { accept: "application/json" } });
  assert.equal(status, 406);
  assert.match(JSON.stringify(answer.error), /text\/event-stream/);
}, { on: ["http"] });
also(STREAMS, async (peer) => {
  const { answer } = await peer.call("test_sampling", { prompt: "x" }, { headers: { accept: "application/json" } });
  assert.equal(answer.result.isError, true);
  assert.match(text({ answer }), /event.stream/);
}, { on: ["http"], fresh: true, caps: ASKING });
for (const [accept, wanted] of [[null, 200], ["*/*", 200], ["text/html", 406], ["image/*", 406], ["text/event-stream", 200], ["application/json", 200],
  ["application/*", 200], ["application/json;q=0, text/event-stream", 200], ["text/html, application/json;q=0.1", 200]]) {
  also(since("2025-03-26"), async (peer) => {
    const { status, headers } = await peer.ask("tools/list", {}, { headers: { accept } });
    assert.equal(status, wanted, String(accept));
    if (accept === "text/event-stream") assert.match(headers["content-type"], /event-stream/);
    if (accept === "application/json") assert.match(headers["content-type"], /json/);
  }, { on: ["http"] });
}
// An answer is not lost with its stream, also where no event brings the client back.
also(since("2025-03-26"), async (peer) => {
  const { text: body } = await peer.wire.post(peer.message("tools/call", { name: "test_reconnection" }));
  if (body.includes('"result"')) return;
  const last = [...body.matchAll(/^id: ?(.+)$/gm)].at(-1)[1];
  assert.match((await peer.wire.get({ "last-event-id": last })).text, /"result"/);
}, { on: ["http"] });
// Who is cancelled before anything was sent ends as an empty stream.
also(STREAMS, async (peer) => {
  const message = peer.message("tools/call", { name: "test_slow" });
  let over = false;
  const asked = peer.wire.post(message).finally(() => (over = true));
  // Until it has come, it cannot be cancelled; it takes a minute.
  while (!over) await peer.wire.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: message.id } });
  const { status, headers, text: body } = await asked;
  assert.equal(status, 200);
  assert.match(headers["content-type"], /event-stream/);
  assert.ok(!body.includes('"result"') && !body.includes('"error"'));
}, { on: ["http"] });
// A version that is not served names those that are, whatever the method, with a session and without.
for (const method of ["tools/list", "ping", "nope", "initialize", "notifications/initialized", "notifications/cancelled"]) {
  also(STREAMS, async (peer) => {
    const message = method.startsWith("notifications/") ? { jsonrpc: "2.0", method } : peer.message(method, {});
    for (const session of [peer.wire.headers["mcp-session-id"], null]) {
      const { status, text: body } = await peer.wire.post(message, { "mcp-protocol-version": "1999-01-01", "mcp-session-id": session });
      assert.equal(status, 400, `${method} ${session ? "in" : "without"} a session`);
      assert.match(body, /2025-11-25/);
    }
  }, { on: ["http"] });
}
also(STREAMS, async (peer) => {
  const told = {};
  for (const [name, headers] of [["unknown", { "mcp-session-id": "0".repeat(32) }], ["none", { "mcp-session-id": null }]]) {
    const { status, answer } = await peer.ask("tools/list", {}, { headers });
    told[name] = [status, answer?.error?.message];
  }
  assert.equal(told.unknown[0], 404);
  assert.equal(told.none[0], 400);
  assert.notEqual(told.unknown[1], told.none[1]);
}, { on: ["http"] });
// Half a claim is the newer era, and is told what is missing.
for (const [_meta, missing] of [[{ "io.modelcontextprotocol/clientCapabilities": {} }, "protocolVersion"], [{ "io.modelcontextprotocol/protocolVersion": MODERN }, "clientCapabilities"],
  [{ "io.modelcontextprotocol/clientInfo": { name: "x", version: "1" } }, "protocolVersion"], [{ "io.modelcontextprotocol/logLevel": "info" }, "protocolVersion"]]) {
  also(ALL, async (peer) => {
    const { answer, status } = await peer.wire.exchange({ jsonrpc: "2.0", id: 9, method: "tools/list", params: { _meta } }, 9);
    assert.equal(answer.error.code, -32602);
    assert.match(answer.error.message, new RegExp(missing));
    if (peer.wire.kind === "http") assert.equal(status, 400);
  });
}
for (const method of ["server/discover", "subscriptions/listen", "tasks/update"]) {
  also(ALL, async (peer) => {
    const { answer } = await peer.wire.exchange({ jsonrpc: "2.0", id: 9, method, params: {} }, 9);
    assert.equal(answer.error.code, -32602, method);
    assert.match(answer.error.message, /protocolVersion|_meta/);
  });
}
for (const clientInfo of [7, "x", [], null]) {
  also([MODERN], async (peer) => {
    assert.equal((await peer.error("tools/list", { _meta: { "io.modelcontextprotocol/clientInfo": clientInfo } })).code, -32602);
  });
}
// Messages name the cause, in one line that is bounded and escaped.
for (const [method, params, wanted] of [["tools/call", { name: "nosuch" }, /nosuch/], ["prompts/get", { name: "nosuch" }, /nosuch/], ["resources/read", { uri: "test://nosuch" }, /test:\/\/nosuch/],
  ["tools/list", { cursor: "zz" }, /cursor/], ["completion/complete", { ref: { type: "ref/prompt", name: "nosuch" }, argument: { name: "a", value: "" } }, /./]]) {
  also(ALL, async (peer) => assert.match((await peer.error(method, params)).message, wanted));
}
also(ALL, async (peer) => {
  for (const name of ["x".repeat(5000), "line\nbreak\u0007", "\u202eesrever"]) {
    const { answer } = await peer.wire.exchange(peer.message("tools/call", { name }, 5), 5, { "mcp-name": `=?base64?${Buffer.from(name).toString("base64")}?=` });
    const { message } = answer.error;
    assert.ok(Buffer.byteLength(message) <= 256, `${message.length}`);
    assert.ok(!/[\u0000-\u001f\u202e]/.test(message));
  }
});
also(ALL, async (peer) => {
  const { answer } = await peer.call("greet", { name: 7 });
  assert.match(answer.error?.message ?? text({ answer }), /name.*string/);
});
// Lists: an empty cursor is the first page, and cursors of others are none.
also(ALL, async (peer) => assert.ok((await peer.result("tools/list", { cursor: "" })).tools.length));
// Params of no kind.
for (const params of [7, "x", true, []]) {
  also(ALL, async (peer) => {
    const { answer } = await peer.wire.exchange({ jsonrpc: "2.0", id: 9, method: "tools/list", params }, 9);
    assert.ok([-32600, -32602].includes(answer.error.code), JSON.stringify(answer));
  });
}
also(LEGACY, async (peer) => {
  for (const _meta of [7, "x", [], true, null]) {
    const { answer } = await peer.wire.exchange({ ...peer.message("tools/list", {}), id: 9, params: { _meta } }, 9);
    assert.equal(answer.error.code, -32602, JSON.stringify(_meta));
  }
});
// Methods are exactly their names.
for (const method of ["Tools/list", "tools/list ", "tools/list/", "tools", "", "rpc.x", "notifications/initialized", "__proto__"]) {
  also(ALL, async (peer) => {
    const { answer } = await peer.wire.exchange(peer.message(method, {}, 9), 9);
    const unmirrored = peer.modern && peer.wire.kind === "http" ? [-32020] : []; // a header has no space at its end
    assert.ok([-32601, -32600, ...unmirrored].includes(answer.error.code), `${method}: ${JSON.stringify(answer)}`);
  });
}
// A handshake that is repeated, or of the wrong kind, does not change the session.
also(LEGACY, async (peer) => {
  for (const params of [{}, { protocolVersion: 7, capabilities: {} }, { protocolVersion: peer.revision, capabilities: [] }, { protocolVersion: peer.revision, capabilities: {}, clientInfo: 7 }]) {
    assert.ok((await peer.ask("initialize", params)).answer.error, JSON.stringify(params));
  }
  const { answer } = await peer.ask("initialize", { protocolVersion: peer.revision, capabilities: {}, clientInfo: { name: "x", version: "1" } });
  assert.ok(answer.error);
  assert.ok((await peer.result("tools/list")).tools);
}, { on: ["stdio"] });
// Unknown members are let be.
also(ALL, async (peer) => {
  const message = { ...peer.message("tools/call", { name: "greet", arguments: { name: "Ada" }, extra: [1], unknown: null }), more: { x: 1 } };
  const { answer } = await peer.wire.exchange(message, message.id);
  assert.ok(answer.result && !answer.result.isError);
});
// Arguments may be left out, and null is none of an object.
also(ALL, async (peer) => {
  assert.ok((await peer.call("test_simple_text")).answer.result);
  const { answer } = await peer.call("test_simple_text", null);
  assert.ok(answer.error || answer.result.isError);
});
// Subscriptions of older revisions.
also(LEGACY, async (peer) => {
  for (const uri of [7, null, undefined]) assert.equal((await peer.error("resources/subscribe", { uri })).code, -32602);
  assert.deepEqual(await peer.result("resources/subscribe", { uri: "test://watched-resource" }), {});
  assert.deepEqual(await peer.result("resources/unsubscribe", { uri: "test://watched-resource" }), {});
  assert.deepEqual(await peer.result("resources/unsubscribe", { uri: "test://watched-resource" }), {});
});
also(LEGACY, async (peer) => {
  const from = peer.wire.messages.length;
  await peer.result("resources/subscribe", { uri: "test://watched-resource" });
  await peer.call("test_trigger_resource_update");
  const { message } = await peer.wire.find((one) => one.method === "notifications/resources/updated", from);
  assert.equal(message.params.uri, "test://watched-resource");
  await peer.call("test_trigger_tool_change");
  await peer.wire.find((one) => one.method === "notifications/tools/list_changed", from);
}, { on: ["stdio"], fresh: true });

// ---------------------------------------------------------------------- authorization

probe("auth.before auth.401 auth.every-request auth.bound", since("2025-03-26"), async ({ revision }) => {
  const folder = mkdtempSync(join(tmpdir(), "idem-must-"));
  writeFileSync(join(folder, "tokens"), "first-token-of-two\nsecond-token-of-two\n", { mode: 0o600 });
  try {
    await serve([reference, "--profile", "mcp", "--token-file", join(folder, "tokens")], async (guarded) => {
      const good = { authorization: "Bearer first-token-of-two" }, other = { authorization: "Bearer second-token-of-two" };
      const wire = new Web(guarded);
      wire.headers = { ...good };
      const peer = await Peer.open(wire, revision);
      assert.equal((await peer.ask("tools/list")).status, 200);
      for (const headers of [{ authorization: null }, { authorization: "Bearer wrong" }, { authorization: "Basic eDp5" }, { authorization: "Bearer" }]) {
        const refused = await peer.ask("tools/list", {}, { headers });
        assert.equal(refused.status, 401);
        assert.match(refused.headers["www-authenticate"], /^Bearer/);
        assert.ok(!refused.text.includes('"result"'));
      }
      wire.url = `${guarded}?access_token=first-token-of-two`;
      assert.equal((await peer.ask("tools/list", {}, { headers: { authorization: null } })).status, 401);
      wire.url = guarded;
      if (!peer.modern) assert.equal((await peer.ask("tools/list", {}, { headers: other })).status, 404);
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}, { on: ["http"], fresh: "raw" });

// ---------------------------------------------------------------------------- playing

const [server, reference, calculator, validate, only] = process.argv.slice(2);
async function listening(command) {
  const child = spawn(command[0], [...command.slice(1), "--http", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "exit");
  const where = await new Promise((resolve, reject) => {
    createInterface({ input: child.stderr }).on("line", (line) => {
      const found = /listening on (http:\S+)/.exec(line);
      if (found) resolve(found[1]);
    });
    ended.then(() => reject(new Error("the server did not start")));
  });
  const stop = async () => {
    child.kill("SIGTERM");
    return (await ended)[0];
  };
  return { where, stop };
}
async function serve(command, use) {
  const { where, stop } = await listening(command);
  try {
    await use(where);
  } finally {
    assert.equal(await stop(), 0);
  }
}
const main = await listening([server]);
const url = main.where;

const shared = new Map();
async function peerFor({ kind, revision, fresh, caps }) {
  const key = `${kind} ${revision}`;
  if (!fresh && shared.has(key)) return shared.get(key);
  const wire = kind === "stdio" ? new Line([server, "--log-level", "error"]) : new Web(url);
  const peer = fresh === "raw" ? new Peer(wire, revision) : await Peer.open(wire, revision, caps);
  if (!fresh) shared.set(key, peer);
  return peer;
}

let failed = 0, made = 0;
for (const one of probes.filter(({ ids }) => !only || ids.includes(only))) {
  made++;
  const peer = await peerFor(one);
  try {
    await one.run(peer);
  } catch (error) {
    failed++;
    console.error(`${one.ids} in ${one.revision} on ${one.kind}: ${error.message.split("\n").slice(0, 12).join("\n  ")}`);
  }
  peer.answers = undefined;
  peer.asked.length = 0;
  if (one.fresh && (await peer.wire.close()) !== 0) {
    failed++;
    console.error(`${one.ids} in ${one.revision}: the server did not end with 0`);
  }
}
for (const peer of shared.values()) if ((await peer.wire.close()) !== 0) failed++;
if ((await main.stop()) !== 0) failed++;
const { count, faults } = judge(validate);
for (const fault of faults) console.error(fault);
console.log(`${made} probes, ${failed} failed; ${count} messages, ${faults.length} kinds of them not as their schema wants`);
failed += faults.length;
process.exit(failed ? 1 : 0);

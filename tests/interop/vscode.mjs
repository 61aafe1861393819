// vscode.mjs - conversations of vscode-jsonrpc with idem-reference under lsp, over stdio and TCP:
// requests, notifications, errors, cancellation, many at once, shutdown and exit. Run by the script `vscode`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { createRequire } from "node:module";

const rpc = createRequire(import.meta.url)("vscode-jsonrpc/node");
const program = process.argv[2];
const lsp = ["--profile", "lsp", "--framing", "content-length"];

const watchdog = setTimeout(() => {
  console.error("the conversation did not come to its end in time");
  process.exit(1);
}, 500000);

async function rejection(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  assert.fail("an error was expected");
}

async function talk(connection) {
  const protocolErrors = [];
  connection.onError((error) => protocolErrors.push(error));
  connection.onUnhandledNotification((message) => protocolErrors.push(message));
  connection.listen();

  const hello = await connection.sendRequest("initialize", { processId: process.pid, capabilities: {} });
  assert.equal(hello.serverInfo.name, "idem-reference");
  assert.equal(hello.protocolVersion, "2.0");
  await connection.sendNotification("initialized", {});

  assert.equal(await connection.sendRequest("subtract", 42, 23), 19);
  assert.equal(await connection.sendRequest("subtract", { minuend: 42, subtrahend: 23 }), 19);
  assert.deepEqual(await connection.sendRequest("get_data"), ["hello", 5]);
  const text = { "ключ": "значение \u{1f600} \u2028\n", n: [null, true, -0.5, 1e21] };
  assert.deepEqual(await connection.sendRequest("echo", text), text);
  const large = { text: "é".repeat(500000) };
  assert.deepEqual(await connection.sendRequest("echo", large), large);

  await connection.sendNotification("update", 1, 2, 3);
  await connection.sendNotification("no such notification", {});

  const unknown = await rejection(connection.sendRequest("nope"));
  assert.equal(unknown.code, rpc.ErrorCodes.MethodNotFound);
  assert.deepEqual(unknown.data, { method: "nope" });
  const params = await rejection(connection.sendRequest("subtract", { minuend: "x", subtrahend: 1 }));
  assert.equal(params.code, rpc.ErrorCodes.InvalidParams);
  assert.equal(params.data.param, "minuend");
  assert.equal((await rejection(connection.sendRequest("fail"))).code, rpc.ErrorCodes.InternalError);
  const raised = await rejection(connection.sendRequest("raise", { code: 7, message: "seven", data: [7] }));
  assert.deepEqual([raised.code, raised.message, raised.data], [7, "seven", [7]]);

  const source = new rpc.CancellationTokenSource();
  const sleeping = connection.sendRequest("sleep", { ms: 3600000 }, source.token);
  source.cancel();
  assert.equal((await rejection(sleeping)).code, -32800);

  const many = Array.from({ length: 500 }, (_, i) => connection.sendRequest("subtract", i, 1));
  assert.deepEqual(await Promise.all(many), many.map((_, i) => i - 1));
  assert.deepEqual(protocolErrors, []);
}

// As an editor does: shutdown, then exit on a connection that is still open.
async function sayGoodbye(connection) {
  const closed = new Promise((resolve) => connection.onClose(resolve));
  let isClosed = false;
  closed.then(() => { isClosed = true; });
  assert.equal(await connection.sendRequest("shutdown"), null);
  const late = await rejection(connection.sendRequest("get_data"));
  assert.deepEqual([late.code, late.data], [rpc.ErrorCodes.InvalidRequest, { reason: "unavailable" }]);
  assert.equal(isClosed, false, "the server left before exit was said");
  await connection.sendNotification("exit");
  return closed;
}

async function overStdio() {
  const child = spawn(program, lsp, { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(child.stdout), new rpc.StreamMessageWriter(child.stdin));
  await talk(connection);
  await sayGoodbye(connection);
  connection.dispose();
  const [code] = await exited;
  assert.equal(code, 0);
}

async function listeningPort(child) {
  let log = "";
  for await (const piece of child.stderr) {
    log += piece;
    const found = /listening on tcp:\/\/127\.0\.0\.1:(\d+)/.exec(log);
    if (found) return Number(found[1]);
  }
  assert.fail(`the server did not say where it listens: ${log}`);
}

async function overTcp() {
  const child = spawn(program, [...lsp, "--tcp", "127.0.0.1:0"], { stdio: ["ignore", "inherit", "pipe"] });
  const exited = once(child, "exit");
  const port = await listeningPort(child);
  for (let i = 0; i < 2; i++) { // `shutdown` over a socket ends that conversation only
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    const connection = rpc.createMessageConnection(
      new rpc.SocketMessageReader(socket), new rpc.SocketMessageWriter(socket));
    await talk(connection);
    await sayGoodbye(connection);
    connection.dispose();
    socket.destroy();
  }
  child.kill("SIGTERM");
  const [code] = await exited;
  assert.equal(code, 0);
}

await overStdio();
await overTcp();
clearTimeout(watchdog);
console.log("vscode-jsonrpc spoke with idem-reference over stdio and TCP");
process.exit(0);

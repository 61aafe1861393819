// processes.mjs - programs that a test starts, on ports of this machine alone: ended by their own process id, and with us, however
// we end.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const running = new Set();
const folders = new Set();

// The kernel ends it when we die without a word (setpriv is util-linux's).
export function start(command, args, { env = {}, log, stdio } = {}) {
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", command, ...args], {
    env: { ...process.env, ...env },
    stdio: stdio ?? ["ignore", log ?? "ignore", log ?? "ignore"],
  });
  child.on("error", (error) => console.error(`${command}: ${error.message}`));
  child.ended = once(child, "exit").catch(() => []);
  running.add(child);
  child.ended.then(() => running.delete(child));
  return child;
}

export const isOver = (child) => child.exitCode !== null || child.signalCode !== null;

export async function end(child, signal = "SIGKILL") {
  if (!child || isOver(child)) return;
  child.kill("SIGCONT");
  child.kill(signal);
  await child.ended;
}

export function folder(name) {
  const path = mkdtempSync(join(tmpdir(), `idem-${name}-`));
  folders.add(path);
  return path;
}

function endAll() {
  for (const child of running) child.kill("SIGKILL");
  if (!process.env.KEEP) for (const path of folders) rmSync(path, { recursive: true, force: true });
}
process.on("exit", endAll);
for (const [signal, number] of [["SIGINT", 2], ["SIGTERM", 15], ["SIGHUP", 1]]) process.on(signal, () => process.exit(128 + number));

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Below those that the kernel gives to clients, so that a server finds its port again after a restart.
const taken = new Set();
const tryPort = (port) =>
  new Promise((resolve) => {
    const server = net.createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
export async function freePort() {
  for (;;) {
    const port = 10000 + Math.floor(Math.random() * 22000);
    if (taken.has(port)) continue;
    taken.add(port);
    if (await tryPort(port)) return port;
  }
}

const connects = (port) =>
  new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1");
    socket.once("connect", () => (socket.destroy(), resolve(true)));
    socket.once("error", () => resolve(false));
  });

export async function until(what, is, patience = 60000) {
  for (const end = Date.now() + patience; !(await is()); await sleep(20))
    if (Date.now() > end) throw new Error(`${what}: not within ${patience / 1000} s`);
}

// It takes connections, or it has ended.
export async function listens(child, port, name) {
  await until(`${name} at port ${port}`, async () => {
    if (isOver(child)) throw new Error(`${name} ended: ${child.exitCode ?? child.signalCode}`);
    return connects(port);
  });
}

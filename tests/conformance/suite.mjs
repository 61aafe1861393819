// suite.mjs - the official suite once through: a server on a free port, every scenario the suite runs for
// a revision, and what became of each. The suite's own exit code forgives warnings and scenarios that
// checked nothing; this does not. Used by run.mjs and serve.mjs.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

async function startServer([program, ...args]) {
  const child = spawn(program, [...args, "--http", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  const said = [];
  const url = await new Promise((resolve, reject) => {
    createInterface({ input: child.stderr }).on("line", (line) => {
      said.push(line);
      const found = /listening on (http:\S+)/.exec(line);
      if (found) resolve(found[1]);
    });
    child.on("error", reject);
    child.on("exit", () => reject(new Error(`the server did not start:\n${said.join("\n")}`)));
  });
  return { child, url, said, ended: once(child, "exit") };
}

// A server that died, or that leaves memory behind under the sanitizer, has failed as well.
async function stopServer({ child, said, ended }) {
  const died = child.exitCode !== null || child.signalCode !== null;
  if (!died) child.kill("SIGTERM");
  const [code] = await ended;
  return died || code !== 0 ? `the server ended with ${code}:\n${said.slice(-60).join("\n")}` : null;
}

async function runSuite(work, url, revision, out) {
  const suite = join(work, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
  const child = spawn(process.execPath, [suite, "server", "--url", url, "--requirements", revision, "-o", out]);
  let text = "";
  child.stdout.on("data", (data) => (text += data));
  child.stderr.on("data", (data) => (text += data));
  await once(child, "close");
  return text;
}

// `forgiven` are the checks that may fail or warn.
function readScenario(out, folder, forgiven) {
  const name = /^server-(.*)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(folder)[1];
  const checks = JSON.parse(readFileSync(join(out, folder, "checks.json"), "utf8"));
  const count = (status) => checks.filter((check) => check.status === status).length;
  const failed = checks.filter((check) => check.status === "FAILURE" || check.status === "WARNING");
  const faults = failed.filter((check) => !forgiven.includes(check.id));
  const passed = count("SUCCESS");
  const beside = failed.length - faults.length;
  return { name, passed, beside, skipped: count("SKIPPED"), faults, good: faults.length === 0 && passed > 0 };
}

// Runs all the suite has for a revision against `command`, into a folder of `work` that `label` names.
export async function runRevision({ command, work, label, revision, forgiven = [] }) {
  const out = join(work, `results-${label}-${revision}`);
  rmSync(out, { recursive: true, force: true });
  const running = await startServer(command);
  const text = await runSuite(work, running.url, revision, out);
  const trouble = await stopServer(running);
  const folders = existsSync(out) ? readdirSync(out) : [];
  const scenarios = folders.map((folder) => readScenario(out, folder, forgiven));
  return { revision, scenarios, trouble, text };
}

export function printScenario({ name, passed, beside, skipped, faults, good }) {
  const marks = [`${passed} passed`];
  if (beside) marks.push(`${beside} not asked of this server`);
  if (skipped) marks.push(`${skipped} skipped`);
  if (faults.length) marks.push(`${faults.length} not`);
  console.log(`  ${good ? "ok  " : "FAIL"}  ${name.padEnd(46)} ${marks.join(", ")}`);
  for (const { status, id, errorMessage } of faults) console.log(`        ${status} ${id}: ${errorMessage ?? ""}`);
}

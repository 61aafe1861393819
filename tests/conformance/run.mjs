// run.mjs - runs what a revision of MCP requires, and what the suite reports beside it, each revision
// against a server of its own, all at once. The suite's own exit code forgives warnings and scenarios
// that checked nothing; this does not. Run by the script `run`.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [server, work, ...wanted] = process.argv.slice(2);
const suite = join(work, "node_modules/@modelcontextprotocol/conformance/dist/index.js");

// How many scenarios count, and which are run beside them.
const revisions = {
  "2025-11-25": { scored: 30, others: ["server-session-lifecycle", "json-schema-2020-12", "server-sse-polling"] },
  "2026-07-28": {
    scored: 37,
    others: [
      "json-schema-2020-12",
      "http-header-validation",
      "http-custom-header-server-validation",
      "tasks-lifecycle",
      "tasks-capability-negotiation",
      "tasks-wire-fields",
      "tasks-request-state-removal",
      "tasks-mrtr-input",
      "tasks-request-headers",
      "tasks-dispatch-and-envelope",
      "tasks-status-notifications",
      "tasks-required-task-error",
      "tasks-mrtr-composition",
    ],
  },
};
// The suite skips this one whatever a server does.
const alwaysSkipped = "tasks-status-notifications";

async function startServer() {
  const child = spawn(server, ["--http", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
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

async function runSuite(url, revision, out) {
  const child = spawn(process.execPath, [suite, "server", "--url", url, "--requirements", revision, "-o", out]);
  let text = "";
  child.stdout.on("data", (data) => (text += data));
  child.stderr.on("data", (data) => (text += data));
  await once(child, "close");
  return text;
}

function readScenario(out, folder) {
  const name = /^server-(.*)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(folder)[1];
  const checks = JSON.parse(readFileSync(join(out, folder, "checks.json"), "utf8"));
  const count = (status) => checks.filter((check) => check.status === status).length;
  const faults = checks.filter((check) => check.status === "FAILURE" || check.status === "WARNING");
  const passed = count("SUCCESS");
  const idle = passed === 0 && name !== alwaysSkipped;
  return { name, passed, skipped: count("SKIPPED"), faults, good: faults.length === 0 && !idle };
}

async function runRevision(revision) {
  const out = join(work, `results-${revision}`);
  rmSync(out, { recursive: true, force: true });
  const running = await startServer();
  const text = await runSuite(running.url, revision, out);
  const trouble = await stopServer(running);
  const scenarios = (existsSync(out) ? readdirSync(out) : []).map((folder) => readScenario(out, folder));
  return { revision, scenarios, trouble, text };
}

function printScenario({ name, passed, skipped, faults, good }) {
  const marks = [`${passed} passed`];
  if (skipped) marks.push(`${skipped} skipped`);
  if (faults.length) marks.push(`${faults.length} not`);
  console.log(`  ${good ? "ok  " : "FAIL"}  ${name.padEnd(46)} ${marks.join(", ")}`);
  for (const { status, id, errorMessage } of faults) console.log(`        ${status} ${id}: ${errorMessage ?? ""}`);
}

// True when everything that had to be there was, and was good.
function report({ revision, scenarios, trouble, text }) {
  const expected = revisions[revision];
  const missing = expected.others.filter((name) => !scenarios.some((scenario) => scenario.name === name));
  const scored = scenarios.filter(({ name }) => !expected.others.includes(name));
  const others = scenarios.filter(({ name }) => expected.others.includes(name));
  const good = (list) => list.filter((scenario) => scenario.good).length;
  console.log(`\nMCP ${revision}`);
  scenarios.forEach(printScenario);
  console.log(`  scored ${good(scored)}/${expected.scored}, beside them ${good(others)}/${expected.others.length}`);
  if (missing.length) console.log(`  did not run: ${missing.join(", ")}`);
  if (trouble) console.log(`  ${trouble}`);
  const fine =
    good(scored) === expected.scored && good(others) === expected.others.length && scored.length === expected.scored && !trouble;
  if (!fine && scenarios.length === 0) console.log(text);
  return fine;
}

const results = await Promise.all((wanted.length ? wanted : Object.keys(revisions)).map(runRevision));
process.exit(results.map(report).every(Boolean) ? 0 : 1);

// run.mjs - runs what a revision of MCP requires, and what the suite reports beside it, each revision
// against a server of its own, all at once. Run by the script `run`.
import { basename } from "node:path";
import { printScenario, runRevision } from "./suite.mjs";

const [server, work, ...wanted] = process.argv.slice(2);

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

// True when everything that had to be there was, and was good.
function report({ revision, scenarios, trouble, text }) {
  const expected = revisions[revision];
  for (const scenario of scenarios) scenario.good ||= scenario.name === alwaysSkipped && scenario.faults.length === 0;
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

const results = await Promise.all(
  (wanted.length ? wanted : Object.keys(revisions)).map((revision) =>
    runRevision({ command: [server], work, label: basename(server), revision }),
  ),
);
process.exit(results.map(report).every(Boolean) ? 0 : 1);

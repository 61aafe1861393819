// serve.mjs - the scenarios of the official suite that need no fixture, against `idem serve` with the
// demo. The suite runs all it has; what asks for tools that only a test server has is left aside, by
// name. Run by the script `serve`.
import { printScenario, runRevision } from "./suite.mjs";

const [idem, config, work, ...wanted] = process.argv.slice(2);

// A scenario and the number of checks that pass in it, so that a suite that tests less is noticed.
const revisions = {
  "2025-11-25": {
    "server-initialize": 3,
    ping: 2,
    "logging-set-level": 2,
    "tools-list": 3,
    "resources-list": 2,
    "resources-subscribe": 2,
    "resources-unsubscribe": 2,
    "prompts-list": 2,
    "dns-rebinding-protection": 2,
    "server-sse-multiple-streams": 1,
    "server-session-lifecycle": 3,
  },
  "2026-07-28": {
    "server-stateless": 24,
    "tools-list": 4,
    "resources-list": 2,
    "prompts-list": 2,
    caching: 8,
    "dns-rebinding-protection": 2,
    "server-sse-multiple-streams": 1,
    "sep-2164-resource-not-found": 4,
    "http-header-validation": 14,
    "input-required-result-unsupported-methods": 2,
  },
};

// Checks of server-stateless that call tools named test_...
const forgiven = [
  "sep-2575-server-rejects-undeclared-capability",
  "sep-2575-missing-capability-http-400",
  "sep-2575-http-server-no-independent-requests-on-stream",
  "sep-2575-server-no-log-without-loglevel",
  "sep-2575-server-sends-prompts-list-changed-on-subscription",
  "sep-2575-server-sends-tools-list-changed-on-subscription",
];

// True when each scenario ran and passed as many checks as it has.
function report({ revision, scenarios, trouble, text }) {
  const expected = Object.entries(revisions[revision]);
  const found = expected.map(([name]) => scenarios.find((scenario) => scenario.name === name));
  const ran = found.filter(Boolean);
  const short = expected.filter(([, least], i) => !found[i] || found[i].passed < least);
  console.log(`\nMCP ${revision}, idem serve`);
  ran.forEach(printScenario);
  for (const [name, least] of short) console.log(`  ${name}: fewer than ${least} checks passed`);
  if (trouble) console.log(`  ${trouble}`);
  if (ran.length === 0) console.log(text);
  return short.length === 0 && ran.every(({ good }) => good) && !trouble;
}

const results = await Promise.all(
  (wanted.length ? wanted : Object.keys(revisions)).map((revision) =>
    runRevision({ command: [idem, "serve", config], work, label: "serve", revision, forgiven }),
  ),
);
process.exit(results.map(report).every(Boolean) ? 0 : 1);

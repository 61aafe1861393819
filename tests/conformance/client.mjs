// client.mjs - each client scenario by itself: the suite plays a server, starts the program with its URL, and says
// what it saw. Run by name, the program's exit status and warnings count, which whole suites forgive.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

const skills = [
  "sep-2640-client-no-prefetch",
  "sep-2640-client-verify-digest",
  "sep-2640-client-verify-size",
  "sep-2640-client-verify-frontmatter",
];
const named = (names) => names.map((name) => `auth/${name}`);
// Every server that wants a token, whatever it says of itself.
const auth = named([
  "metadata-default",
  "metadata-var1",
  "metadata-var2",
  "metadata-var3",
  "basic-cimd",
  "scope-from-www-authenticate",
  "scope-from-scopes-supported",
  "scope-omitted-when-undefined",
  "scope-step-up",
  "scope-retry-limit",
  "token-endpoint-auth-basic",
  "token-endpoint-auth-post",
  "token-endpoint-auth-none",
  "pre-registration",
]);
const issuers = named([
  "resource-mismatch",
  "offline-access-scope",
  "offline-access-not-supported",
  "authorization-server-migration",
  "iss-supported",
  "iss-not-advertised",
  "iss-supported-missing",
  "iss-wrong-issuer",
  "iss-unexpected",
  "iss-normalized",
  "metadata-issuer-mismatch",
]);
const extensions = named([
  "client-credentials-basic",
  "client-credentials-jwt",
  "enterprise-managed-authorization",
  "wif-jwt-bearer",
  "dpop",
  "dpop-nonce",
]);
const old = named(["2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback"]);
const scenarios = {
  "2025-03-26": old,
  "2025-11-25": [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "json-schema-2020-12-preservation",
    ...auth,
    ...skills,
  ],
  "2026-07-28": [
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
    ...auth,
    ...issuers,
    ...extensions,
    ...skills,
  ],
};

const [program, work, revision, ...only] = process.argv.slice(2);

async function play(scenario) {
  const suite = join(work, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
  const out = join(work, `results-client-${revision}-${scenario.replaceAll("/", "-")}`);
  rmSync(out, { recursive: true, force: true });
  const args = [suite, "client", "--command", program, "--scenario", scenario, "--spec-version", revision];
  const more = [...skills, ...extensions].includes(scenario) ? ["--force"] : []; // extensions are on no revision's list
  const child = spawn(process.execPath, [...args, ...more, "--timeout", "60000", "-o", out], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  child.stdout.on("data", (data) => (text += data));
  child.stderr.on("data", (data) => (text += data));
  const [code] = await once(child, "close");
  return { scenario, code, text, checks: readChecks(out) };
}

function readChecks(out) {
  const files = existsSync(out) ? readdirSync(out, { recursive: true }).map((file) => join(out, file)) : [];
  return files.filter((file) => file.endsWith("checks.json")).flatMap((file) => JSON.parse(readFileSync(file, "utf8")));
}

function print({ scenario, code, text, checks }) {
  const faults = checks.filter(({ status }) => status === "FAILURE" || status === "WARNING");
  const passed = checks.filter(({ status }) => status === "SUCCESS").length;
  const good = code === 0 && faults.length === 0 && passed > 0;
  console.log(`  ${good ? "ok  " : "FAIL"}  ${scenario.padEnd(46)} ${passed} passed${faults.length ? `, ${faults.length} not` : ""}`);
  for (const { status, id, errorMessage } of faults) console.log(`        ${status} ${id}: ${errorMessage ?? ""}`);
  if (!good) console.log(text.split("\n").slice(-40).join("\n"));
  return good;
}

if (!scenarios[revision]) {
  console.error(`no scenarios are known for ${revision}`);
  process.exit(2);
}
let failures = 0;
const wanted = only.length ? only : scenarios[revision];
const playing = [];
for (const [index, scenario] of wanted.entries()) {
  // Two at a time: most of it is the suite's own start.
  playing.push(Promise.all([playing[index - 2]]).then(() => play(scenario)));
}
for (const played of playing) if (!print(await played)) failures++;
console.log(failures ? `${failures} scenarios failed` : `all ${wanted.length} scenarios of ${revision} passed`);
process.exit(failures ? 1 : 0);

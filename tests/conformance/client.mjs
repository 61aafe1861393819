// client.mjs - each client scenario by itself, one after the other: the suite plays a server, starts the program with its URL, and says
// what it saw. Run by name, the program's exit status and warnings count, which whole suites forgive. The suite is a program that
// ends after one scenario; most of what that took was its start. So each scenario has a copy of its module in this process,
// which shares only the libraries under it, and the status it would have ended with is taken down.
import { existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

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

// What a program would do: its words, what it says, and the first status that it ends with. A scenario that goes on for ever is ended
// by the suite's own timeout, or by that of the test.
async function runSuite(words, number) {
  const suite = pathToFileURL(join(work, "node_modules/@modelcontextprotocol/conformance/dist/index.js"));
  const real = { argv: process.argv, exit: process.exit, out: process.stdout.write, err: process.stderr.write };
  let text = "";
  const take = (data) => ((text += data), true);
  process.stdout.write = take;
  process.stderr.write = take;
  process.argv = [real.argv[0], suite.pathname, ...words];
  const code = await new Promise((resolve, reject) => {
    process.exit = resolve;
    import(`${suite}?scenario=${number}`).catch(reject);
  });
  process.argv = real.argv;
  process.exit = real.exit;
  process.stdout.write = real.out;
  process.stderr.write = real.err;
  return { code, text };
}

async function play(scenario, number) {
  const out = join(work, `results-client-${revision}-${scenario.replaceAll("/", "-")}`);
  rmSync(out, { recursive: true, force: true });
  const words = ["client", "--command", program, "--scenario", scenario, "--spec-version", revision];
  const more = [...skills, ...extensions].includes(scenario) ? ["--force"] : []; // extensions are on no revision's list
  const { code, text } = await runSuite([...words, ...more, "--timeout", "60000", "-o", out], number);
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
for (const [number, scenario] of wanted.entries()) if (!print(await play(scenario, number))) failures++;
console.log(failures ? `${failures} scenarios failed` : `all ${wanted.length} scenarios of ${revision} passed`);
process.exit(failures ? 1 : 0);

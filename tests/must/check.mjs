// check.mjs - the table of what MCP demands and where that is tested: `node tests/must/check.mjs` compares docs/internals/must.md with the
// marks in the tests, `--write` writes it. It fails where a row has no test in one of its revisions, or a mark no row.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ALL = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
const PAGE = "docs/internals/must.md";
const root = process.argv.includes("--root") ? process.argv[process.argv.indexOf("--root") + 1] : ".";
const faults = [];

function revisions(word) {
  if (word === "all") return ALL;
  if (word === "legacy") return ALL.slice(0, 4);
  const [from, to] = word.split("..");
  if (to) return ALL.filter((date) => date >= from && date <= to);
  return word.endsWith("+") ? ALL.filter((date) => date >= word.slice(0, -1)) : ALL.filter((date) => date === word);
}

// ------------------------------------------------------------------------------- rows

const rows = readFileSync(join(root, "tests/must/list.txt"), "utf8").split("\n").filter((line) => line && !line.startsWith("#"))
  .map((line) => {
    const [id, word, section, words] = line.split(" | ");
    const dates = revisions(word);
    if (!words || !dates.length) faults.push(`list.txt: not a row: ${line}`);
    return { id, word, dates, section, words, tests: new Map() };
  });
const known = new Set(rows.map(({ id }) => id));

function mark(id, dates, test) {
  if (!known.has(id)) faults.push(`${test}: no row for ${id}`);
  for (const row of rows.filter((one) => one.id === id)) {
    const covered = dates.filter((date) => row.dates.includes(date));
    if (covered.length) row.tests.set(test, new Set([...(row.tests.get(test) ?? []), ...covered]));
  }
}

// ------------------------------------------------------------------------------ marks

const files = (folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));

// The revisions of a scenario are those it shakes hands in or claims.
function markScenarios(path) {
  const name = path.split("/").at(-1).replace(".txt", "");
  for (const scenario of readFileSync(path, "utf8").split(/^(?=== )/m)) {
    const dates = ALL.filter((date) => scenario.includes(`hello ${date}`) || scenario.includes(`"protocolVersion":"${date}"`));
    if (/\$META|\$CAN\{|\$TASKS|protocolVersion":"2026-07-28/.test(scenario)) dates.push(ALL[4]);
    for (const [, ids] of scenario.matchAll(/^# MUST (.*)$/gm))
      for (const id of ids.split(/[ ,]+/)) mark(id, dates, `transcript.${name}`);
  }
}

function markSource(path) {
  const name = path.includes("/unit/") ? path.replace(/.*\/unit\/(.*)\/test_(.*)\.c$/, "unit.$1.$2") : path.replace(/.*tests\//, "");
  for (const [, id, words] of readFileSync(path, "utf8").matchAll(/MUST ([a-z]+\.[a-z0-9-]+) ((?:all|legacy|[0-9.+-]+)(?: [0-9.+-]+)*)/g))
    mark(id, words.split(" ").flatMap(revisions), name);
}

// Probes say theirs themselves.
function markProbes(path) {
  const sets = { ALL, LEGACY: ALL.slice(0, 4), STREAMS: ALL.slice(1, 4), CORE: [ALL[3]], "[MODERN]": [ALL[4]] };
  for (const [, ids, list] of readFileSync(path, "utf8").matchAll(/^ *probe\("([^"]+)", (\[[^\]]*\]|since\("[^"]+"\)|[A-Z]+),/gm)) {
    const dates = sets[list] ?? [...list.matchAll(/since\("([^"]+)"\)/g)].flatMap(([, date]) => revisions(date + "+"))
      .concat([...list.matchAll(/(?<!since\()"(\d{4}-\d\d-\d\d)"/g)].map(([, date]) => date));
    for (const id of ids.split(" ").filter(Boolean)) mark(id, dates, "must.probes");
  }
}

for (const path of files("tests")) {
  if (path.endsWith("must/probes.mjs")) markProbes(path);
  else if (path.includes("/transcripts/") && path.endsWith(".txt") && !path.endsWith("CMakeLists.txt")) markScenarios(path);
  else if (/\.(c|mjs)$/.test(path) && !path.includes("/must/")) markSource(path);
}

// ------------------------------------------------------------------------------- page

const where = ({ dates, tests }) => [...tests].sort(([a], [b]) => (a < b ? -1 : 1))
  .map(([test, covered]) => (covered.size === dates.length ? test : `${test} (${[...covered].sort().join(", ")})`)).join(", ");
let page = `# What MCP demands, and where it is tested

Made by \`node tests/must/check.mjs --write\` from [the list](../../tests/must/list.txt) and the marks in tests; the test \`must.table\` fails
where a demand has no test in one of its revisions. It is the server's side of every MUST and MUST NOT of the five revisions, in our own
words. Left out is what binds clients and authorization servers, what only the program behind a server can keep (what it asks for, logs
or passes on), and the metadata of OAuth, which is not served.
`;
let part = "";
for (const row of rows) {
  const [group] = row.id.split(".");
  if (group !== part) page += `\n## ${group}\n\n| id | revisions | section | demand | tested by |\n|---|---|---|---|---|\n`;
  part = group;
  const missing = row.dates.filter((date) => ![...row.tests.values()].some((covered) => covered.has(date)));
  if (missing.length) faults.push(`${row.id} (${row.words}): no test in ${missing.join(", ")}`);
  page += `| ${row.id} | ${row.word} | ${row.section} | ${row.words} | ${where(row)} |\n`;
}
const cells = rows.reduce((sum, { dates }) => sum + dates.length, 0);

if (process.argv.includes("--write")) writeFileSync(join(root, PAGE), page);
else if (readFileSync(join(root, PAGE), "utf8") !== page) faults.push(`${PAGE} is not what the marks say: node tests/must/check.mjs --write`);
for (const fault of faults) console.error(fault);
console.log(`${rows.length} demands, ${cells} with their revisions, ${faults.length} faults`);
process.exit(faults.length ? 1 : 0);

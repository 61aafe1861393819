// run.mjs - the fault test: `node run.mjs BIN [setup=single|cluster|bare|lagging] [seconds=N] [clients=N] [seed=N] [parts=N] [harms=WORD]`. Clients of both eras, and of the
// transport of 2024-11-05, work on three nodes behind nginx while these, their store and their connections are harmed; then a checker reads every history. See docs/internals/tests.md.
import { Chance } from "./chance.mjs";
import { LegacyClient, ModernClient, OldestClient } from "./client.mjs";
import { LOSSES, check, summary } from "./checker.mjs";
import { History } from "./history.mjs";
import { Nemesis } from "./nemesis.mjs";
import { SETUPS, World } from "./world.mjs";

const [bin, ...words] = process.argv.slice(2);
const options = { setup: "single", seconds: "10", clients: "64", seed: "", parts: "", harms: "", ...Object.fromEntries(words.map((word) => word.split("="))) };
const setup = SETUPS[options.setup];
if (!bin || !setup) throw new Error("run.mjs BIN [setup=single|cluster|bare|lagging] [seconds=N] [clients=N] [seed=N] [parts=N] [harms=WORD]");
const seed = Number(options.seed) || Date.now() % 1000000;
const seconds = Number(options.seconds);

const KINDS = [ModernClient, LegacyClient, ModernClient, LegacyClient, OldestClient];

function say(words) {
  console.log(`faults: ${words}`);
}

// Everything is there and whole; whether whoever died is known to be dead is for the keys to find out.
async function heal(world) {
  for (const node of world.nodes) await node.ready();
}

async function work(world, clients, nemesis) {
  const over = Date.now() + seconds * 1000;
  let harmed = false; // what comes first is never left out
  const answered = ({ history }) => history.records.some((record) => record.do === "answer");
  const harm = nemesis.work(() => Date.now() > over, () => clients.every(answered)).then(() => (harmed = true));
  await Promise.all([harm, ...clients.map((client) => client.work(() => harmed && Date.now() > over))]);
  await heal(world);
  await Promise.all(clients.map((client) => client.look()));
}

function report(world, histories, nemesis) {
  const { violations, counts } = check(histories.flatMap(({ records }) => records), world.witness());
  const done = Object.entries(nemesis.faults).map(([what, times]) => `${what} ${times}`).join(", ");
  say(`${setup.words}: ${done}`);
  say(Object.entries(counts).map(([name, value]) => `${value} ${name}`).join(", "));
  if (violations.length) console.log(summary(violations));
  return violations;
}

async function main() {
  say(`${setup.words}, seed=${seed}, ${options.clients} clients, ${seconds} s`);
  const world = new World(bin, options.setup, { parts: options.parts });
  await world.start();
  const clients = Array.from({ length: Number(options.clients) }, (_, i) =>
    new KINDS[i % KINDS.length](i + 1, { url: world.url, seed, folder: world.folder }));
  const own = new History(world.folder, "nemesis");
  const nemesis = new Nemesis(world, own, new Chance(seed), options.harms);
  await work(world, clients, nemesis);
  for (const client of clients) await client.close();
  const codes = await world.end();
  const violations = report(world, [own, ...clients.map(({ history }) => history)], nemesis);
  const complaints = world.complaints();
  for (const words of complaints) say(words);
  const badly = codes.filter((code) => code !== 0);
  if (badly.length) say(`nodes ended with ${badly.join(", ")}`);
  return verdict(violations, complaints.length + badly.length);
}

// Where nothing is promised, something must be lost: else the test shows nothing.
function verdict(violations, faults) {
  if (faults) return 1;
  if (setup.holds) {
    say(violations.length ? "BROKEN: what the guide promises of this set-up does not hold" : "every promise held");
    return violations.length ? 1 : 0;
  }
  const kinds = [...new Set(violations.map(({ kind }) => kind))];
  const worse = kinds.filter((kind) => !LOSSES.has(kind));
  if (worse.length) say(`BROKEN: no store explains ${worse.join(", ")}`);
  if (worse.length) return 1;
  say(kinds.length ? `lost, as the guide says of this set-up: ${kinds.join(", ")}` : "nothing was lost though nothing was promised: the test shows nothing");
  return kinds.length ? 0 : 1;
}

process.exit(await main());

// simulate.mjs - how many nodes, connections and store operations many sessions would need, and what gives first: `node simulate.mjs BIN [seconds=N] [every=N]
// [listening=SHARE] [sessions=N] [nodes=N]`. Costs are measured shortly on this machine; then the model is held against what 1, 2 and 3 nodes measure here. See docs/internals/bench.md.
import { cpus } from "node:os";
import { Bench } from "./measure.mjs";
import { givesFirst, needs, rateHere } from "./model.mjs";

const KNOWN = { seconds: "2", every: "60", listening: "0.1", sessions: "5000", nodes: "3" };
const USAGE = `usage: node simulate.mjs BIN [NAME=N...]: BIN is the folder of \`idem\`
  seconds=2      of measuring, for each kind of request and count of nodes
  every=60       seconds between two requests of a session
  listening=0.1  the share of sessions that hold a stream open
  sessions=5000  that are opened to see what one takes
  nodes=3        up to which the model is held against this machine`;

// What was said, or the usage and the end.
function read([bin, ...words]) {
  const said = words.map((word) => word.split("="));
  const wrong = said.find(([name, value]) => !Object.hasOwn(KNOWN, name) || !(Number(value) >= 0) || value === "");
  if (!bin || bin.startsWith("-") || wrong) {
    if (wrong) console.error(`${wrong.join("=")} is nothing that is known`);
    (wrong ? console.error : console.log)(USAGE);
    process.exit(bin === "--help" ? 0 : 2);
  }
  return { bin, options: { ...KNOWN, ...Object.fromEntries(said) } };
}

const { bin, options } = read(process.argv.slice(2));
const seconds = Number(options.seconds);
const use = { every: Number(options.every), mix: { session: 0.7, stateless: 0.2, keyed: 0.1 }, listening: Number(options.listening), busy: 0.6 };
const KINDS = ["stateless", "session", "keyed"];

const number = (value, digits = 0) => value.toLocaleString("en-US", { maximumFractionDigits: digits });
const bytes = (value) => (value >= 1e12 ? `${number(value / 1e12, 1)} TB` : value >= 1e9 ? `${number(value / 1e9, 1)} GB` : `${number(value / 1e6)} MB`);
const row = (cells, widths) => console.log("  " + cells.map((cell, i) => (i ? String(cell).padStart(widths[i]) : String(cell).padEnd(widths[i]))).join("  "));

async function costsOfOne() {
  const bench = await Bench.start(bin, 1);
  const kinds = {};
  for (const kind of KINDS) kinds[kind] = await measure(bench, kind);
  const redisConnections = await bench.redisConnections();
  const idle = await bench.sessions(Number(options.sessions));
  await bench.end();
  return { cores: cpus().length, kinds, ...idle, redisConnections };
}

function showCosts(costs) {
  console.log(`\nMeasured here: one node, one Redis with appendfsync always, ${costs.cores} cores shared with who asks\n`);
  const widths = [10, 14, 14, 12, 12];
  row(["request", "node, us", "Redis, us", "operations", "a second"], widths);
  for (const [kind, one] of Object.entries(costs.kinds)) row([kind, number(one.nodeUs, 1), number(one.redisUs, 1), number(one.ops, 2), number(one.rate)], widths);
  console.log(`\n  a session that nobody is connected for: ${number(costs.nodeBytes)} bytes in its node, ${number(costs.redisBytes)} in Redis (${number(costs.sessions)} of them)`);
  console.log(`  connections of a node to Redis, for each part: ${number(costs.redisConnections, 1)}`);
}

function showNeeds(costs) {
  console.log(`\nA request every ${use.every} s a session (${Object.entries(use.mix).map(([kind, share]) => `${share * 100} % ${kind}`).join(", ")}), ${use.listening * 100} % with an open stream, cores at most ${use.busy * 100} % busy\n`);
  const all = [1e6, 1e8].map((sessions) => needs(sessions, costs, use));
  const line = (name, of) => row([name, ...all.map(of)], [44, 16, 16]);
  line("sessions", (one) => number(one.sessions));
  line("requests a second", (one) => number(one.rate));
  line("nodes of one core", (one) => number(one.nodes));
  line("  for processor time, connections, memory", (one) => [one.byCpu, one.byConnections, one.byMemory].map((value) => number(value, 1)).join(" "));
  line("connections of clients", (one) => number(one.clientConnections));
  line("connections to Redis", (one) => number(one.redisConnections));
  line("store operations a second", (one) => number(one.operations));
  line("Redis: cores, memory", (one) => `${number(one.redisCores, 1)} ${bytes(one.redisBytes)}`);
  line("Redis: primaries, with a part each", (one) => number(one.primaries));
  line("stores of at most 64 parts", (one) => `${number(one.stores)} of ${number(one.parts)}`);
  console.log("\nWhat gives first, by sessions:\n");
  const bounds = { "idem: --max-sessions, as it is": 10000, "idem: max_bytes of a store, as it is": (512 * 1024 * 1024) / costs.redisBytes };
  for (const [what, sessions] of givesFirst(costs, use, bounds)) row([what, number(sessions)], [44, 16]);
}

// What a kind costs now that it is warm.
async function measure(bench, kind, more) {
  await bench.load(kind === "session" ? "stateless" : kind, { seconds: seconds / 4, sample: 0 });
  return bench.load(kind, { seconds, ...more });
}

// Costs of one node against the rate that several have on the same cores. They are taken anew beside each: how fast a machine is changes with its neighbours.
async function checkModel() {
  console.log("\nThe model against this machine (a second's requests):\n");
  const widths = [24, 12, 12, 8, 16];
  row(["", "model", "measured", "error", "cores left to us"], widths);
  const errors = [];
  for (let nodes = 1; nodes <= Number(options.nodes); nodes++) {
    // Each with a store of its own: keys of a caller are bounded, and those of all counts of nodes together are more.
    const one = await Bench.start(bin, 1), bench = await Bench.start(bin, nodes);
    for (const kind of KINDS) {
      const costs = await measure(one, kind, { sample: 0 }), measured = await measure(bench, kind, { sample: 0 });
      const expected = rateHere(nodes, costs.now, measured.cores);
      errors.push(Math.abs(expected / measured.rate - 1));
      row([`${nodes} node${nodes > 1 ? "s" : ""}, ${kind}`, number(expected), number(measured.rate), `${number((expected / measured.rate - 1) * 100)} %`, number(measured.cores, 1)], widths);
    }
    await bench.end();
    await one.end();
  }
  errors.sort((a, b) => a - b);
  console.log(`\n  error of the model: ${number(errors[errors.length >> 1] * 100)} % in the middle, ${number(errors.at(-1) * 100)} % at most`);
}

const costs = await costsOfOne();
showCosts(costs);
if (costs.kinds.session.ops < 1) throw new Error("a request in a session that asks nothing of the store: that is not what the model is of");
await checkModel();
showNeeds(costs);
process.exit(0);

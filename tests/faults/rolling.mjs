// rolling.mjs - a rolling restart under load: `node rolling.mjs BIN [rounds=N] [clients=N]`. Each node behind nginx is told to end (SIGTERM), is started anew
// and is ready before the next one's turn. Not one call fails, whatever its era, with a key or without.
import { LegacyClient, ModernClient } from "./client.mjs";
import { check, summary } from "./checker.mjs";
import { World } from "./world.mjs";

const [bin, ...words] = process.argv.slice(2);
const options = { rounds: "1", clients: "32", drain: "300", ...Object.fromEntries(words.map((word) => word.split("="))) };
const seed = Number(options.seed) || Date.now() % 1000000;

async function restartAll(world) {
  let times = 0;
  for (let round = 0; round < Number(options.rounds); round++)
    for (const node of world.nodes) {
      await node.end("SIGTERM");
      if (node.child.exitCode !== 0) throw new Error(`node ${node.process} ended with ${node.child.exitCode ?? node.child.signalCode}`);
      await node.start();
      await node.ready();
      times++;
    }
  return times;
}

// Whoever did not get its answer at the first attempt.
function failed(histories) {
  const calls = new Map();
  for (const { records } of histories)
    for (const record of records) {
      if (record.do === "invoke") calls.set(record.op, record);
      if (record.do === "refused" || record.do === "cut") calls.get(record.op).failed = record.reason ?? record.why;
    }
  return [...calls.values()].filter((call) => call.failed);
}

// None is taken for dead that merely had to wait for a processor.
const world = new World(bin, "single", { direct: true, lease: 600000, more: ["--drain-ms", options.drain, "--grace-ms", "30000"] });
await world.start();
const clients = Array.from({ length: Number(options.clients) }, (_, i) =>
  new (i % 2 ? LegacyClient : ModernClient)(i + 1, { url: world.url, seed, folder: world.folder, calm: true }));
let over = false;
const work = clients.map((client) => client.work(() => over));
const times = await restartAll(world);
over = true;
await Promise.all(work);
for (const client of clients) await client.close();
const codes = await world.end();
const histories = clients.map(({ history }) => history);
const { violations, counts } = check(histories.flatMap(({ records }) => records), world.witness());
const failures = failed(histories);
console.log(`rolling: seed=${seed}, ${times} restarts, ${counts.attempts} calls, ${counts.resumed} streams taken up elsewhere, ${failures.length} calls failed`);
for (const { era, call, failed: why } of failures.slice(0, 10)) console.log(`  ${era} ${call}: ${why}`);
if (violations.length) console.log(summary(violations));
for (const words of world.complaints()) console.log(words);
process.exit(failures.length || violations.length || world.complaints().length || codes.some((code) => code !== 0) ? 1 : 0);

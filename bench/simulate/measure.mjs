// measure.mjs - what a request of each kind costs a node and Redis, here and now: processor time by the kernel's count, operations by Redis's, bytes by both.
import { fork } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import net from "node:net";
import { cpus } from "node:os";
import { sleep } from "../../tests/faults/processes.mjs";
import { ask } from "../../tests/faults/redis.mjs";
import { World } from "../../tests/faults/world.mjs";

const SAMPLE = 100; // requests whose operations are counted
const SESSIONS = 2000; // at most, each asked once
const LINGER_MS = 1500; // until a node has told the store that nobody uses a session any more

const here = (name) => new URL(name, import.meta.url).pathname;

// Microseconds of a process's threads; `loop` is its first one's.
function cpuUs(pid) {
  const of = (thread) => {
    try {
      return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]) / 1000;
    } catch {
      return 0; // it ended
    }
  };
  const threads = readdirSync(`/proc/${pid}/task`);
  return { all: threads.reduce((sum, thread) => sum + of(thread), 0), loop: of(pid) };
}

const ownBytes = (pid) => Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) * 1024;

// Commands that Redis is given while something is done. Its own counts have what scripts do inside as well; MONITOR tells it apart. It costs much, hence not beside what is timed.
async function operations(port, act) {
  const socket = net.connect(port, "127.0.0.1", () => socket.write("MONITOR\r\n"));
  let count = 0, rest = "";
  socket.setEncoding("latin1").on("error", () => {}).on("data", (text) => {
    const lines = (rest + text).split("\r\n");
    rest = lines.pop();
    count += lines.filter((line) => /^\+\d+\.\d+ \[/.test(line) && !/^\S+ \[\d+ lua\]/.test(line)).length;
  });
  await act();
  await sleep(50);
  socket.destroy();
  return count;
}
const redisBytes = async (port) => Number(/used_memory:(\d+)/.exec(await ask(port, "INFO", "memory"))[1]);

// Seconds that all processors of the machine were busy, or another machine on the same ones was.
function busySeconds() {
  const [user, nice, system, , , irq, softirq, steal] = readFileSync("/proc/stat", "utf8").split("\n")[0].trim().split(/\s+/).slice(1).map(Number);
  return (user + nice + system + irq + softirq + steal) / 100;
}

export class Bench {
  static async start(bin, nodes) {
    const self = new Bench();
    self.world = new World(bin, "single", { nodes, direct: true, more: ["--max-sessions", 100000], files: [here("idem.json"), here("look.sql")] });
    await self.world.start();
    return self;
  }
  get ports() {
    return this.world.nodes.map(({ port }) => port);
  }
  look() {
    const nodes = this.world.nodes.map(({ child }) => cpuUs(child.pid));
    const sum = (what) => nodes.reduce((total, one) => total + one[what], 0);
    return { node: sum("all"), loop: sum("loop"), redis: cpuUs(this.world.redis.child.pid).all, busy: busySeconds() };
  }
  // No node remembers a session.
  async restart() {
    for (const node of this.world.nodes) {
      await node.end("SIGTERM");
      await node.start();
    }
    for (const node of this.world.nodes) await node.ready();
  }
  // Costs of one request, and the rate that came of it; `now` is what was spent while they were asked. With very many sessions a node has none at hand that is asked for, and
  // tells the store of it again when it was left for a second. Without a `sample` what comes later is not waited for.
  async load(kind, { seconds, connections = 64, most = kind === "session" ? SESSIONS : undefined, sample = SAMPLE }) {
    const child = fork(here("load.mjs"), { execArgv: [] });
    const tell = (message) =>
      new Promise((resolve, reject) => {
        const ended = () => reject(new Error("the load ended"));
        child.once("exit", ended).once("message", (answer) => (child.off("exit", ended), resolve(answer)));
        child.send(message);
      });
    const isSession = kind === "session", linger = () => isSession && sample && sleep(LINGER_MS);
    if (isSession) await tell({ ports: this.ports, open: most + sample }), await this.restart();
    await tell({ ports: this.ports, connections, kind });
    const ops = sample && (await operations(this.world.redis.port, async () => (await tell({ seconds: 10, most: sample }), await linger())));
    const before = this.look();
    const done = await tell({ seconds, most });
    const now = this.look();
    await linger();
    const after = this.look();
    child.disconnect();
    if (done.failed || !done.requests) throw new Error(`${kind}: ${done.failed} of ${done.requests} requests failed, the first with: ${done.why}`);
    const costs = (to) => {
      const each = (what) => (to[what] - before[what]) / done.requests;
      return { nodeUs: each("node"), loopUs: each("loop"), redisUs: each("redis"), loadUs: done.cpuUs / done.requests };
    };
    const ours = (now.node - before.node + now.redis - before.redis + done.cpuUs) / 1e6;
    return {
      ...costs(after), now: costs(now), ops: ops / sample,
      rate: done.requests / done.seconds, requests: done.requests,
      cores: Math.max(0.1, cpus().length - Math.max(0, (now.busy - before.busy - ours) / done.seconds)), // that others left to us
    };
  }
  // Bytes of a session that nobody is connected for.
  async sessions(count) {
    const [node] = this.world.nodes, { redis } = this.world;
    const before = { node: ownBytes(node.child.pid), redis: await redisBytes(redis.port) };
    const { requests } = await this.load("open", { seconds: 60, connections: 8, most: count, sample: 0 });
    return {
      nodeBytes: Math.max(0, ownBytes(node.child.pid) - before.node) / requests,
      redisBytes: ((await redisBytes(redis.port)) - before.redis) / requests,
      sessions: requests,
    };
  }
  async redisConnections() {
    const clients = Number(/connected_clients:(\d+)/.exec(await ask(this.world.redis.port, "INFO", "clients"))[1]) - 1;
    return clients / this.world.nodes.length;
  }
  end() {
    return this.world.end();
  }
}

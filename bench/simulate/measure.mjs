// measure.mjs - what a request of each kind costs a node and Redis, here and now: processor time by the kernel's count, operations by Redis's, bytes by both.
import { fork } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { cpus } from "node:os";
import { ask } from "../../tests/faults/redis.mjs";
import { World } from "../../tests/faults/world.mjs";

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

async function operations(port) {
  const text = await ask(port, "INFO", "commandstats");
  return [...text.matchAll(/cmdstat_(?:evalsha|eval):calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
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
    self.world = new World(bin, "single", { nodes, direct: true, files: [here("idem.json"), here("look.sql")] });
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
  // Costs of one request, and the rate that came of it.
  async load(kind, { seconds, connections = 64, most }) {
    const child = fork(here("load.mjs"), { execArgv: [] });
    const tell = (message) =>
      new Promise((resolve, reject) => {
        child.once("message", resolve).once("exit", () => reject(new Error("the load ended")));
        child.send(message);
      });
    await tell({ ports: this.ports, connections, kind });
    const ops = await operations(this.world.redis.port), before = this.look();
    const done = await tell({ seconds, most });
    const after = this.look();
    child.disconnect();
    if (done.failed || !done.requests) throw new Error(`${kind}: ${done.failed} of ${done.requests} requests failed, the first with: ${done.why}`);
    const each = (what) => (after[what] - before[what]) / done.requests;
    const ours = (after.node - before.node + after.redis - before.redis + done.cpuUs) / 1e6;
    return {
      nodeUs: each("node"), loopUs: each("loop"), redisUs: each("redis"), loadUs: done.cpuUs / done.requests,
      ops: ((await operations(this.world.redis.port)) - ops) / done.requests,
      rate: done.requests / done.seconds, requests: done.requests,
      cores: Math.max(0.1, cpus().length - Math.max(0, (after.busy - before.busy - ours) / done.seconds)), // that others left to us
    };
  }
  // Bytes of a session that nobody is connected for.
  async sessions(count) {
    const [node] = this.world.nodes, { redis } = this.world;
    const before = { node: ownBytes(node.child.pid), redis: await redisBytes(redis.port) };
    const { requests } = await this.load("open", { seconds: 60, connections: 8, most: count });
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

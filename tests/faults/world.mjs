// world.mjs - three `idem serve` behind nginx on one store, with proxies between: client -> nginx -> proxy -> node -> proxy -> Redis.
import { fork } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, openSync, readFileSync } from "node:fs";
import http from "node:http";
import { basename, join } from "node:path";
import { Nginx } from "./nginx.mjs";
import { end, folder, freePort, listens, start, until } from "./processes.mjs";
import { Cluster, Redis, SAFE, UNSAFE } from "./redis.mjs";

const here = (name) => new URL(name, import.meta.url).pathname;
export const LEASE_MS = 2000;

// Each set-up and what the guide promises of it.
export const SETUPS = {
  single: { make: () => new Redis(SAFE), options: "", holds: true, words: "one Redis, appendfsync always" },
  cluster: { make: () => new Cluster(SAFE), options: "replicas=1", holds: true, words: "a cluster of 3 and 3, replicas=1" },
  bare: { make: () => new Redis(UNSAFE), options: "", holds: false, words: "one Redis that keeps nothing" },
  lagging: { make: () => new Cluster(SAFE), options: "", holds: false, words: "a cluster of 3 and 3 without replicas=1" },
};

export function isReady(port) {
  return new Promise((resolve) => {
    const asked = http.get({ host: "127.0.0.1", port, path: "/healthz", agent: false, timeout: 2000 }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    asked.on("error", () => resolve(false)).on("timeout", () => asked.destroy());
  });
}

// One process after another, at one port.
export class Node {
  constructor(world, number) {
    Object.assign(this, { world, number, incarnation: 0 });
  }
  get name() {
    return `node-${this.number}`;
  }
  get process() {
    return `${this.number}.${this.incarnation}`;
  }
  async start() {
    const { world } = this;
    this.incarnation++;
    const args = ["serve", join(world.folder, "idem.json"), "--http", `127.0.0.1:${this.port}`, "--store", world.store, "--lease-ms", world.lease, "--no-page", ...world.more];
    const log = openSync(join(world.folder, `node-${this.number}.log`), "a");
    this.child = start(join(world.bin, "idem"), args.map(String), { log, env: { NODE: this.process } });
    await listens(this.child, this.port, `node ${this.process}`);
  }
  ready() {
    return until(`node ${this.process} is ready`, () => isReady(this.port));
  }
  end(signal) {
    return end(this.child, signal);
  }
}

class Proxy {
  start() {
    this.child = fork(here("proxy.mjs"), { execArgv: [] });
    this.opened = new Map();
    this.child.on("message", ({ opened }) => this.opened.get(opened)());
  }
  open(name, port, target, learns = false) {
    return new Promise((resolve) => {
      this.opened.set(name, resolve);
      this.child.send({ open: { name, port, target, learns } });
    });
  }
  tell(what) {
    if (this.child.connected) this.child.send(what);
  }
  end() {
    return end(Object.assign(this.child, { ended: new Promise((go) => this.child.once("exit", go)) }));
  }
}

export class World {
  // `direct`: without proxies between. `parts`: of the store, where it is not as many as its set-up makes. `lease`: of nodes, in milliseconds.
  constructor(bin, setup, { nodes = 3, more = [], direct = false, parts = "", lease = LEASE_MS, files = [here("idem.json")] } = {}) {
    Object.assign(this, { bin, setup: SETUPS[setup], more, direct, parts, lease });
    this.folder = folder("faults");
    mkdirSync(join(this.folder, "runs"));
    for (const file of files) copyFileSync(file, join(this.folder, basename(file)));
    this.nodes = Array.from({ length: nodes }, (_, i) => new Node(this, i + 1));
    this.proxy = new Proxy();
  }
  async start() {
    if (!this.direct) this.proxy.start();
    this.redis = await this.setup.make().prepare();
    const members = (this.members = this.redis.members ?? [this.redis]);
    for (const [i, member] of members.entries()) {
      member.name = `redis-${i + 1}`;
      await this.shield(member, members.length > 1);
    }
    await this.redis.start();
    this.store = `redis://127.0.0.1:${members[0].door}?${[this.setup.options, this.parts && `parts=${this.parts}`].filter(Boolean).join("&")}`;
    for (const node of this.nodes) {
      node.port = await freePort();
      await this.shield(node);
    }
    await Promise.all(this.nodes.map((node) => node.start()));
    this.nginx = await new Nginx().start(this.nodes.map(({ door }) => door));
    await Promise.all(this.nodes.map((node) => node.ready()));
  }
  // Puts a port of the proxy's before it.
  async shield(one, learns = false) {
    one.door ??= this.direct ? one.port : await freePort();
    if (!this.direct) await this.proxy.open(one.name, one.door, one.port, learns);
  }
  get url() {
    return this.nginx.url;
  }
  // What the tool itself wrote, a line a run.
  witness() {
    const file = join(this.folder, "runs", "lines");
    const lines = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
    return lines.filter(Boolean).map((line) => line.split(" ")).map(([call, token, node]) => ({ call, token, node }));
  }
  // Whether a node has said that it found a fault in itself.
  complaints() {
    const words = /ERROR: (Address|Leak)Sanitizer|runtime error:|WARNING: ThreadSanitizer|Assertion/;
    return this.nodes.flatMap(({ number }) => {
      const text = readFileSync(join(this.folder, `node-${number}.log`), "utf8");
      const at = text.search(words);
      return at < 0 ? [] : [`node ${number}: ${text.slice(at, at + 2000)}`];
    });
  }
  async end() {
    await this.nginx?.kill();
    const codes = [];
    for (const node of this.nodes) {
      await node.end("SIGTERM");
      if (node.child) codes.push(node.child.exitCode);
    }
    await this.redis?.kill();
    if (!this.direct) await this.proxy.end();
    return codes;
  }
}

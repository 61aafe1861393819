// redis.mjs - the distribution's Redis, alone or six of it as a cluster of three primaries and three replicas, in folders of their own.
import { openSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { end, folder, freePort, isOver, listens, start, until } from "./processes.mjs";

// One command of words, one connection; its answer as text: of a string the bytes, else the first line.
export function ask(port, ...words) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, "127.0.0.1", () => socket.write(words.join(" ") + "\r\n"));
    let text = "";
    const done = (value) => (socket.destroy(), resolve(value));
    socket.setEncoding("latin1").setTimeout(5000, () => socket.destroy(new Error("no answer of Redis")));
    socket.on("error", reject).on("close", () => reject(new Error("no answer of Redis")));
    socket.on("data", (piece) => {
      text += piece;
      const line = text.indexOf("\r\n");
      if (line < 0) return;
      if (text[0] !== "$") return done(text.slice(0, line));
      const length = Number(text.slice(1, line));
      if (text.length >= line + 2 + length + 2) done(text.slice(line + 2, line + 2 + length));
    });
  });
}

// One answer from the text of a connection: {value, rest}, or null where more must come. Names of records are any bytes.
function read(text) {
  const line = text.indexOf("\r\n");
  if (line < 0) return null;
  const head = text.slice(1, line);
  let rest = text.slice(line + 2);
  if (text[0] === "-") throw new Error(head);
  if (text[0] === "+" || text[0] === ":") return { value: head, rest };
  if (text[0] === "$") return rest.length < Number(head) + 2 ? null : { value: rest.slice(0, Number(head)), rest: rest.slice(Number(head) + 2) };
  const value = [];
  for (let i = 0; i < Number(head); i++) {
    const one = read(rest);
    if (!one) return null;
    value.push(one.value);
    rest = one.rest;
  }
  return { value, rest };
}

// One command of any bytes; its whole answer.
export function command(port, ...words) {
  return new Promise((resolve, reject) => {
    const bytes = words.map(String).map((word) => `$${word.length}\r\n${word}\r\n`).join("");
    const socket = net.connect(port, "127.0.0.1", () => socket.write(`*${words.length}\r\n${bytes}`, "latin1"));
    let text = "";
    socket.setEncoding("latin1").setTimeout(20000, () => socket.destroy(new Error("no answer of Redis")));
    socket.on("error", reject).on("close", () => reject(new Error("no answer of Redis")));
    socket.on("data", (piece) => {
      text += piece;
      try {
        const one = read(text);
        if (one) resolve(one.value), socket.destroy();
      } catch (error) {
        reject(error), socket.destroy();
      }
    });
  });
}

export const SAFE = ["--appendonly", "yes", "--appendfsync", "always"];
export const UNSAFE = ["--appendonly", "no"];

export class Redis {
  constructor(settings) {
    this.settings = settings;
    this.folder = folder("redis");
  }
  async prepare() {
    this.port = await freePort();
    return this;
  }
  async start() {
    const log = openSync(join(this.folder, "log"), "a");
    const args = ["--port", this.port, "--bind", "127.0.0.1", "--dir", this.folder, "--save", "", "--daemonize", "no", ...this.settings];
    this.child = start("redis-server", args.map(String), { log });
    await listens(this.child, this.port, "redis-server");
    await until("Redis has read its file", () => ask(this.port, "PING").then((text) => text === "+PONG", () => isOver(this.child)));
    return this;
  }
  kill(signal = "SIGKILL") {
    return end(this.child, signal);
  }
}

// Each is asked at `door`, a port in front of it, and tells the others so.
class Member extends Redis {
  constructor(settings) {
    super([]);
    this.more = settings;
  }
  async prepare() {
    await super.prepare();
    this.bus = await freePort();
    this.door = await freePort();
    this.settings = ["--cluster-enabled", "yes", "--cluster-port", this.bus, "--cluster-announce-ip", "127.0.0.1",
      "--cluster-announce-port", this.door, "--cluster-announce-bus-port", this.bus, "--cluster-node-timeout", "1000",
      "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0", "--repl-timeout", "5", ...this.more];
    return this;
  }
  info(section) {
    return ask(this.port, "INFO", section);
  }
}

const SLOTS = 16384;

// After a primary was killed some member may not know yet that all is well.
function isDown(error) {
  if (!error.message.includes("CLUSTERDOWN")) throw error;
  return false;
}

export class Cluster {
  constructor(settings) {
    this.members = Array.from({ length: 6 }, () => new Member(settings));
  }
  async prepare() {
    for (const member of this.members) await member.prepare();
    return this;
  }
  async start() {
    await Promise.all(this.members.map((member) => member.start()));
    const [first, ...others] = this.members;
    const tell = async (member, ...words) => {
      const answer = await ask(member.port, "CLUSTER", ...words);
      if (answer !== "+OK") throw new Error(`CLUSTER ${words.join(" ")}: ${answer}`);
    };
    for (const [i, member] of this.members.entries()) {
      member.id = await ask(member.port, "CLUSTER", "MYID");
      await tell(member, "SET-CONFIG-EPOCH", i + 1);
    }
    for (const other of others) await tell(other, "MEET", "127.0.0.1", first.port, first.bus);
    for (let i = 0; i < 3; i++) await tell(this.members[i], "ADDSLOTSRANGE", Math.floor((i * SLOTS) / 3), Math.floor(((i + 1) * SLOTS) / 3) - 1);
    await this.all("cluster_known_nodes:6");
    await this.all("cluster_state:ok");
    for (let i = 3; i < 6; i++)
      await until("a replica knows its primary", () => ask(this.members[i].port, "CLUSTER", "REPLICATE", this.members[i - 3].id).then((text) => text === "+OK"));
    await this.whole();
    return this;
  }
  async all(words) {
    for (const { port } of this.members)
      await until(`the cluster says ${words}`, () => ask(port, "CLUSTER", "INFO").then((text) => text.includes(words), () => false));
  }
  // Every replica copies its primary.
  async whole() {
    for (const member of this.members)
      await until("replicas are linked", () =>
        member.info("replication").then((text) => (text.includes("role:master") ? text.includes("connected_slaves:1") : text.includes("master_link_status:up")), () => false));
  }
  // The members that have parts of the store now.
  async primaries(prefix = "idem") {
    const found = [];
    for (const member of this.members) {
      if (!member.child || isOver(member.child)) continue;
      const answer = await ask(member.port, "KEYS", `{${prefix}*}:m`).catch(() => "*0");
      const role = await member.info("replication").catch(() => "");
      if (Number(answer.slice(1)) > 0 && role.includes("role:master")) found.push(member);
    }
    return found;
  }
  // A part of the store goes to another primary, a handful of keys at a time: who asks for it meanwhile is sent on by ASK, then by MOVED. What Redis moves has no
  // copy before the new primary's replica has it.
  async moveSlot(chance, pause) {
    const told = (member, ...words) => until("the cluster is whole", () => command(member.port, ...words).then(() => true, isDown));
    const from = chance.one(await this.primaries());
    const others = [];
    for (const member of this.members)
      if (member !== from && (await member.info("replication")).includes("role:master")) others.push(member);
    const to = chance.one(others);
    const slot = await command(from.port, "CLUSTER", "KEYSLOT", chance.one(await command(from.port, "KEYS", "{idem*}:m")));
    await command(to.port, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.id);
    await command(from.port, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.id);
    for (let keys; (keys = await command(from.port, "CLUSTER", "GETKEYSINSLOT", slot, 100)).length; await pause())
      await told(from, "MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", ...keys);
    for (const member of [to, from, ...others.filter((other) => other !== to)]) await command(member.port, "CLUSTER", "SETSLOT", slot, "NODE", to.id);
    await this.copied(to);
  }
  async copied(primary) {
    const numbers = (text, name) => [...text.matchAll(new RegExp(`${name}[=:](\\d+)`, "g"))].map((found) => Number(found[1]));
    const { 0: wanted } = numbers(await primary.info("replication"), "master_repl_offset");
    await until("the replica has what was moved", async () => numbers(await primary.info("replication"), ",offset").some((offset) => offset >= wanted));
  }
  async kill() {
    await Promise.all(this.members.map((member) => member.kill()));
  }
}

// nemesis.mjs - what is done to a world while its clients work: one harm at a time, chosen by chance, each undone before the run ends and
// written down for the checker.
import { sleep, until } from "./processes.mjs";

export class Nemesis {
  // `only`: a word in the names of harms; all there are without one.
  constructor(world, history, chance, only = "") {
    Object.assign(this, { world, history, chance, only, faults: {} });
    const single = world.members.length === 1;
    this.harms = [
      ["kill a node", 4, () => this.killNode()],
      ["pause a node", 1, () => this.pauseNode()],
      ["cut connections of a node", 3, () => this.cut(this.chance.one(world.nodes).name)],
      ["cut connections of Redis", 3, () => this.cut(this.chance.one(world.members).name)],
      ["delay a node", 2, () => this.delay(this.chance.one(world.nodes).name)],
      ["delay Redis", 2, () => this.delay(this.chance.one(world.members).name)],
      single ? ["kill Redis", 4, () => this.killRedis(world.redis)] : ["kill the primary", 4, () => this.killPrimary()],
    ];
    if (!single) this.harms.push(["move a slot", 3, () => this.moveSlot()]);
    this.harms = this.harms.filter(([name]) => name.includes(only));
  }
  // Whatever chance says, these come first.
  first() {
    const redis = this.world.redis;
    if (this.only) return [];
    return redis.primaries ? [() => this.killPrimary(3500), () => this.killNode()] : [() => this.killRedis(redis), () => this.killNode()];
  }
  note(what, { node, store, away, stalls } = {}) {
    const record = this.history.add({ do: "fault", what, node, store, away, stalls });
    this.faults[what] = (this.faults[what] ?? 0) + 1;
    return { over: (more) => this.history.add({ ...record, ...more, until: performance.now() }) };
  }
  async killNode() {
    const node = this.chance.one(this.world.nodes);
    const { over } = this.note("a node killed", { node: node.process });
    await node.end("SIGKILL");
    await sleep(this.chance.between(0, 1500));
    await node.start();
    over();
  }
  // For longer than its lease, or not quite.
  async pauseNode() {
    const node = this.chance.one(this.world.nodes);
    const { over } = this.note("a node paused", { node: node.process, stalls: true });
    node.child.kill("SIGSTOP");
    await sleep(this.chance.between(200, 5000));
    node.child.kill("SIGCONT");
    await sleep(500);
    over();
  }
  async killRedis(redis) {
    const { over } = this.note("Redis killed", { store: true, away: true });
    await redis.kill();
    await sleep(this.chance.between(0, 1500));
    await redis.start();
    await sleep(1500); // nodes come back with a pause
    over();
  }
  // Its replica lags behind and takes over, unless the primary is back before that was agreed.
  async killPrimary(away = this.chance.between(0, 4000)) {
    const primaries = await this.world.redis.primaries();
    if (!primaries.length) return sleep(200);
    const primary = this.chance.one(primaries);
    const { over } = this.note("a primary killed", { store: true, away: true });
    this.world.proxy.tell({ delay: primary.name, ms: 0, replicaMs: this.chance.between(100, 700) });
    await sleep(1000);
    await primary.kill();
    this.world.proxy.tell({ cut: primary.name }); // with what was still on its way
    this.world.proxy.tell({ delay: primary.name, ms: 0 });
    await sleep(away);
    await primary.start();
    await this.world.redis.whole();
    over();
  }
  // A part of the store goes to another primary, in several steps, while it is asked for.
  async moveSlot() {
    const { over } = this.note("a slot moved", { store: true });
    const began = performance.now();
    await this.world.redis.moveSlot(this.chance, () => sleep(this.chance.between(0, 100)));
    const away = performance.now() - began > 1000; // what is asked for in the meantime waits
    await sleep(500); // nodes follow
    over({ away });
  }
  async cut(name) {
    const { over } = this.note(`connections cut: ${name.split("-")[0]}`, { store: name.startsWith("redis") });
    this.world.proxy.tell({ cut: name, share: this.chance.next() });
    await sleep(name.startsWith("redis") ? 500 : 100); // nodes connect again with a pause
    over();
  }
  async delay(name) {
    const { over } = this.note(`delayed: ${name.split("-")[0]}`, { store: name.startsWith("redis") });
    const ms = this.chance.between(5, 300);
    this.world.proxy.tell({ delay: name, ms });
    await sleep(this.chance.between(300, 1500));
    this.world.proxy.tell({ delay: name, ms: 0 });
    over();
  }
  choose() {
    let at = this.chance.next() * this.harms.reduce((sum, [, weight]) => sum + weight, 0);
    return this.harms.find(([, weight]) => (at -= weight) < 0) ?? this.harms[0];
  }
  // Nothing is harmed before there is something to lose.
  async work(isOver, hasAnswers) {
    await until("clients are answered", hasAnswers);
    for (const harm of this.first()) await sleep(500), await harm();
    while (!isOver()) {
      await sleep(this.chance.between(100, 1000));
      if (!isOver()) await this.choose()[2]();
    }
  }
}

// model.mjs - what sessions need, from what one request and one session cost. No measuring here: see measure.mjs.
//
// costs: {cores, kinds: {NAME: {nodeUs, redisUs, ops}}, nodeBytes, redisBytes, redisConnections}, times of one core;
//        redisConnections is of a store with one part: with more, every part has as many of each node.
// use:   {every: seconds between two requests of a session, mix: {NAME: share}, listening: share of sessions with an open connection, busy: share of
//         a core that may be used}.

const sum = (list) => list.reduce((total, one) => total + one, 0);
export const MACHINE = { nodeBytes: 8e9, redisBytes: 64e9, redisClients: 10000, nodeConnections: 50000, connectionBytes: 2048 };
export const PARTS_MAX = 64; // of a store: more primaries are of no use to it

// Of the mean request.
export function meanRequest(costs, { mix }) {
  const of = (what) => sum(Object.entries(mix).map(([kind, share]) => share * costs.kinds[kind][what]));
  return { nodeUs: of("nodeUs"), redisUs: of("redisUs"), ops: of("ops") };
}

// Primaries with a part each, in as few stores as have them. Sessions and nodes are divided among stores; a primary has the connections of one part.
function spread(wanted, connectionsOfPart) {
  const stores = Math.max(1, Math.ceil(wanted / PARTS_MAX), Math.ceil(connectionsOfPart / MACHINE.redisClients));
  const parts = Math.max(1, Math.ceil(wanted / stores));
  return { stores, parts, primaries: stores * parts, redisConnections: parts * connectionsOfPart };
}

export function needs(sessions, costs, use) {
  const mean = meanRequest(costs, use);
  const rate = sessions / use.every;
  const byCpu = (rate * mean.nodeUs) / 1e6 / use.busy;
  const byConnections = (sessions * use.listening) / MACHINE.nodeConnections;
  const byMemory = (sessions * (costs.nodeBytes + use.listening * MACHINE.connectionBytes)) / MACHINE.nodeBytes;
  const nodes = Math.max(1, Math.ceil(Math.max(byCpu, byConnections, byMemory)));
  const redisCores = (rate * mean.redisUs) / 1e6 / use.busy;
  const redisBytes = sessions * costs.redisBytes;
  return {
    sessions, rate, nodes, byCpu, byConnections, byMemory,
    operations: rate * mean.ops,
    clientConnections: sessions * use.listening,
    redisCores, redisBytes,
    ...spread(Math.max(redisCores, redisBytes / MACHINE.redisBytes), nodes * costs.redisConnections),
  };
}

// With as many nodes as it takes: how many sessions one store carries before each of these is used up, the first of them first.
export function givesFirst(costs, use, bounds = {}) {
  const mean = meanRequest(costs, use);
  const perNode = Math.min(
    (use.busy * 1e6 * use.every) / mean.nodeUs,
    use.listening ? MACHINE.nodeConnections / use.listening : Infinity,
    MACHINE.nodeBytes / (costs.nodeBytes + use.listening * MACHINE.connectionBytes),
  );
  const all = {
    "one node": perNode,
    "Redis: its one core": (use.busy * 1e6 * use.every) / mean.redisUs,
    "Redis: memory of 64 GB": MACHINE.redisBytes / costs.redisBytes,
    "Redis: 10,000 connections": (perNode * MACHINE.redisClients) / costs.redisConnections,
    ...bounds,
  };
  return Object.entries(all).sort((a, b) => a[1] - b[1]);
}

// Requests a second when everything runs on the cores of this machine: who asks, nodes, Redis. A loop uses one core at most, all of them together what is there.
export function rateHere(nodes, { nodeUs, loopUs, redisUs, loadUs }, cores) {
  return 1e6 / Math.max((nodeUs + redisUs + loadUs) / cores, loopUs / nodes, redisUs, loadUs);
}

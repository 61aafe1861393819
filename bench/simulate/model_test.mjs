// model_test.mjs - the model of `make simulate` counts as it says.
import assert from "node:assert/strict";
import test from "node:test";
import { MACHINE, givesFirst, meanRequest, needs, rateHere } from "./model.mjs";

const costs = { kinds: { a: { nodeUs: 100, redisUs: 20, ops: 1 }, b: { nodeUs: 300, redisUs: 60, ops: 3 } }, nodeBytes: 1000, redisBytes: 2000, redisConnections: 2 };
const use = { every: 10, mix: { a: 0.5, b: 0.5 }, listening: 0, busy: 0.5 };

test("the mean of a mix", () => assert.deepEqual(meanRequest(costs, use), { nodeUs: 200, redisUs: 40, ops: 2 }));
test("what a million sessions need", () => {
  const found = needs(1e6, costs, use); // 100,000 requests a second, 20 cores at work, half of each
  assert.equal(found.rate, 1e5);
  assert.equal(found.operations, 2e5);
  assert.equal(found.nodes, 40);
  assert.equal(found.redisConnections, 640); // two of each node for each part
  assert.equal(found.redisBytes, 2e9);
  assert.equal(found.parts, 8); // four cores of Redis, half of each
  assert.equal(found.primaries, 8);
  assert.equal(found.stores, 1);
});
test("a store has no more than 64 parts", () => {
  const found = needs(13e6, costs, use); // 104 cores of Redis, 520 nodes
  assert.equal(found.stores, 2);
  assert.equal(found.parts, 52);
  assert.equal(found.primaries, 104);
  assert.equal(found.redisConnections, 520 * 2 * 52); // a node has one store
  assert.equal(needs(8e6, costs, use).stores, 1);
  assert.equal(needs(8e6, costs, use).parts, 64);
});
test("twice the sessions need twice as much", () => assert.equal(needs(2e6, costs, use).nodes, 2 * needs(1e6, costs, use).nodes));
test("who only listens needs connections", () => {
  const found = needs(1e6, costs, { ...use, every: 1e9, listening: 1 });
  assert.equal(found.nodes, 1e6 / MACHINE.nodeConnections);
});
test("what gives first comes first", () => {
  const order = givesFirst(costs, use, { "a bound": 10 });
  assert.equal(order[0][0], "a bound");
  assert.equal(order[1][0], "one node");
  assert.equal(order[2][0], "Redis: its one core");
  assert.equal(order[2][1], 125000);
});
test("a loop has one core, all have those that are there", () => {
  const request = { nodeUs: 100, loopUs: 100, redisUs: 10, loadUs: 10 };
  assert.equal(rateHere(1, request, 8), 1e4); // the loop
  assert.equal(rateHere(2, request, 8), 2e4);
  assert.equal(rateHere(2, request, 1), 1e6 / 120); // the core
  assert.equal(rateHere(100, request, 1000), 1e5); // Redis, and who asks
});

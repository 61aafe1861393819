// checker_test.mjs - the checker finds each kind of broken promise in a history that has it, and none in histories that are right.
import assert from "node:assert/strict";
import test from "node:test";
import { LOSSES, check, summary } from "./checker.mjs";

let clock;
const at = (record) => ({ t: ++clock, ...record });
const invoke = (op, call, more = {}) => at({ do: "invoke", op, client: 1, era: "modern", id: op, call, key: `k-${call}`, ...more });
const answer = (op, call, token, more = {}) => at({ do: "answer", op, id: op, echo: call, token, replayed: false, ...more });
const refused = (op, reason, more = {}) => at({ do: "refused", op, id: op, status: 503, reason, ...more });
const cut = (op, why = "reset") => at({ do: "cut", op, why });
const step = (op, call, n, event = `1-${n}`) => at({ do: "event", op, event, step: n, echo: call });
const ran = (call, token, node = "1.1") => ({ call, token, node });
const unknown = (op) => refused(op, "outcome-unknown", { status: 409 });

const post = (op, call) => invoke(op, call, { session: "s", streamed: true });
const accepted = (op) => at({ do: "accepted", op });
const ended = () => at({ do: "ended", session: "s" });

const kinds = ({ violations }) => [...new Set(violations.map(({ kind }) => kind))];
const good = (name, make) =>
  test(name, () => {
    clock = 0;
    const [history, witness = []] = make();
    assert.deepEqual(check(history, witness).violations, []);
  });
const wrong = (kind, name, make) =>
  test(`${kind}: ${name}`, () => {
    clock = 0;
    const [history, witness = []] = make();
    const result = check(history, witness);
    assert.deepEqual(kinds(result), [kind]);
    assert.match(summary(result.violations), new RegExp(`${kind}: 1\n`));
  });

good("an answer", () => [[invoke(1, "a"), answer(1, "a", "T")], [ran("a", "T")]]);
good("asked again after a cut, and told the same", () => [
  [invoke(1, "a"), cut(1), invoke(2, "a"), answer(2, "a", "T", { replayed: true }), invoke(3, "a", { final: true }), answer(3, "a", "T", { replayed: true })],
  [ran("a", "T")],
]);
good("its process died, and the answer is there", () => [
  [invoke(1, "a"), refused(1, "process-ended", { status: 200 }), invoke(2, "a"), answer(2, "a", "T")],
  [ran("a", "T")],
]);
good("refused for the moment, then run", () => [
  [invoke(1, "a"), refused(1, "unavailable"), invoke(2, "a"), answer(2, "a", "T"), invoke(3, "a"), refused(3, "unavailable")],
  [ran("a", "T")],
]);
good("it ran, nobody knows, and so it stays", () => [
  [invoke(1, "a"), cut(1), invoke(2, "a"), unknown(2), invoke(3, "a", { final: true }), unknown(3)],
  [ran("a", "T")],
]);
good("without a key it runs as often as it is asked", () => [
  [invoke(1, "a", { key: undefined }), cut(1), invoke(2, "a", { key: undefined }), answer(2, "a", "U")],
  [ran("a", "T"), ran("a", "U")],
]);
good("a stream that is taken up again", () => [
  [invoke(1, "a"), step(1, "a", 1), step(1, "a", 2), at({ do: "resume", op: 1, after: "1-2" }), step(1, "a", 3), answer(1, "a", "T", { steps: 3 })],
  [ran("a", "T")],
]);
good("an event is missing where the store was away", () => [
  [invoke(1, "a"), step(1, "a", 1), at({ do: "fault", what: "Redis killed", store: true, away: true }), step(1, "a", 3), cut(1)],
  [ran("a", "T")],
]);
wrong("event-missing", "connections to the store were cut, and it was there again within a second", () => [
  [invoke(1, "a"), step(1, "a", 1), at({ do: "fault", what: "cut", store: true }), step(1, "a", 3), cut(1)],
  [ran("a", "T")],
]);
wrong("event-missing", "a node was killed, and the store was not", () => [
  [invoke(1, "a"), step(1, "a", 1), at({ do: "fault", what: "kill", node: "2.1" }), step(1, "a", 3), cut(1)],
  [ran("a", "T")],
]);
good("a replayed answer has no steps", () => [[invoke(1, "a"), answer(1, "a", "T", { steps: 3, replayed: true })], [ran("a", "T")]]);
good("a stream whose node was killed ends in silence", () => [
  [invoke(1, "a"), at({ do: "fault", what: "kill", node: "1.1" }), cut(1, "stream-silent")],
  [ran("a", "T")],
]);
good("a request of a session that is gone is refused unread", () => [
  [invoke(1, "a"), refused(1, "not-initialized", { status: 404, id: null })],
]);
good("a stream that was taken up at a node that stands still", () => [
  [invoke(1, "a"), at({ do: "fault", what: "pause", node: "2.1", stalls: true }), cut(1, "stream-silent")],
  [ran("a", "T")],
]);
good("a session that its client ended is gone", () => [[at({ do: "opened", session: "s" }), at({ do: "ended", session: "s" }), at({ do: "gone", session: "s" })]]);
good("a post that was acknowledged is answered on its stream", () => [[post(1, "a"), accepted(1), answer(1, "a", "T"), ended()], [ran("a", "T")]]);
good("a post that was acknowledged, and its stream has ended", () => [[post(1, "a"), accepted(1), ended(), cut(1)]]);
good("a post that was acknowledged while its stream ended", () => [[post(1, "a"), ended(), accepted(1), cut(1)]]);
good("a post that nobody acknowledged", () => [[post(1, "a"), cut(1)]]);
good("a post of which nobody knew whether it arrived is answered after all", () => [[post(1, "a"), cut(1), answer(1, "a", "T")], [ran("a", "T")]]);

wrong("forgotten", "a post that was acknowledged gets nothing", () => [[post(1, "a"), accepted(1)]]);
wrong("forgotten", "its stream is closed long after", () => [[post(1, "a"), accepted(1), ended()]]);
wrong("forgotten", "its client gives up, and its stream is there", () => [[post(1, "a"), accepted(1), cut(1)]]);
wrong("forgotten", "the stream had ended before, and it was acknowledged nevertheless", () => [[ended(), post(1, "a"), accepted(1), cut(1)]]);
wrong("answered-twice", "refused, and answered on the stream", () => [[post(1, "a"), refused(1, "unavailable"), answer(1, "a", "T")], [ran("a", "T")]]);
wrong("answered-twice", "answered once more on the stream", () => [[post(1, "a"), accepted(1), answer(1, "a", "T"), answer(1, "a", "T")], [ran("a", "T")]]);
wrong("answered-twice", "an answer behind a cut, where there is no stream of its own", () => [[invoke(1, "a"), cut(1), answer(1, "a", "T")], [ran("a", "T")]]);
wrong("unanswered", "a request gets nothing", () => [[invoke(1, "a")]]);
wrong("answered-twice", "two answers to one request", () => [[invoke(1, "a"), answer(1, "a", "T"), answer(1, "a", "T")], [ran("a", "T")]]);
wrong("unasked", "an answer to nobody's request", () => [[answer(1, "a", "T")]]);
wrong("unasked", "a run that nobody asked for", () => [[], [ran("a", "T")]]);
wrong("foreign-id", "an answer with another id", () => [[invoke(1, "a"), answer(1, "a", "T", { id: 2 })], [ran("a", "T")]]);
wrong("foreign-id", "an id of another type", () => [[invoke(1, "a"), answer(1, "a", "T", { id: "1" })], [ran("a", "T")]]);
wrong("foreign-id", "a refusal without its id", () => [[invoke(1, "a"), refused(1, "unavailable", { id: null })]]);
wrong("foreign-answer", "an answer to another's request", () => [
  [invoke(1, "a"), invoke(2, "b"), answer(1, "b", "U"), answer(2, "b", "U")],
  [ran("a", "T"), ran("b", "U")],
]);
wrong("ran-twice", "a key that did not hold", () => [[invoke(1, "a"), cut(1), invoke(2, "a"), cut(2)], [ran("a", "T"), ran("a", "U")]]);
wrong("ran-twice", "asked once without a key, run twice", () => [
  [invoke(1, "a", { key: undefined }), answer(1, "a", "T")],
  [ran("a", "T"), ran("a", "U")],
]);
wrong("invented", "an answer of no run", () => [[invoke(1, "a"), answer(1, "a", "T")]]);
wrong("lost", "answered, then unknown", () => [[invoke(1, "a"), answer(1, "a", "T"), invoke(2, "a"), unknown(2)], [ran("a", "T")]]);
test("lost and ran-twice: answered, then run once more", () => {
  clock = 0;
  const result = check([invoke(1, "a"), answer(1, "a", "T"), invoke(2, "a"), answer(2, "a", "U")], [ran("a", "T"), ran("a", "U")]);
  assert.deepEqual(kinds(result), ["ran-twice", "lost"]);
});
wrong("lost", "an answer before anybody was told unknown is a promise", () => {
  const [first, told] = [invoke(1, "a"), answer(1, "a", "T")];
  return [[first, told, invoke(2, "a"), cut(2), invoke(3, "a", { final: true }), unknown(3)], [ran("a", "T")]];
});
wrong("lost", "a process without its lease answers who waits on it; the others are told unknown", () => {
  const first = invoke(1, "a");
  return [[first, invoke(2, "a"), unknown(2), answer(1, "a", "T"), invoke(3, "a", { final: true }), unknown(3)], [ran("a", "T")]];
});
wrong("known-again", "unknown, then answered", () => [[invoke(1, "a"), unknown(1), invoke(2, "a"), answer(2, "a", "T")], [ran("a", "T")]]);
wrong("refused-wrongly", "the same arguments are said to be others", () => [[invoke(1, "a"), refused(1, "key-reused", { status: 422 })]]);
wrong("unsettled", "all is well again, and there is no answer", () => [
  [invoke(1, "a"), cut(1), invoke(2, "a", { final: true }), refused(2, "unavailable")],
  [ran("a", "T")],
]);
wrong("event-missing", "a step is left out on resumption", () => [
  [invoke(1, "a"), step(1, "a", 1), at({ do: "resume", op: 1, after: "1-1" }), step(1, "a", 3), cut(1)],
  [ran("a", "T")],
]);
wrong("event-missing", "the last step is left out", () => [[invoke(1, "a"), step(1, "a", 1), answer(1, "a", "T", { steps: 2 })], [ran("a", "T")]]);
wrong("event-doubled", "an event comes again on resumption", () => [
  [invoke(1, "a"), step(1, "a", 1), at({ do: "resume", op: 1, after: "1-1" }), step(1, "a", 1), cut(1)],
  [ran("a", "T")],
]);
wrong("event-doubled", "a step comes again under another number", () => [[invoke(1, "a"), step(1, "a", 1), step(1, "a", 1, "1-9"), cut(1)], [ran("a", "T")]]);
wrong("foreign-event", "a step of another's call", () => [[invoke(1, "a"), step(1, "b", 1), cut(1)], [ran("a", "T")]]);
wrong("stream-lost", "its node lived, and the stream ended in silence", () => [
  [invoke(1, "a"), at({ do: "fault", what: "kill", node: "2.1" }), cut(1, "stream-silent")],
  [ran("a", "T")],
]);
wrong("session-lost", "a session that was acknowledged is not known", () => [[at({ do: "opened", session: "s" }), at({ do: "gone", session: "s" })]]);
test("no store explains a request without an end, or another's", () => {
  for (const kind of ["unanswered", "unsettled", "answered-twice", "foreign-id", "foreign-answer", "foreign-event", "unasked", "invented", "refused-wrongly"]) assert(!LOSSES.has(kind), kind);
});

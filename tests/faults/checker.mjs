// checker.mjs - reads what clients wrote down while servers and stores were killed, and says which promise was broken.
// A history is a list of records in the order of their times `t`:
//   {do: "invoke", op, t, client, era, id, call, key?, session?, final?, streamed?}  a request goes out; `op` is one attempt, `call` what it is about;
//                                                                          streamed: its answer comes on its session's own stream
//   {do: "accepted", op, t}                                                it was acknowledged, to be answered there
//   {do: "answer", op, t, id, echo, token, replayed, steps?}               its result: whose call it says it was, and which run of it
//   {do: "refused", op, t, id, status, reason}                             an error of the server's
//   {do: "cut", op, t, why}                                                the connection broke, or a balancer said so
//   {do: "event", op, t, event, step, echo}                                progress on the way; `event` is its id or null
//   {do: "resume", op, t, after}                                           a stream is taken up again behind an event
//   {do: "opened" | "ended", session, t}                                   a session was acknowledged; it was given up by its client, or its own stream ended
//   {do: "gone", session, t}                                               it was answered with 404
//   {do: "fault", t, until?, what, node?, store?, away?, stalls?}          what was done: to one node, which may stand still, or to the store, which may be away
//                                                                          for more than a second
// The witness is what the tool wrote itself, a line for each run: {call, token, node}.

// Refusals after which the same key may be asked with again; all others are for good.
const PASSING = new Set(["unavailable", "process-ended", "busy", "too-many-keys", "stopping", "rate-limited"]);
export const isPassing = ({ status, reason }) => PASSING.has(reason) || status === 429 || status === 503;
export const isUnknown = ({ reason }) => reason === "outcome-unknown";

class Found {
  constructor(apart = null) {
    this.violations = [];
    this.apart = apart;
  }
  add(kind, subject, words) {
    this.violations.push({ kind, subject, words });
  }
}

// ------------------------------------------------------------------ one request, one end

const ENDS = new Set(["answer", "refused", "cut"]);

function attemptsOf(history, found) {
  const attempts = new Map();
  for (const record of history) {
    if (record.do === "invoke") {
      attempts.set(record.op, { ...record, events: [], resumes: [], end: null });
      continue;
    }
    if (record.op === undefined) continue;
    const attempt = attempts.get(record.op);
    if (!attempt) {
      found.add("unasked", record.op, `${record.do} for what nobody asked`);
      continue;
    }
    if (record.do === "event") attempt.events.push(record);
    if (record.do === "resume") attempt.resumes.push(record);
    if (record.do === "accepted") attempt.accepted = record;
    if (!ENDS.has(record.do)) continue;
    // Whose post broke off may hear the answer on its stream yet.
    if (attempt.end && !(attempt.streamed && attempt.end.do === "cut")) found.add("answered-twice", attempt.call, `id ${JSON.stringify(attempt.id)}`);
    attempt.end = record;
  }
  return attempts;
}

// What was acknowledged is answered on its stream, unless that has ended since it was sent and before its client gave up.
function isForgotten({ t, end, accepted, session }, ended) {
  const over = ended.get(session);
  return accepted && (!end || (end.do === "cut" && !(over >= t && over <= end.t)));
}

function checkEnds(attempts, history, found) {
  const ended = new Map(history.filter((record) => record.do === "ended").map(({ session, t }) => [session, t]));
  for (const one of attempts.values()) {
    const { end, call, id } = one;
    if (isForgotten(one, ended)) found.add("forgotten", call, `id ${JSON.stringify(id)} was acknowledged, and its stream had no answer`);
    else if (!end) found.add("unanswered", call, `id ${JSON.stringify(id)} got nothing`);
    if (!end) continue;
    if (end.do === "cut") continue;
    // That a session is gone is told by HTTP, before the message is read.
    const unread = end.do === "refused" && end.status === 404 && end.id === null;
    if (end.id !== id && !unread) found.add("foreign-id", call, `asked with ${JSON.stringify(id)}, told ${JSON.stringify(end.id)}`);
    if (end.do === "answer" && end.echo !== call) found.add("foreign-answer", call, `was told of ${end.echo}`);
  }
}

// ------------------------------------------------------------------------ what ran

function runsOf(witness) {
  const runs = new Map();
  for (const { call, token, node } of witness) {
    if (!runs.has(call)) runs.set(call, []);
    runs.get(call).push({ token, node });
  }
  return runs;
}

function checkRuns(calls, runs, found) {
  for (const [call, ran] of runs) {
    const asked = calls.get(call);
    if (!asked) found.add("unasked", call, "ran, and nobody asked for it");
    else if (asked[0].key && ran.length > 1) found.add("ran-twice", call, `${ran.length} times with one key`);
    else if (ran.length > asked.length) found.add("ran-twice", call, `${ran.length} times, asked for ${asked.length} times`);
  }
  for (const [call, asked] of calls)
    for (const { end } of asked)
      if (end?.do === "answer" && end.echo === call && !runs.get(call)?.some(({ token }) => token === end.token))
        found.add("invented", call, `an answer of a run that never was: ${end.token}`);
}

// -------------------------------------------------------------------- calls with a key

function checkLater(call, asked, answer, found) {
  for (const later of asked) {
    const { end } = later;
    if (later.t <= answer.end.t || !end) continue;
    if (end.do === "answer" && end.token !== answer.end.token)
      found.add("lost", call, `answered with ${answer.end.token}, then with ${end.token}`);
    if (end.do === "refused" && !isPassing(end))
      found.add("lost", call, `answered, then refused: ${end.reason ?? end.status}`);
  }
}

function checkKey(call, asked, found) {
  const answers = asked.filter(({ end }) => end?.do === "answer");
  for (const answer of answers) checkLater(call, asked, answer, found);
  for (const unknown of asked.filter(({ end }) => end?.do === "refused" && isUnknown(end)))
    for (const later of answers)
      if (later.t > unknown.end.t) found.add("known-again", call, "nobody knew its outcome, then there was an answer");
  for (const { end } of asked)
    if (end?.do === "refused" && end.reason === "key-reused") found.add("refused-wrongly", call, "its arguments were the same");
}

// At the end everything is whole again: what was asked with a key is answered, or unknown, and what was answered stays so.
function checkFinal(call, asked, found) {
  const final = asked.filter((one) => one.final);
  if (!final.length) return;
  const { end } = final.at(-1);
  if (!end || end.do === "cut" || (end.do === "refused" && isPassing(end)))
    found.add("unsettled", call, `nothing definite when all was well again: ${end?.reason ?? end?.why ?? "nothing"}`);
}

// ----------------------------------------------------------------------------- streams

const overlaps = (fault, from, to) => fault.t <= to && (fault.until ?? fault.t) >= from;

// While the store is away for more than a second events have no number, and the guide promises nothing of them: counted apart.
function checkEvents(one, faults, found) {
  const away = faults.some((fault) => fault.away && overlaps(fault, one.t, one.end?.t ?? Infinity));
  if (away) found = found.apart;
  const ids = new Set();
  let next = 1;
  for (const { event, step, echo } of one.events) {
    if (echo !== one.call) found.add("foreign-event", one.call, `step ${step} of ${echo}`);
    if (event !== null && ids.has(event)) found.add("event-doubled", one.call, `event ${event}`);
    else if (step < next) found.add("event-doubled", one.call, `step ${step} after ${next - 1}`);
    else if (step > next) found.add("event-missing", one.call, `step ${step} after ${next - 1}`);
    if (event !== null) ids.add(event);
    next = Math.max(next, step + 1);
  }
  const { end } = one;
  if (end?.do === "answer" && end.steps && !end.replayed && next <= end.steps)
    found.add("event-missing", one.call, `answered after step ${next - 1} of ${end.steps}`);
}

// A stream that broke off and was taken up again comes to its end, where neither its node nor the store was touched meanwhile, and no node stood still: that may be
// the one at which it was taken up.
function checkStreamEnd(one, runs, faults, found) {
  if (one.end?.do !== "cut" || one.end.why !== "stream-silent") return;
  for (const { node } of runs.get(one.call) ?? []) {
    const hurt = faults.some((fault) => (!fault.node || fault.node === node || fault.stalls) && overlaps(fault, one.t, one.end.t));
    if (!hurt) found.add("stream-lost", one.call, `ran on ${node}, which lived; the stream ended in silence`);
  }
}

// ---------------------------------------------------------------------------- sessions

function checkSessions(history, found) {
  const open = new Set();
  for (const { do: what, session } of history) {
    if (what === "opened") open.add(session);
    if (what === "ended") open.delete(session);
    if (what === "gone" && open.delete(session)) found.add("session-lost", session, "was opened, and is not known any more");
  }
}

export function check(history, witness) {
  const found = new Found(new Found());
  history = [...history].sort((a, b) => a.t - b.t);
  const attempts = attemptsOf(history, found);
  const faults = history.filter((record) => record.do === "fault");
  const calls = new Map();
  for (const one of attempts.values()) {
    if (one.call === undefined) continue;
    if (!calls.has(one.call)) calls.set(one.call, []);
    calls.get(one.call).push(one);
  }
  const runs = runsOf(witness);
  checkEnds(attempts, history, found);
  checkRuns(calls, runs, found);
  for (const [call, asked] of calls) {
    if (asked[0].key) checkKey(call, asked, found);
    if (asked[0].key) checkFinal(call, asked, found);
    for (const one of asked) checkEvents(one, faults, found), checkStreamEnd(one, runs, faults, found);
  }
  checkSessions(history, found);
  return { violations: found.violations, counts: { ...count(attempts, runs, history), "events missed or doubled without the store": found.apart.violations.length } };
}

function count(attempts, runs, history) {
  const counts = { attempts: attempts.size, acknowledged: 0, answered: 0, replayed: 0, refused: 0, unknown: 0, cut: 0, runs: 0, events: 0, resumed: 0, faults: 0 };
  for (const { end, events, resumes, accepted } of attempts.values()) {
    if (accepted) counts.acknowledged++;
    if (end?.do === "answer") counts[end.replayed ? "replayed" : "answered"]++;
    if (end?.do === "refused") counts[isUnknown(end) ? "unknown" : "refused"]++;
    if (end?.do === "cut") counts.cut++;
    counts.events += events.length;
    counts.resumed += resumes.length;
  }
  for (const ran of runs.values()) counts.runs += ran.length;
  for (const record of history) if (record.do === "fault") counts.faults++;
  return counts;
}

// What may come of a store that forgets; anything else is wrong whatever the store does.
export const LOSSES = new Set(["ran-twice", "lost", "known-again", "session-lost", "forgotten", "event-missing", "event-doubled", "stream-lost"]);

// By kind: how many, and the first few.
export function summary(violations, show = 3) {
  const kinds = new Map();
  for (const one of violations) kinds.set(one.kind, [...(kinds.get(one.kind) ?? []), one]);
  return [...kinds].map(([kind, all]) => {
    const first = all.slice(0, show).map(({ subject, words }) => `    ${subject}: ${words}\n`);
    return `  ${kind}: ${all.length}\n${first.join("")}`;
  }).join("");
}

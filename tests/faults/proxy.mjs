// proxy.mjs - carries connections from ports of its own to others, and cuts and delays them when it is told to, by messages of the process
// that forked it: {open: {name, port, target}}, {delay: name, ms, replicas?}, {cut: name, share}, {sever: name, on}.
import net from "node:net";

const doors = new Map(); // by name: {name, target, lines, ms, severed}

// A piece waits for its time; pieces keep their order, and the end comes behind the last.
function carry(line, from, to, door) {
  let busy = Promise.resolve();
  const later = (act) => {
    const ms = line.replica ? door.replicaMs : door.ms;
    const at = Date.now() + ms;
    busy = busy.then(() => (Date.now() < at ? new Promise((go) => setTimeout(go, at - Date.now())) : undefined)).then(act);
  };
  from.on("data", (piece) => {
    if (door.learns && !line.replica && piece.includes("REPLCONF")) line.replica = true; // a Redis that copies another
    if (door.severed) return line.end();
    from.pause();
    later(() => {
      if (!to.destroyed && !to.write(piece)) return to.once("drain", () => from.resume());
      from.resume();
    });
  });
  from.on("end", () => later(() => to.end()));
}

function accept(door, here) {
  if (door.severed) return here.resetAndDestroy?.() ?? here.destroy();
  const there = net.connect(door.target, "127.0.0.1");
  const line = { replica: false, end: () => (here.resetAndDestroy?.() ?? here.destroy(), there.resetAndDestroy?.() ?? there.destroy()) };
  door.lines.add(line);
  for (const socket of [here, there]) {
    socket.setNoDelay(true);
    socket.on("error", () => line.end());
    socket.on("close", () => (door.lines.delete(line), here.destroy(), there.destroy()));
  }
  carry(line, here, there, door);
  carry(line, there, here, door);
}

function open({ name, port, target, learns = false }) {
  const door = { name, target, learns, lines: new Set(), ms: 0, replicaMs: 0, severed: false };
  doors.set(name, door);
  const server = net.createServer({ noDelay: true }, (here) => accept(door, here));
  server.on("error", (error) => (console.error(`proxy ${name}: ${error.message}`), process.exit(1)));
  server.listen(port, "127.0.0.1", () => process.send({ opened: name }));
}

function obey({ open: opened, delay, cut, sever, ms = 0, replicaMs = ms, share = 1, on = true }) {
  if (opened) return open(opened);
  const door = doors.get(delay ?? cut ?? sever);
  if (delay) Object.assign(door, { ms, replicaMs });
  if (sever) door.severed = on;
  if (cut || (sever && on)) for (const line of [...door.lines]) if (Math.random() < share) line.end();
}

process.on("message", obey);
process.on("disconnect", () => process.exit(0));

// cutter.mjs PORT FILE - passes bytes on to PORT of 127.0.0.1. Once a tools/call or "go" has gone through and FILE has grown by it, its
// connection is cut, before an answer, and FILE.cut is made. Says where it listens.
import { readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';

const [port, file] = process.argv.slice(2);
const size = () => { try { return readFileSync(file).length; } catch { return 0; } };

const server = createServer((from) => {
  const to = connect(Number(port), '127.0.0.1');
  let look;
  const end = () => { clearInterval(look); from.destroy(); to.destroy(); }; // who has gone does not wait for another's run
  from.on('data', (data) => {
    const before = size();
    to.write(data);
    if (!/"method":"(tools\/call|go)"/.test(data)) return;
    clearInterval(look);
    look = setInterval(() => {
      if (size() === before) return;
      end();
      writeFileSync(`${file}.cut`, '');
    }, 10);
  });
  to.on('data', (data) => from.write(data));
  for (const one of [from, to]) one.on('error', end).on('close', end);
});
server.listen(0, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}/`));

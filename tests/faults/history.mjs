// history.mjs - what clients saw, written down as it happens, a line of JSON each, in a file for each client; checker.mjs says what the
// records are. Times are of one clock, and no two are the same.
import { createWriteStream } from "node:fs";
import { join } from "node:path";

let last = 0;
export function now() {
  last = Math.max(performance.now(), last + 0.0001);
  return last;
}

export class History {
  constructor(folder, name) {
    this.records = [];
    this.file = createWriteStream(join(folder, `${name}.jsonl`));
    this.ops = 0;
    this.name = name;
  }
  add(record) {
    const whole = { t: now(), ...record };
    this.records.push(whole);
    this.file.write(JSON.stringify(whole) + "\n");
    return whole;
  }
  op() {
    return `${this.name}/${++this.ops}`;
  }
  close() {
    return new Promise((resolve) => this.file.end(resolve));
  }
}

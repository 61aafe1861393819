// chance.mjs - chance that can be repeated: the same seed gives the same choices.
export class Chance {
  constructor(seed) {
    this.state = seed >>> 0;
  }
  // mulberry32
  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let x = this.state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  }
  below(n) {
    return Math.floor(this.next() * n);
  }
  between(from, to) {
    return from + this.next() * (to - from);
  }
  happens(probability) {
    return this.next() < probability;
  }
  one(list) {
    return list[this.below(list.length)];
  }
}

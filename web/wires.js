// wires.js - the long streams of all tabs of this page. Browsers allow six connections an origin, so one tab leads: it alone
// holds the feed and the stream of news, and tells the others. Which one leads is a lock's to say; when it goes, another does.
// Streams that break are taken up again, patiently.
import { pause } from './dom.js';

const CATCH_UP_MS = 2000;
const LAST_WORDS_MS = 100; // for what is under way on a stream that another has replaced
const RETRY_MS = [500, 1000, 2000, 4000, 8000];

export class Wires {
  // openFeed(signal, onLines): reads the feed, or gives false where there is no key; past(): its lines so far.
  constructor({ name, openFeed, onFeed, past, onNews, onState }) {
    Object.assign(this, { openFeed, onFeed, past, onNews, onState });
    this.tab = crypto.randomUUID?.() || String(Math.random());
    this.watched = new Set();
    this.wanted = new Map(); // what other tabs watch, by tab
    this.leading = false;
    this.name = name;
    this.stopper = new AbortController();
  }

  start() {
    this.channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel(this.name) : null;
    if (this.channel) this.channel.onmessage = (event) => this.hear(event.data);
    if (this.channel && navigator.locks) navigator.locks.request(this.name, { signal: this.stopper.signal }, () => this.lead()).catch(() => {});
    else this.lead();
    addEventListener('pagehide', () => this.tell({ gone: this.tab }));
    addEventListener('pageshow', () => this.tellWanted());
    this.tell({ hello: this.tab });
    this.tellWanted();
    setTimeout(() => { this.caughtUp = true; }, CATCH_UP_MS); // nobody says it
  }

  stop() {
    this.stopper.abort();
    this.hush();
    this.haste?.abort();
    this.tell({ gone: this.tab });
    this.channel?.close();
    this.channel = null;
  }

  tell(message) { this.channel?.postMessage(message); }
  tellWanted() { this.tell({ tab: this.tab, wants: [...this.watched] }); }

  hear(message) {
    if (message.past) this.catchUp(message);
    else if (message.lines) this.caughtUp && this.onFeed(message.lines);
    else if (message.news) this.onNews(message.news);
    else if (message.state) this.onState(message.state[0], message.state[1]);
    else if (message.wants) this.setWanted(message.tab, message.wants);
    else if (message.gone) this.setWanted(message.gone, null);
    else if (message.back) this.haste?.abort();
    else if (message.hello) {
      this.tellWanted();
      if (this.leading) for (const [what, state] of Object.entries(this.states || {})) this.tell({ state: [what, state] });
      if (this.leading) this.tell({ to: message.hello, past: this.past() });
    }
  }

  // Whoever comes later is told by the tab that leads what was before; what is said before that stands in it.
  catchUp({ to, past }) {
    if (to !== this.tab || this.caughtUp) return;
    this.caughtUp = true;
    this.onFeed(past);
  }

  setWanted(tab, uris) {
    if (uris?.length) this.wanted.set(tab, uris);
    else if (!this.wanted.delete(tab)) return;
    this.relisten();
  }

  // --- what this tab watches
  isWatching(uri) { return this.watched.has(uri); }
  watch(uri, on) {
    if (on) this.watched.add(uri);
    else this.watched.delete(uri);
    this.tellWanted();
    this.relisten();
  }

  setClient(client) {
    this.client = client;
    if (this.leading) this.hush();
  }

  // --- leading
  async lead() {
    this.leading = this.caughtUp = true;
    await Promise.all([this.keepFeed(), this.keepNews()]);
  }

  say(what, state) {
    this.states = { ...this.states, [what]: state };
    this.onState(what, state);
    this.tell({ state: [what, state] });
  }

  // A tab has found that the server is there again: the feed waits no longer. (The news go on with the client that is set then.)
  hurry() {
    this.tell({ back: true });
    this.haste?.abort();
  }

  async keepFeed() {
    for (let failures = 0; !this.stopper.signal.aborted;) {
      try {
        const began = await this.openFeed(this.stopper.signal, (lines) => {
          if (failures >= 0) this.say('feed', 'open');
          failures = -1;
          this.onFeed(lines);
          this.tell({ lines });
        });
        if (began === false) return this.say('feed', 'closed'); // no key, or not the right one
      } catch { /* below */ }
      if (this.stopper.signal.aborted) return undefined;
      this.say('feed', 'lost');
      this.haste = new AbortController();
      await pause(RETRY_MS[Math.min(Math.max(++failures, 0), RETRY_MS.length - 1)], this.haste.signal);
    }
    return undefined;
  }

  // What is watched is another set: a session of an older revision is told, and its stream goes on; else there is another stream.
  relisten() {
    if (this.leading && !this.client?.follow(this.uris())) this.again?.();
  }

  uris() { return [...new Set([...this.watched, ...[...this.wanted.values()].flat()])].slice(0, 100); }

  // Ends the stream of news, and the one before it where that is still there.
  hush() {
    this.before?.abort();
    this.listening?.abort();
    this.again?.();
  }

  // One stream replaces another without a gap: the one before ends when it has begun.
  begun(listening) {
    const before = this.before;
    if (listening !== this.listening || !before) return;
    this.before = null;
    setTimeout(() => before.abort(), LAST_WORDS_MS);
  }

  replaced(listening) {
    if (this.before) listening.abort(); // it had not begun
    else this.before = listening;
  }

  async keepNews() {
    for (let failures = 0; !this.stopper.signal.aborted;) {
      const listening = this.listening = new AbortController();
      const another = new Promise((resolve) => { this.again = resolve; });
      const hear = (message) => {
        if (failures !== 0 || !this.states?.news) this.say('news', 'open');
        failures = 0;
        this.onNews(message);
        this.tell({ news: message });
      };
      const over = this.client?.listen(this.uris(), listening.signal, hear, () => this.begun(listening)).then(() => true, () => true);
      const broken = await Promise.race([another, ...(over ? [over] : [])]);
      if (listening.signal.aborted) continue;
      if (!broken) {
        this.replaced(listening);
        continue;
      }
      this.before?.abort();
      this.before = null;
      this.say('news', 'lost');
      await Promise.race([another, pause(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)])]);
    }
  }
}

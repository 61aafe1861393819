// traffic.js - every message of every client, both ways: filtered, joined with its answer, exported and opened again.
import { h, replace, plainName, bytesText, timeText, clockText, download, note, calmly, copyButton } from './dom.js';
import { VirtualList, fillCells } from './list.js';
import { readRecording } from './feed.js';
import { tree } from './result.js';

// What a filter's words mean: "method:tools/call", "id:7", "conn:3", "client:127.0.0.1", "is:error", or any text of the message.
export function parseFilter(text) {
  const tests = [];
  for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const [, key, value] = /^(method|id|conn|client|is):(.*)$/.exec(word) || [];
    if (key === 'method') tests.push((one) => one.method.toLowerCase().includes(value));
    else if (key === 'id') tests.push((one) => one.id.replace(/^"|"$/g, '').toLowerCase() === value);
    else if (key === 'conn') tests.push((one) => String(one.conn) === value);
    else if (key === 'client') tests.push((one) => one.peer.toLowerCase().includes(value));
    else if (key === 'is') tests.push((one) => (value === 'error' ? one.bad : value === 'in' ? one.dir === '>' : value === 'out' ? one.dir === '<' : true));
    else tests.push((one) => one.method.toLowerCase().includes(word) || one.line.toLowerCase().includes(word));
  }
  return (one) => tests.every((test) => test(one));
}

// The numbers of the messages that fit, kept while messages come and go.
class Fitting {
  constructor(feed) {
    this.feed = feed;
    this.set('', '', false);
  }

  set(text, method, errors) {
    const words = parseFilter(text);
    this.test = (one) => words(one) && (!method || one.method === method) && (!errors || one.bad);
    this.all = !text.trim() && !method && !errors;
    this.numbers = [];
    this.head = 0;
    this.looked = this.feed.messages.first;
    this.oldest = this.looked;
    return this.grow();
  }

  // Looks at what is new, for a moment; says how many left at the beginning, and whether there is more to look at.
  grow() {
    const messages = this.feed.messages;
    let gone = 0;
    if (this.all) {
      gone = messages.first - this.oldest;
      this.oldest = messages.first;
      this.looked = messages.next;
      return { gone, more: false };
    }
    while (this.head < this.numbers.length && this.numbers[this.head] < messages.first) {
      this.head++;
      gone++;
    }
    if (this.head > 50000) {
      this.numbers = this.numbers.slice(this.head);
      this.head = 0;
    }
    this.looked = Math.max(this.looked, messages.first);
    const until = performance.now() + 12;
    while (this.looked < messages.next) {
      if (this.test(messages.get(this.looked))) this.numbers.push(this.looked);
      this.looked++;
      if ((this.looked & 63) === 0 && performance.now() > until) break;
    }
    return { gone, more: this.looked < messages.next };
  }

  get count() { return this.all ? this.feed.messages.length : this.numbers.length - this.head; }
  numberAt(index) { return this.all ? this.feed.messages.first + index : this.numbers[this.head + index]; }
  indexOf(number) {
    if (this.all) return number - this.feed.messages.first;
    return this.numbers.indexOf(number, this.head) - this.head;
  }
}

const CELLS = ['span.when', 'span.dir', 'span.what', 'span.who-from', 'span.size', 'span.took'];

function whatText(one) {
  const kind = one.answers ? (one.bad ? 'error ' : 'answer ') : '';
  return kind + plainName(one.method || (one.id ? 'answer' : 'not JSON'), 60) + (one.name ? ` ${plainName(one.name, 60)}` : '') + (one.id ? ` #${plainName(one.id, 20)}` : '');
}

function fillRow(row, one) {
  if (!one) return;
  const incoming = one.dir === '>';
  const texts = [clockText(one.t), incoming ? '\u2192' : '\u2190', whatText(one), plainName(one.peer || `conn ${one.conn}`, 40), bytesText(one.bytes), one.answers ? timeText(one.ms) : ''];
  fillCells(row, CELLS, texts, one.bad ? 'message-row bad' : 'message-row');
  if (row.incoming === incoming) return;
  row.incoming = incoming;
  row.children[1].setAttribute('role', 'img');
  row.children[1].setAttribute('aria-label', incoming ? 'to the server' : 'from the server');
}

function messagePart(title, one) {
  let record;
  try {
    record = JSON.parse(one.line);
  } catch {
    return h('p.fault', {}, 'This record cannot be read.');
  }
  const { message, ...rest } = record;
  return h('section', {}, h('h3', {}, title), h('p.faint', {}, `${clockText(one.t)} \u00b7 ${plainName(one.peer || '')} \u00b7 conn ${plainName(String(one.conn))} \u00b7 ${bytesText(one.bytes)}${rest.cut ? ' (cut)' : ''}`),
    rest.refused !== undefined ? h('p.fault', {}, `refused: ${plainName(JSON.stringify(rest.refused), 300)}`) : null,
    copyButton('copy', 'The message', () => JSON.stringify(message, null, 2)), h('div.tree', {}, tree(message, undefined, 4)));
}

// live: the feed; only: none, recordings alone; onFilter(text): for who keeps it in a link.
export function trafficView(live, { query, only, onFilter } = {}) {
  let feed = live;
  let fitting = new Fitting(feed);
  let shownNumber = -1;
  const filter = h('input', { type: 'search', placeholder: 'Filter: text, method:tools/call, id:7, client:\u2026, is:error', 'aria-label': 'Filter messages', value: query?.get('filter') || '' });
  const method = h('select', { 'aria-label': 'Method' }, h('option', { value: '' }, 'every method'));
  const errors = h('input', { type: 'checkbox' });
  const status = h('p.faint', { role: 'status' });
  const detail = h('section.detail', { hidden: true, 'aria-label': 'Message', tabIndex: -1 });
  const file = h('input', { type: 'file', accept: '.jsonl,.json,.ndjson,.txt', hidden: true, onchange: () => file.files[0] && openFile(file.files[0]) });
  const list = new VirtualList({ label: 'Messages', count: () => fitting.count, render: (row, index) => fillRow(row, feed.messages.get(fitting.numberAt(index))), onOpen: (index) => open(fitting.numberAt(index)) });
  const empty = h('p.faint', { hidden: true }, 'Nothing has been said yet. Whatever any client says, and what it is answered, shows here.');
  const lead = h('p.lead', {}, 'Drop a recording on this page, or open one. It stays on this machine.');
  const panes = h('div.panes', {}, list.element, detail);
  const back = h('button', { type: 'button', hidden: true, onclick: () => use(live, '') }, 'back to the live traffic');
  const pauseButton = h('button', { type: 'button', 'aria-pressed': 'false', onclick: () => {
    paused = !paused;
    pauseButton.setAttribute('aria-pressed', String(paused));
    if (!paused) refresh();
  } }, 'Pause');
  const exportButton = h('button', { type: 'button', disabled: true, onclick: () => download(`idem-${new Date().toISOString().slice(0, 19).replace(/:/g, '')}.jsonl`, [feed.recording()], 'application/jsonl') }, 'Export');
  let paused = false;
  let shown = false;
  let source = '';
  const methods = new Set();

  const say = () => {
    const state = feed !== live ? `from ${plainName(source, 60)}` : { opening: 'connecting\u2026', open: 'live', lost: 'reconnecting\u2026', closed: 'not connected: the server has another key now' }[feed.state] || feed.state;
    const text = `${fitting.count.toLocaleString('en')} of ${feed.messages.length.toLocaleString('en')} messages, ${state}${feed.lost ? `, ${feed.lost} left out since this reader was slow` : ''}`;
    const shownText = only && feed === live ? 'No recording yet' : text;
    if (status.textContent !== shownText) status.textContent = shownText;
    exportButton.disabled = !feed.messages.length;
    empty.hidden = only || feed.messages.length > 0;
  };
  let noticed = 0;
  const noticeMethods = () => {
    noticed = Math.max(noticed, feed.messages.first);
    for (; noticed < feed.messages.next && methods.size < 200; noticed++) {
      const name = feed.messages.get(noticed).method;
      if (!name || methods.has(name)) continue;
      methods.add(name);
      method.append(h('option', { value: name }, plainName(name, 60)));
    }
  };
  const refresh = () => {
    if (paused || !shown) return;
    const { gone, more } = fitting.grow();
    list.update(gone);
    noticeMethods();
    say();
    if (more) setTimeout(refresh);
  };
  const fit = () => {
    onFilter?.(filter.value.trim());
    fitting.set(filter.value, method.value, errors.checked);
    refresh();
  };
  const applyFilter = () => {
    list.restart(feed === live);
    fit();
  };
  const refreshSoon = calmly(refresh, 60);
  let lastRefresh = 0;
  live.watch((kind) => {
    if (feed !== live || (kind !== 'messages' && kind !== 'state')) return;
    if (performance.now() - lastRefresh > 150) {
      lastRefresh = performance.now();
      refresh();
    } else refreshSoon();
  });
  filter.addEventListener('input', calmly(applyFilter, 150));
  method.addEventListener('change', applyFilter);
  errors.addEventListener('change', applyFilter);

  const use = (next, name) => {
    feed = next;
    source = name;
    fitting = new Fitting(feed);
    noticed = 0;
    back.hidden = feed === live || Boolean(only);
    lead.hidden = feed !== live;
    close();
    applyFilter();
  };
  const openFile = async (blob) => {
    status.textContent = 'reading the file\u2026';
    try {
      use(await readRecording(blob), blob.name || 'a file');
    } catch (error) {
      note(error.message, 'bad');
      say();
    }
  };
  const close = () => {
    detail.hidden = true;
    panes.classList.remove('open');
    shownNumber = -1;
  };
  function open(number) {
    const one = feed.messages.get(number);
    if (!one) return;
    shownNumber = number;
    const pair = one.pair >= 0 ? feed.messages.get(one.pair) : null;
    const [first, second] = pair && one.answers ? [pair, one] : [one, pair];
    detail.hidden = false;
    panes.classList.add('open');
    replace(detail, h('header.title', {}, h('h2', {}, plainName(one.method || 'message', 60)), h('span.faint', {}, timeText(one.ms)),
      h('button.icon', { type: 'button', 'aria-label': 'close', onclick: () => { close(); list.element.focus(); } }, '\u00d7')),
    messagePart(first.answers ? 'Answer' : first.method ? (first.id ? 'Request' : 'Notification') : 'Message', first), second ? messagePart('Answer', second) : null);
  }

  const element = h('article.traffic.fills', {}, h('header.title', {}, h('h1', {}, only ? 'Recording' : 'Traffic')),
    h('div.filters', {}, filter, method, h('label.option', {}, errors, ' errors only'), only ? null : pauseButton,
      exportButton,
      h('button', { type: 'button', onclick: () => file.click() }, 'Open a recording'), file, back), only ? lead : null, status, empty, panes);
  element.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || detail.hidden) return;
    close();
    list.element.focus();
  });
  const dropping = (event) => {
    if (!shown || ![...(event.dataTransfer?.types || [])].includes('Files')) return;
    event.preventDefault();
    element.classList.toggle('drop', event.type === 'dragover');
    if (event.type === 'drop' && event.dataTransfer.files[0]) openFile(event.dataTransfer.files[0]);
  };
  for (const type of ['dragover', 'dragleave', 'drop']) addEventListener(type, dropping);
  return {
    element, openFile,
    takeQuery: (given) => {
      const text = given.get('filter') || '';
      if (text === filter.value.trim()) return;
      filter.value = text;
      applyFilter();
    },
    show: () => {
      shown = true;
      list.resume();
      fit();
    },
    hide: () => { shown = false; },
  };
}

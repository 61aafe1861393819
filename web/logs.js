// logs.js - the log of the server and the stderr of its programs, live.
import { h, plainName, clockText, calmly } from './dom.js';
import { VirtualList, fillCells } from './list.js';

const LEVELS = ['debug', 'info', 'warn', 'error'];

const LOG_CELLS = ['span.when', 'span.level', 'span'];

function fillLogRow(row, one) {
  if (!one) return;
  const known = LEVELS.includes(one.level) ? one.level : 'info';
  fillCells(row, LOG_CELLS, [clockText(one.t), plainName(one.level, 20), plainName(one.text, 600)], `message-row log-row log-${known}`);
}

export function logsView(feed) {
  let numbers = [];
  let looked = 0;
  let shown = false;
  const filter = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter log lines' });
  const level = h('select', { 'aria-label': 'Least level' }, LEVELS.map((name) => h('option', { value: name }, `${name} and above`)));
  const status = h('p.faint', { role: 'status' });
  const whole = h('pre.text', { hidden: true, tabIndex: 0, 'aria-label': 'The whole line' });
  const list = new VirtualList({ label: 'Log lines', count: () => numbers.length, render: (row, index) => fillLogRow(row, feed.logs.get(numbers[index])), onOpen: (index) => {
    const one = feed.logs.get(numbers[index]);
    whole.hidden = !one;
    if (one) whole.textContent = `${new Date(one.t / 1000).toISOString()} ${one.level}\n${plainName(one.text, 8000)}`;
  } });
  const refresh = () => {
    if (!shown) return;
    const words = filter.value.toLowerCase();
    const least = LEVELS.indexOf(level.value);
    const gone = numbers.findIndex((number) => number >= feed.logs.first);
    const left = gone < 0 ? numbers.length : gone;
    if (left) numbers = numbers.slice(left);
    for (looked = Math.max(looked, feed.logs.first); looked < feed.logs.next; looked++) {
      const one = feed.logs.get(looked);
      if (LEVELS.indexOf(one.level) >= least && one.text.toLowerCase().includes(words)) numbers.push(looked);
    }
    list.update(left);
    status.textContent = `${numbers.length} of ${feed.logs.length} lines, ${{ opening: 'connecting\u2026', open: 'live', lost: 'reconnecting\u2026', closed: 'not connected: the server has another key now' }[feed.state]}`;
  };
  const again = () => {
    list.restart(true);
    numbers = [];
    looked = 0;
    refresh();
  };
  const soon = calmly(refresh, 80);
  feed.watch((kind) => (kind === 'logs' || kind === 'state') && soon());
  filter.addEventListener('input', calmly(again));
  level.addEventListener('change', again);
  const element = h('article.logs.fills', {}, h('header.title', {}, h('h1', {}, 'Logs')), h('div.filters', {}, filter, level), status, list.element, whole);
  return { element, show: () => { shown = true; list.resume(); refresh(); }, hide: () => { shown = false; } };
}

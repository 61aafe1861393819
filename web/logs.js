// logs.js - the log of the server and the stderr of its programs, live.
import { h, replace, plainName, clockText, calmly } from './dom.js';
import { VirtualList } from './list.js';

const LEVELS = ['debug', 'info', 'warn', 'error'];

function fillLogRow(row, one) {
  if (!one) return;
  if (row.childElementCount !== 3) replace(row, h('span.when'), h('span.level'), h('span'));
  row.children[0].textContent = clockText(one.t);
  row.children[1].textContent = one.level;
  row.children[1].className = `level level-${LEVELS.includes(one.level) ? one.level : 'info'}`;
  row.children[2].textContent = plainName(one.text, 600);
}

export function logsView(feed) {
  let numbers = [];
  let looked = 0;
  let shown = false;
  const filter = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter log lines' });
  const level = h('select', { 'aria-label': 'Least level' }, LEVELS.map((name) => h('option', { value: name }, `${name} and above`)));
  const status = h('p.faint', { role: 'status' });
  const whole = h('pre.text', { hidden: true, tabIndex: 0, 'aria-label': 'The whole line' });
  const list = new VirtualList({ label: 'Log lines', rowClass: 'log-row', count: () => numbers.length, render: (row, index) => fillLogRow(row, feed.logs.get(numbers[index])), onOpen: (index) => {
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
    status.textContent = `${numbers.length} of ${feed.logs.length} lines, ${{ open: 'live', lost: 'reconnecting\u2026' }[feed.state] || 'not connected'}`;
  };
  const again = () => {
    numbers = [];
    looked = 0;
    list.selected = -1;
    refresh();
  };
  const soon = calmly(refresh, 80);
  feed.watch((kind) => (kind === 'logs' || kind === 'state') && soon());
  filter.addEventListener('input', calmly(again));
  level.addEventListener('change', again);
  const element = h('article', {}, h('header.title', {}, h('h1', {}, 'Logs')), h('div.filters', {}, filter, level), status, list.element, whole);
  return { element, show: () => { shown = true; again(); }, hide: () => { shown = false; } };
}

// metrics.js - the last hour in small charts, a sample every ten seconds; the numbers stand under the pointer, or the arrow keys.
import { h, timeText, bytesText, clockText } from './dom.js';

const SVG = 'http://www.w3.org/2000/svg';
const HOUR_US = 3600e6;
const count = (n) => (n === undefined ? '' : n >= 100 ? Math.round(n).toLocaleString('en') : String(Math.round(n * 10) / 10));
const micro = (us) => timeText(us / 1000);

const CHARTS = [
  { title: 'Requests a second', series: [['requests', 'requests']], text: count, rate: true },
  { title: 'Errors a second', series: [['errors', 'errors', 'second']], text: count, rate: true },
  { title: 'Latency', series: [['p50', 'median'], ['p95', '95 %', 'third'], ['p99', '99 %', 'second']], text: micro },
  { title: 'Sessions', series: [['sessions', 'sessions']], text: count },
  { title: 'Connections', series: [['connections', 'connections']], text: count },
  { title: 'Processes', series: [['processes', 'processes']], text: count },
  { title: 'Memory', series: [['memory', 'memory']], text: bytesText },
];

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function chart({ title, series, text, rate }) {
  const now = h('div.now', {}, '\u2013');
  const at = h('div.at', { 'aria-live': 'polite' });
  const picture = svg('svg', { viewBox: '0 0 360 90', preserveAspectRatio: 'none', role: 'img', tabindex: 0 });
  const axis = svg('line', { class: 'axis', x1: 0, x2: 360, y1: 89.5, y2: 89.5 });
  const cursor = svg('line', { class: 'cursor', y1: 0, y2: 90, visibility: 'hidden' });
  const lines = series.map(([, , kind]) => svg('polyline', { class: `series ${kind || ''}` }));
  picture.append(axis, ...lines, cursor);
  let samples = [];
  let place = -1;
  const value = (sample, key) => (rate ? sample[key] / (sample.seconds || 10) : sample[key]);
  const xOf = (sample) => 360 - ((samples.at(-1).t - sample.t) / HOUR_US) * 360;
  const say = (sample) => series.map(([key, name]) => (series.length > 1 ? `${name} ` : '') + text(value(sample, key))).join('  ');
  const point = (index) => {
    const sample = samples[index];
    place = sample ? index : -1;
    cursor.setAttribute('visibility', sample ? 'visible' : 'hidden');
    if (!sample) return void (at.textContent = '');
    cursor.setAttribute('x1', xOf(sample));
    cursor.setAttribute('x2', xOf(sample));
    at.textContent = `${clockText(sample.t).slice(0, 8)}  ${say(sample)}`;
    return undefined;
  };
  picture.addEventListener('pointermove', (event) => {
    const box = picture.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * 360;
    let best = -1;
    samples.forEach((sample, i) => { if (best < 0 || Math.abs(xOf(sample) - x) < Math.abs(xOf(samples[best]) - x)) best = i; });
    point(best);
  });
  picture.addEventListener('pointerleave', () => point(-1));
  picture.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    point(Math.max(0, Math.min(samples.length - 1, (place < 0 ? samples.length : place) + step)));
  });
  return {
    element: h('section.chart', {}, h('h2', {}, title), now, picture, at),
    draw(list) {
      samples = list;
      const last = list.at(-1);
      now.textContent = last ? say(last) : '\u2013';
      const most = Math.max(1e-9, ...list.flatMap((sample) => series.map(([key]) => value(sample, key) || 0)));
      picture.setAttribute('aria-label', last ? `${title} in the last hour: now ${say(last)}, at most ${text(most)}` : `${title}: no samples yet`);
      series.forEach(([key], i) => lines[i].setAttribute('points', list.map((sample) => `${xOf(sample).toFixed(1)},${(88 - ((value(sample, key) || 0) / most) * 84).toFixed(1)}`).join(' ')));
    },
  };
}

export function metricsView(feed) {
  const charts = CHARTS.map(chart);
  const status = h('p.faint', { role: 'status' });
  let shown = false;
  const draw = () => {
    if (!shown) return;
    const list = [];
    const last = feed.metrics.get(feed.metrics.next - 1);
    for (let i = feed.metrics.first; i < feed.metrics.next; i++) if (feed.metrics.get(i).t > last.t - HOUR_US) list.push(feed.metrics.get(i));
    for (const one of charts) one.draw(list);
    status.textContent = last ? `The last ${Math.max(1, Math.round((last.t - list[0].t) / 60e6))} minutes, a sample every ten seconds` : 'The first sample comes within ten seconds.';
  };
  feed.watch((kind) => kind === 'metrics' && draw());
  return { element: h('article', {}, h('header.title', {}, h('h1', {}, 'Metrics')), status, h('div.charts', {}, charts.map((one) => one.element))), show: () => { shown = true; draw(); }, hide: () => { shown = false; } };
}

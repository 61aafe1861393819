// metrics.js - the last hour in small charts, a sample every ten seconds; the numbers stand under the pointer, or the arrow keys.
import { h, replace, timeText, bytesText, clockText } from './dom.js';

const SVG = 'http://www.w3.org/2000/svg';
const HOUR_US = 3600e6;
// How much is shown: as little as holds all samples, so that those of a young server are seen.
const SPANS = [[300e6, '5 minutes ago'], [900e6, '15 minutes ago'], [1800e6, '30 minutes ago'], [HOUR_US, 'an hour ago']];
const count = (n) => (n === undefined ? '' : n > 0 && n < 0.1 ? String(Math.round(n * 1000) / 1000) : n >= 100 ? Math.round(n).toLocaleString('en') : String(Math.round(n * 10) / 10));
const micro = (us) => timeText(us / 1000);

const CHARTS = [
  { title: 'Requests a second', series: [['requests', 'requests']], text: count, rate: true },
  { title: 'Errors a second', series: [['errors', 'errors', 'second']], text: count, rate: true },
  { title: 'Latency', series: [['p50', 'median'], ['p95', '95 %', 'third'], ['p99', '99 %', 'second']], text: micro, ofRequests: true },
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

// The least round number that nothing is above: 1, 2 or 5 with zeros, of bytes in powers of 1024.
export function roundAbove(value, bytes) {
  const unit = bytes ? 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(value, 1)) / 10)) : 1;
  const power = 10 ** Math.floor(Math.log10(Math.max(value / unit, 1e-6)) + 1e-9);
  return unit * power * [1, 2, 5, 10].find((step) => value / unit <= step * power * (1 + 1e-9));
}

// Samples that follow each other: where nothing was measured between two there is no line, which would be a slope that nobody saw.
export function runsOf(list, isThere) {
  const runs = [[]];
  for (const sample of list) {
    if (isThere(sample)) runs.at(-1).push(sample);
    else if (runs.at(-1).length) runs.push([]);
  }
  return runs.filter((run) => run.length);
}

// One point is a line, too: with round ends, a dot.
const pathOf = (points) => `M${points[0]} L${(points.length > 1 ? points.slice(1) : points).join(' ')}`;

// A number at the scale, without the zeros that a measured one has.
const scaleText = (text) => text.replace(/\.0+(?= |$)/, '');

function chart({ title, series, text, rate, ofRequests }) {
  const now = h('div.now', {}, '\u2013');
  const top = h('span', {});
  const since = h('span', {});
  const at = h('div.at', { 'aria-live': 'polite' });
  const picture = svg('svg', { viewBox: '0 0 360 90', preserveAspectRatio: 'none', role: 'img', tabindex: 0 });
  const rules = [4, 46, 88].map((y) => svg('line', { class: 'axis', x1: 0, x2: 360, y1: y, y2: y }));
  const cursor = svg('line', { class: 'cursor', y1: 0, y2: 90, visibility: 'hidden' });
  const lines = series.map(([, , kind]) => svg('path', { class: `series ${kind || ''}` }));
  picture.append(...rules, ...lines, cursor);
  let samples = [];
  let span = SPANS[0];
  let place = -1;
  const value = (sample, key) => (rate ? sample[key] / (sample.seconds || 10) : sample[key]);
  const xOf = (sample) => 360 - ((samples.at(-1).t - sample.t) / span[0]) * 360;
  const isThere = (sample) => !ofRequests || sample.p99 > 0; // none has ended else
  const said = (sample, key) => (isThere(sample) ? text(value(sample, key)) : '\u2013');
  const say = (sample) => series.map(([key, name]) => (series.length > 1 ? `${name} ` : '') + said(sample, key)).join('  ');
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
    element: h('section.chart', {}, h('h2', {}, title), now,
      h('div.plot', {}, h('div.scale', { 'aria-hidden': 'true' }, top, h('span', {}, '0')), picture, h('div.span', { 'aria-hidden': 'true' }, since, h('span', {}, 'now'))), at),
    draw(list) {
      samples = list;
      const last = list.at(-1);
      span = SPANS.find(([us]) => last && last.t - list[0].t <= us) || SPANS.at(-1);
      since.textContent = span[1];
      replace(now, last ? series.map(([key, name, kind]) => h('span.value', {}, series.length > 1 ? [h('span.swatch', { class: kind || '' }), h('span.faint', {}, `${name} `)] : null, said(last, key))) : '\u2013');
      const most = Math.max(0, ...list.filter(isThere).flatMap((sample) => series.map(([key]) => value(sample, key) || 0)));
      const full = most > 0 ? roundAbove(most, text === bytesText) : 1;
      top.textContent = scaleText(text(full));
      picture.setAttribute('aria-label', last ? `${title} in the last hour: now ${say(last)}, at most ${text(most)}` : `${title}: no samples yet`);
      const runs = runsOf(list, isThere);
      const alone = runs.length === 1 && runs[0].length === 1;
      for (const line of lines) line.classList.toggle('alone', alone);
      const dot = (key) => (sample) => `${xOf(sample).toFixed(1)},${(88 - ((value(sample, key) || 0) / full) * 84).toFixed(1)}`;
      series.forEach(([key], i) => lines[i].setAttribute('d', runs.map((run) => pathOf(run.map(dot(key)))).join(' ')));
    },
  };
}

const spanText = (minutes) => (minutes < 1.5 ? 'The last minute' : minutes > 58 ? 'The last hour' : `The last ${Math.round(minutes)} minutes`);

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
    status.textContent = last ? `${spanText((last.t - list[0].t) / 60e6)}, a sample every ten seconds` : 'The first sample comes within ten seconds.';
  };
  feed.watch((kind) => kind === 'metrics' && draw());
  return { element: h('article', {}, h('header.title', {}, h('h1', {}, 'Metrics')), status, h('div.charts', {}, charts.map((one) => one.element))), show: () => { shown = true; draw(); }, hide: () => { shown = false; } };
}

// tasks.js - calls that became tasks: a list that lives, in both forms (2025-11-25 and the extension of 2026-07-28). Each is asked
// for at the pace its server names, answered when it asks, and its result shown. A card changes where it stands, so that
// whoever has the keyboard on it keeps it.
import { h, replace, plainName, plainText, clockText, note } from './dom.js';
import { toolResult, rawJson } from './result.js';
import { isObject } from './schema.js';

const ENDED = ['completed', 'failed', 'cancelled'];
const TASKS_MOST = 100;
const FAILURES_MOST = 5;

// --------------------------------------------------------------------------- one card

function taskCard(task, onCancel) {
  const badge = h('span.badge', {});
  const words = h('p', { hidden: true });
  const bar = h('progress', { hidden: true, 'aria-label': 'progress' });
  const place = h('div', { 'aria-live': 'polite' });
  const button = h('button', { type: 'button', onclick: onCancel }, 'Cancel');
  const element = h('li.card', {}, h('header.title', {}, h('h2', {}, plainName(task.tool || 'a task')), badge),
    h('p.faint', {}, h('code', {}, plainName(task.taskId)), ` since ${clockText(task.started * 1000)}, ${task.revision}`), words, bar, place, button);
  let shown = null;
  const show = () => {
    const over = ENDED.includes(task.status) || task.gone;
    badge.textContent = plainName(task.status, 40);
    badge.className = `badge ${task.status === 'completed' ? 'good' : task.status === 'failed' ? 'bad' : ''}`;
    words.textContent = plainText(task.statusMessage ?? '').slice(0, 2000);
    words.hidden = !words.textContent;
    bar.hidden = over || !(task.progress?.total > 0);
    if (!bar.hidden) Object.assign(bar, { max: task.progress.total, value: Math.min(task.progress.progress, task.progress.total) });
    button.hidden = over;
    const outcome = task.result ?? task.error ?? null;
    if (outcome === shown) return;
    shown = outcome;
    replace(place, task.result ? toolResult(task.result) : outcome ? rawJson(outcome) : null);
  };
  return { element, show };
}

// What a server says of a task, and no more of it than is known here.
function take(task, said) {
  if (!isObject(said)) return;
  if (typeof said.status === 'string') task.status = said.status;
  task.statusMessage = typeof said.statusMessage === 'string' ? said.statusMessage : undefined;
  task.paceMs = Number(said.pollIntervalMs ?? said.pollInterval) || task.paceMs || 1000;
  if (isObject(said.inputRequests)) task.inputRequests = said.inputRequests;
  if (isObject(said.result)) task.result = said.result;
  if (isObject(said.error)) task.error = said.error;
}

// --------------------------------------------------------------------------- the list

export class Tasks {
  // keep(text): so that they are still known when the page is loaded again.
  constructor(app, keep) {
    Object.assign(this, { app, keep });
    this.list = [];
    this.items = h('ul.plain', {});
    this.none = h('p.faint', {}, 'A call that takes long may become a task, if its server says so, or if it is called as one. None has.');
    this.listButton = h('button', { type: 'button', hidden: true, onclick: () => this.ask() }, 'Ask the server for its tasks');
    this.place = h('div.tasks', {}, h('div.buttons', {}, this.listButton), this.none, this.items);
  }

  add(tool, created, token) {
    this.begin({ tool, taskId: String(created.taskId), revision: this.app.client.revision, started: Date.now(), token }, created);
    this.save();
  }

  begin(task, said) {
    take(task, said);
    Object.assign(task, { answered: new Set(), card: taskCard(task, () => this.cancel(task)) });
    this.list.unshift(task);
    this.items.prepend(task.card.element);
    while (this.list.length > TASKS_MOST) this.forget(this.list.pop());
    this.show(task);
    this.poll(task);
  }

  forget(task) {
    task.gone = true;
    task.card.element.remove();
  }

  save() { this.keep(JSON.stringify(this.list.map(({ tool, taskId, revision, started }) => ({ tool, taskId, revision, started })))); }

  resume(text) {
    let known = [];
    try {
      known = JSON.parse(text || '[]');
    } catch { /* then there are none */ }
    for (const task of (Array.isArray(known) ? known : []).slice(0, TASKS_MOST).reverse())
      if (isObject(task) && typeof task.taskId === 'string') this.begin({ ...task, started: Number(task.started) || 0, paceMs: 250, status: 'unknown' }, null);
  }

  // 2025-11-25: the tasks a server has of ours, whoever began them.
  async ask() {
    try {
      const found = await this.app.client.list('tasks/list', 'tasks');
      for (const said of found.slice(0, TASKS_MOST).filter((one) => typeof one.taskId === 'string')) {
        const known = this.list.find((one) => one.taskId === said.taskId);
        if (!known) this.begin({ tool: '', taskId: said.taskId, revision: this.app.client.revision, started: Date.parse(said.createdAt) || Date.now() }, said);
      }
      note(found.length === 1 ? 'The server has one task' : `The server has ${found.length} tasks`);
      this.save();
    } catch (error) {
      note(plainName(error.message), 'bad');
    }
  }

  // News of the server's own accord: looked at at once.
  heard(method, said) {
    if (!isObject(said)) return;
    const task = this.list.find((one) => (method === 'notifications/progress' ? one.token !== undefined && one.token === said.progressToken : one.taskId === said.taskId));
    if (!task || ENDED.includes(task.status)) return;
    if (method === 'notifications/progress') task.progress = { progress: Number(said.progress) || 0, total: Number(said.total) || 0 };
    else task.wake?.();
    this.show(task);
  }

  // ------------------------------------------------------------------------- living

  async poll(task) {
    for (let failures = 0; !task.gone && failures < FAILURES_MOST;) {
      if (!ENDED.includes(task.status)) await this.pause(task);
      if (task.gone || this.app.client.revision !== task.revision) {
        if (ENDED.includes(task.status)) return;
        continue; // it goes on when its revision is spoken again
      }
      try {
        if (!ENDED.includes(task.status)) take(task, await this.app.client.request('tasks/get', { taskId: task.taskId }));
        if (this.app.client.modern) await this.answer(task);
        else await this.fetchResult(task);
        failures = 0;
        this.show(task);
        if (ENDED.includes(task.status)) return;
      } catch (error) {
        if (error.code) failures++; // else the connection is lost, and comes back
        task.statusMessage = plainName(error.message);
        task.gone = error.code === -32602;
        this.show(task);
        await this.pause(task);
      }
    }
  }

  pause(task) {
    return new Promise((resolve) => {
      task.wake = resolve;
      setTimeout(resolve, Math.min(Math.max(task.paceMs || 1000, 250), 30000));
    });
  }

  // 2026-07-28: what it asks stands in what tasks/get says, and is answered by tasks/update.
  async answer(task) {
    if (task.status !== 'input_required') return;
    const answers = {};
    for (const [key, question] of Object.entries(task.inputRequests || {})) {
      if (task.answered.has(key) || !isObject(question)) continue;
      task.answered.add(key);
      const answer = await this.app.client.onAsk(String(question.method), question.params || {});
      if (answer !== null) answers[key] = answer;
    }
    if (Object.keys(answers).length) await this.app.client.request('tasks/update', { taskId: task.taskId, inputResponses: answers });
  }

  // 2025-11-25: what it asks comes while one waits for its result, which comes there as well.
  async fetchResult(task) {
    const over = ENDED.includes(task.status);
    if (task.result || task.error || task.status === 'cancelled' || (!over && task.status !== 'input_required')) return;
    task.fetching ??= this.app.client.request('tasks/result', { taskId: task.taskId }, {}).then(
      (result) => { task.result = result; },
      (error) => {
        task.fetching = null;
        if (!error.code) throw error; // the connection broke: once more
        task.error = { code: error.code, message: error.message, data: error.data };
      });
    if (over) await task.fetching;
    else task.fetching.catch(() => {});
  }

  async cancel(task) {
    try {
      take(task, await this.app.client.request('tasks/cancel', { taskId: task.taskId }));
      task.wake?.();
    } catch (error) {
      task.statusMessage = plainName(error.message);
    }
    this.show(task);
  }

  // ------------------------------------------------------------------------- showing

  show(task) {
    task.card.show();
    this.none.hidden = this.list.length > 0;
    this.app.setCount('tasks', this.list.filter((one) => !ENDED.includes(one.status) && !one.gone).length);
  }

  // Whether they can be listed is the server's to say.
  opened() { this.listButton.hidden = !(this.app.client.asksForTasks && this.app.client.capabilities.tasks.list); }

  view() { return { element: h('article', {}, h('h1', {}, 'Tasks'), this.place) }; }
}

// tasks.js - calls that became tasks: a list that lives. Each is asked for at the pace its server names, answered when it asks,
// and its result shown.
import { h, replace, plainName, plainText, clockText } from './dom.js';
import { toolResult, rawJson } from './result.js';

const ENDED = ['completed', 'failed', 'cancelled'];
const TASKS_MOST = 100;

export class Tasks {
  constructor(app) {
    this.app = app;
    this.list = [];
    this.place = h('div.tasks', {});
  }

  add(tool, created) {
    const task = { tool: tool.name, ...created, started: Date.now() };
    this.list.unshift(task);
    this.list.length = Math.min(this.list.length, TASKS_MOST);
    this.show();
    this.poll(task);
  }

  async poll(task) {
    for (let failures = 0; !ENDED.includes(task.status) && !task.gone && failures < 5;) {
      await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(Number(task.pollIntervalMs) || 1000, 250), 30000)));
      try {
        const now = await this.app.client.request('tasks/get', { taskId: task.taskId });
        Object.assign(task, now);
        failures = 0;
        if (task.status === 'input_required') await this.answer(task);
      } catch (error) {
        failures++;
        task.statusMessage = error.message;
        if (error.code === -32602) task.gone = true;
      }
      this.show();
    }
  }

  async answer(task) {
    task.answered ??= new Set();
    const answers = {};
    for (const [key, question] of Object.entries(task.inputRequests || {})) {
      if (task.answered.has(key)) continue;
      task.answered.add(key);
      const answer = await this.app.client.onAsk(question.method, question.params || {});
      if (answer !== null) answers[key] = answer;
    }
    if (Object.keys(answers).length) await this.app.client.request('tasks/update', { taskId: task.taskId, inputResponses: answers });
  }

  async cancel(task) {
    try {
      await this.app.client.request('tasks/cancel', { taskId: task.taskId });
    } catch (error) {
      task.statusMessage = error.message;
      this.show();
    }
  }

  show() {
    this.app.setCount('tasks', this.list.filter((task) => !ENDED.includes(task.status)).length);
    if (!this.list.length) return replace(this.place, h('p.faint', {}, 'A call that takes long may become a task, if its server says so. None has.'));
    return replace(this.place, h('ul.plain', {}, this.list.map((task) => h('li.card', {},
      h('header.title', {}, h('h2', {}, plainName(task.tool)), h('span.badge', { class: task.status === 'completed' ? 'good' : task.status === 'failed' ? 'bad' : '' }, plainName(task.status))),
      h('p.faint', {}, h('code', {}, plainName(task.taskId)), ` since ${clockText(task.started * 1000)}`),
      task.statusMessage ? h('p', {}, plainText(task.statusMessage)) : null,
      task.result ? toolResult(task.result) : null, task.error ? rawJson(task.error) : null,
      ENDED.includes(task.status) || task.gone ? null : h('button', { type: 'button', onclick: () => this.cancel(task) }, 'Cancel')))));
  }

  view() {
    this.show();
    return { element: h('article', {}, h('h1', {}, 'Tasks'), this.place) };
  }
}

// list.js - a list of any length, of which only what is seen is there. Rows have one height; the elements of those that leave
// are used again.
import { h } from './dom.js';

const ROW = 30;
const BEYOND = 6;

// The cells of a row, each a text that changes where it stands. texts: one a cell; name: the classes of the row.
export function fillCells(row, tags, texts, name) {
  row.cells ??= tags.map((tag) => {
    const text = document.createTextNode('');
    row.append(h(tag, {}, text));
    return text;
  });
  row.cells.forEach((cell, i) => { if (cell.data !== texts[i]) cell.data = texts[i]; });
  if (row.className !== name) row.className = name;
}

// rows(): how many; render(element, index): fills one; onOpen(index): Enter or a click.
export class VirtualList {
  constructor({ label, count, render, onOpen }) {
    Object.assign(this, { count, render, onOpen });
    this.sizer = h('div.sizer', {});
    this.element = h('div.virtual', { role: 'listbox', tabIndex: 0, 'aria-label': label }, this.sizer);
    this.pool = []; // the row of number n is at n modulo its length
    this.viewHeight = 0;
    this.selected = -1;
    this.live = true; // more comes at the end
    this.following = true;
    this.put = 0; // where this list itself has scrolled to
    this.top = 0; // where it was drawn
    this.element.addEventListener('scroll', () => this.moved(), { passive: true });
    this.element.addEventListener('keydown', (event) => this.key(event));
    this.element.addEventListener('click', (event) => {
      const row = event.target.closest('[role=option]');
      if (row) this.select(row.index, true);
    });
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(this.element);
  }

  // As many rows as can be seen, and some beyond.
  resize() {
    this.viewHeight = this.element.clientHeight;
    const wanted = Math.ceil(this.viewHeight / ROW) + 2 * BEYOND + 1;
    for (const row of this.pool.splice(0)) row.remove();
    while (this.pool.length < wanted) this.pool.push(Object.assign(h('div', { role: 'option' }), { index: -1 }));
    this.soon();
  }

  // Other rows: from their beginning, or at the end of those that come.
  restart(live) {
    this.live = this.following = live;
    this.selected = -1;
    this.scrollTo(0);
  }

  // It is in the document again, which forgot where it was.
  resume() {
    if (!this.following) this.scrollTo(this.top);
  }

  scrollTo(top) {
    this.element.scrollTop = top;
    this.put = this.element.scrollTop;
  }

  // The event comes a frame late: the place may be gone from the document by then, or be where `scrollTo` left it. Neither is
  // somebody who looks elsewhere.
  moved() {
    if (!this.element.isConnected) return;
    this.soon();
    if (this.element.scrollTop === this.put) return;
    this.put = -1;
    this.following = this.live && this.isAtEnd();
  }

  isAtEnd() { return this.element.scrollTop + this.element.clientHeight >= (this.height || 0) - ROW * 1.5; }

  soon() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  // The rows have changed: all of them, or (`same`) more have come at the end while `gone` left at the beginning.
  update(gone = 0) {
    if (gone && this.selected >= 0) this.selected = this.selected < gone ? -1 : this.selected - gone;
    if (gone && !this.following) this.scrollTo(this.element.scrollTop - gone * ROW);
    this.stale = true;
    this.soon();
  }

  draw() {
    const count = this.count();
    const height = count * ROW;
    if (this.height !== height) this.sizer.style.height = `${(this.height = height)}px`;
    if (this.following) this.scrollTo(height);
    if (this.element.isConnected) this.top = this.element.scrollTop;
    const from = Math.max(0, Math.floor(this.top / ROW) - BEYOND);
    const to = Math.min(count, from + this.pool.length);
    for (const row of this.pool) if (row.index >= count && row.parentNode) row.remove();
    for (let index = from; index < to; index++) this.place(index, count);
    this.stale = false;
  }

  place(index, count) {
    const row = this.pool[index % this.pool.length];
    if (row.index === index && row.parentNode && !this.stale) return;
    if (row.index !== index) {
      row.index = index;
      row.id = `row-${index}`;
      row.style.transform = `translateY(${index * ROW}px)`;
      row.setAttribute('aria-posinset', index + 1);
    }
    row.setAttribute('aria-setsize', count);
    row.setAttribute('aria-selected', String(index === this.selected));
    this.render(row, index);
    if (!row.parentNode) this.sizer.append(row);
  }

  select(index, open) {
    const count = this.count();
    if (!count) return;
    this.selected = Math.max(0, Math.min(count - 1, index));
    const top = this.selected * ROW;
    const view = this.element;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + ROW > view.scrollTop + this.viewHeight) view.scrollTop = top + ROW - this.viewHeight;
    this.put = view.scrollTop;
    this.following = this.live && this.isAtEnd() && this.selected === count - 1;
    this.stale = true;
    this.draw();
    view.setAttribute('aria-activedescendant', `row-${this.selected}`);
    if (open) this.onOpen?.(this.selected);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.viewHeight / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key === 'Enter' && this.selected >= 0) this.onOpen?.(this.selected);
    else if (steps[event.key]) {
      const from = this.selected < 0 ? (steps[event.key] < 0 ? this.count() : -1) : this.selected;
      this.select(Math.max(0, Math.min(this.count() - 1, from + steps[event.key])), true);
    } else return;
    event.preventDefault();
  }
}

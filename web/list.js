// list.js - a list of any length, of which only what is seen is there. Rows have one height; the elements of those that leave
// are used again.
import { h } from './dom.js';

const ROW = 30;
const BEYOND = 8;

// rows(): how many; render(element, index): fills one; onOpen(index): Enter or a click.
export class VirtualList {
  constructor({ label, rowClass, count, render, onOpen }) {
    Object.assign(this, { rowClass, count, render, onOpen });
    this.sizer = h('div.sizer', {});
    this.element = h('div.virtual', { role: 'listbox', tabIndex: 0, 'aria-label': label }, this.sizer);
    this.shown = new Map();
    this.spare = [];
    this.selected = -1;
    this.following = true;
    this.element.addEventListener('scroll', () => {
      this.following = this.isAtEnd();
      this.soon();
    }, { passive: true });
    this.element.addEventListener('keydown', (event) => this.key(event));
    this.element.addEventListener('click', (event) => {
      const row = event.target.closest('[data-index]');
      if (row) this.select(Number(row.dataset.index), true);
    });
    this.resizer = new ResizeObserver(() => this.soon());
    this.resizer.observe(this.element);
  }

  isAtEnd() { return this.element.scrollTop + this.element.clientHeight >= this.element.scrollHeight - ROW * 1.5; }

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
    if (gone && !this.following) this.element.scrollTop -= gone * ROW;
    this.stale = true;
    this.soon();
  }

  draw() {
    const count = this.count();
    const height = count * ROW;
    if (this.height !== height) this.sizer.style.height = `${(this.height = height)}px`;
    if (this.following) this.element.scrollTop = height;
    const top = this.element.scrollTop;
    const from = Math.max(0, Math.floor(top / ROW) - BEYOND);
    const to = Math.min(count, Math.ceil((top + this.element.clientHeight) / ROW) + BEYOND);
    for (const [index, row] of this.shown) {
      if (index >= from && index < to) continue;
      this.shown.delete(index);
      row.remove();
      if (this.spare.length < 60) this.spare.push(row);
    }
    for (let index = from; index < to; index++) this.place(index, count);
    this.stale = false;
  }

  place(index, count) {
    let row = this.shown.get(index);
    if (row && !this.stale) return;
    if (!row) {
      row = this.spare.pop() || h('div', { role: 'option' });
      this.shown.set(index, row);
      row.style.transform = `translateY(${index * ROW}px)`;
      row.dataset.index = index;
      row.id = `row-${index}`;
      this.sizer.append(row);
    }
    row.className = `message-row ${this.rowClass || ''}`;
    row.setAttribute('aria-posinset', index + 1);
    row.setAttribute('aria-setsize', count);
    row.setAttribute('aria-selected', String(index === this.selected));
    this.render(row, index);
  }

  select(index, open) {
    const count = this.count();
    if (!count) return;
    this.selected = Math.max(0, Math.min(count - 1, index));
    const top = this.selected * ROW;
    const view = this.element;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + ROW > view.scrollTop + view.clientHeight) view.scrollTop = top + ROW - view.clientHeight;
    this.following = this.isAtEnd() && this.selected === count - 1;
    this.stale = true;
    this.draw();
    view.setAttribute('aria-activedescendant', `row-${this.selected}`);
    if (open) this.onOpen?.(this.selected);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key === 'Enter' && this.selected >= 0) this.onOpen?.(this.selected);
    else if (steps[event.key]) {
      const from = this.selected < 0 ? (steps[event.key] < 0 ? this.count() : -1) : this.selected;
      this.select(Math.max(0, Math.min(this.count() - 1, from + steps[event.key])), true);
    } else return;
    event.preventDefault();
  }
}

// keys.js - what comes to the window as a whole: single keys, and files that are dropped on it.
import { byId } from './dom.js';
import { hasKeys } from './overview.js';

// The tool that is shown is called from anywhere that has no use of its own for these keys; a form cares for its own.
function callShown(event) {
  const taken = event.target.closest?.('form, dialog, input, textarea, select, button, a');
  if (!event.defaultPrevented && !taken && !document.querySelector('dialog[open]')) document.querySelector('form.tool')?.requestSubmit();
}

export function takeKeys(app) {
  document.querySelector('.skip').addEventListener('click', (event) => {
    event.preventDefault(); // what stands behind # is a place of the page
    byId('main').focus();
  });
  let leading = false;
  const places = { o: '', t: 'traffic', l: 'logs', m: 'metrics', c: 'configuration', k: 'tasks' };
  addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) callShown(event);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape' && document.body.classList.contains('browsing')) app.hideSide();
    if (!hasKeys() || event.target.closest('input:not([type=checkbox]), textarea, select, dialog')) return;
    if (event.key === '/') {
      event.preventDefault();
      if (getComputedStyle(byId('side')).display === 'none') app.showSide(true);
      app.searchField.focus();
      app.searchField.select();
    } else if (leading && places[event.key] !== undefined) location.hash = '#/' + places[event.key];
    leading = event.key === 'g';
  });
}

// A file that is dropped anywhere is opened as a recording; the browser would leave the page for it.
export function takeDrops(app) {
  const isFile = (event) => [...(event.dataTransfer?.types || [])].includes('Files');
  addEventListener('dragover', (event) => isFile(event) && event.preventDefault());
  addEventListener('drop', (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    const file = event.dataTransfer.files[0];
    if (app.shownView?.openFile || !file) return; // it takes the file itself
    location.hash = '#/recording';
    app.route();
    app.shownView.openFile(file);
  });
}

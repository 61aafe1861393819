// viewer.js - recordings without a server: what `idem page -o viewer.html` writes, with the other files in one.
import { replace, byId } from './dom.js';
import { Feed } from './feed.js';
import { trafficView } from './traffic.js';

const view = trafficView(new Feed(), { only: true });
replace(byId('main'), view.element);
view.show();
byId('server-name').textContent = 'recordings';

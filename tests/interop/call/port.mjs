// port.mjs - preloaded (node --import): whatever port a server wants to listen on, it gets a free one of 127.0.0.1, and
// says which.
import { Server } from "node:net";

const listen = Server.prototype.listen;
Server.prototype.listen = function (...words) {
  const told = words.find((word) => typeof word === "function");
  this.once("listening", () => console.error(`\nlistening on http://127.0.0.1:${this.address().port}`));
  return listen.call(this, 0, "127.0.0.1", told);
};

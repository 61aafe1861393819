/* web_socket.h - WebSocket as a client, for the episodes that speak it. */
#ifndef IDEM_ATTACK_WEB_SOCKET_H
#define IDEM_ATTACK_WEB_SOCKET_H

#include "attack.h"

/* False: refused. */
bool socket_open(wire *line, const char *path);
/* Appends one masked frame. */
void socket_frame(text *into, unsigned first, const char *payload, size_t len);
/* Appends a message, perhaps in fragments with control frames between them. */
void socket_message(attacker *self, text *into, const char *message);
/* The next message; false: the connection ended, *closed is the code if there was one. */
bool socket_next(wire *line, text *message, unsigned *closed);

#endif

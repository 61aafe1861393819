/* driver.h - the driver: what moves bytes between a wire and a machine.
 * A machine is protocol without I/O (machine tables in peer.c, web_peer.c); a wire is descriptors without
 * protocol (socket.c, stdio.c, exec.c; connect_http.c's has none). The driver reads, feeds, sends, pauses,
 * keeps time and ends, the same way for each pair of them. See docs/internals/uv.md. */
#ifndef IDEM_UV_DRIVER_H
#define IDEM_UV_DRIVER_H

#include <idem/uv.h>

#include "base/base.h"

#include <sys/types.h>
#include <sys/uio.h>
#include <uv.h>

typedef struct idem__driver idem__driver;
typedef struct idem__runtime idem__runtime;

/* How bytes move. read and write return a count, 0 for end of input, or -errno. */
typedef struct idem__wire {
  ssize_t (*read)(idem__driver *driver, char *into, size_t size);
  ssize_t (*write)(idem__driver *driver, const struct iovec *pieces, int count);
  /* Calls idem__driver_readable and idem__driver_writable as asked for from now on. */
  idem_status (*interest)(idem__driver *driver, bool read, bool write);
  /* Says to the other side that nothing more will come; false where that has no meaning. */
  bool (*end_output)(idem__driver *driver);
  /* Closes descriptors and handles; calls idem__driver_gone once they are. */
  void (*close)(idem__driver *driver);
  bool reads_until_empty; /* read never blocks, so it may be called again at once */
  /* The rest may be NULL. A wire is open from the beginning, */
  bool (*open)(const idem__driver *driver);
  /* nothing was wrong with it, */
  const char *(*fault)(const idem__driver *driver);
  /* holds nothing back that was written, */
  bool (*holds)(const idem__driver *driver);
  /* and has nothing behind it to end before the driver is closed. depart runs first when all is over,
   * then at the moments it asks for by idem__driver_depart_in, until idem__driver_departed. */
  void (*depart)(idem__driver *driver);
} idem__wire;

/* What a machine wants now. Kept in the driver, where writing it costs least. */
typedef struct idem__wants {
  uint64_t deadline; /* ms: when `expire` has something to do; UINT64_MAX: never */
  bool input;
  bool end_output; /* once all is sent; input goes on */
  bool done;       /* nothing will come of it any more, once all is sent */
} idem__wants;

#define IDEM__PIECES 6 /* gathered into one write */

/* What a machine does. While feed, end and expire run, the driver is busy: whatever they ask of it waits
 * until they return. */
typedef struct idem__machine {
  /* Another turn begins: the time to look at the clock. May be NULL. */
  void (*wake)(idem__driver *driver);
  void (*feed)(idem__driver *driver, const char *data, size_t len);
  void (*end)(idem__driver *driver);
  /* What is to be sent next, in at most IDEM__PIECES; 0: nothing. They stay until `sent`. */
  int (*next)(idem__driver *driver, struct iovec *pieces);
  /* So much was; true: all of it. */
  bool (*sent)(idem__driver *driver, size_t len);
  void (*look)(idem__driver *driver); /* sets `wants` */
  void (*expire)(idem__driver *driver);
  /* No more requests: what runs may finish, or is answered with an error now. */
  void (*stop)(idem__driver *driver, bool now);
  /* What has been fed waits for its turn (rpc.md): it is worked on, whatever becomes of the wire. */
  bool (*waits)(const idem__driver *driver);
  /* The wire is, by -errno. May be NULL. */
  void (*lost)(idem__driver *driver, ssize_t error);
  /* The driver is open: handshakes, if there were any, have succeeded. NULL: nobody waits for that. */
  bool (*open)(const idem__driver *driver);
  void (*opened)(idem__driver *driver);
  /* Frees all but the driver's own memory; what is not sent is lost. */
  void (*close)(idem__driver *driver);
  /* Frees that, too: the last moment. */
  void (*gone)(idem__driver *driver);
  bool lingers; /* where the other side must have seen the end before the socket is closed */
} idem__machine;

struct idem__driver {
  const idem__machine *machine;
  const idem__wire *wire;
  void *io; /* the wire's own */
  idem__runtime *runtime;
  idem_list node;       /* in its owner's list, until it is gone */
  idem_list dirty;      /* in the runtime's */
  idem__timer deadline; /* in the runtime's */
  idem__wants wants;
  uint64_t open_by_ms; /* handshakes must have succeeded by then; 0: there are none, or they have */
  ssize_t lost;        /* -errno of the wire: nobody hears what the machine says; 0: it is well */
  bool busy;           /* inside a call of the machine */
  bool doomed;         /* to be closed as soon as it is not busy */
  bool eof;            /* input has ended */
  bool failed;         /* the machine said so */
  bool blocked;        /* the wire takes no more for now */
  bool shut;           /* output has ended */
  bool lingering;      /* all is said; waiting for the other side to see it */
  bool leaving;        /* all is said; the wire ends what is behind it */
  bool departed;       /* and has */
  bool late;           /* handshakes took too long */
  bool closed;
};

/* Of zeroed memory whose machine, wire and io are set. Takes a reference of the runtime, given back when
 * the driver is gone. */
void idem__driver_init(idem__driver *driver, idem__runtime *runtime);
static inline bool idem__driver_live(const idem__driver *driver) {
  return !driver->closed && !driver->lingering && !driver->leaving;
}
void idem__driver_readable(idem__driver *driver);
void idem__driver_writable(idem__driver *driver);
/* Takes what was read: n bytes of the runtime's buffer, 0 for the end, or -errno. */
void idem__driver_take(idem__driver *driver, ssize_t n);
/* Has the driver settled before the loop blocks: for output made outside feed, end and expire. */
void idem__driver_mark(idem__driver *driver);
/* Looks at the machine again: sends, reads on or not, notices deadlines and the end. */
void idem__driver_settle(idem__driver *driver);
void idem__driver_expire(idem__driver *driver);
void idem__driver_stop(idem__driver *driver, bool now);
/* The steps of stopping all of a list: finish, answer with an error, cut off. */
void idem__drivers_stop(idem_list *list, int step);
void idem__driver_close(idem__driver *driver);
/* False: no memory. */
bool idem__driver_depart_in(idem__driver *driver, uint64_t ms);
void idem__driver_departed(idem__driver *driver);
/* The wire's handles are closed. */
void idem__driver_gone(idem__driver *driver);

#endif

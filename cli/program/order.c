/* order.c - see order.h. An order is a head, then its texts one after the other, each with its NUL:
 * program, folder, scratch, arguments, environment. */
#include "order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define TEXT_BYTES ((size_t)64 << 20) /* more than any kernel takes */

typedef struct order_head {
  uint32_t kind;
  uint32_t arguments;
  uint32_t variables;
  uint32_t len; /* of the texts */
  uint32_t processes;
  uint8_t has_input;
  uint8_t has_rules;
  uint8_t seal;
  uint8_t apart; /* the texts are in the last descriptor */
} order_head;

/* ------------------------------------------------------------------------- sending */

static int send_packet(int socket, struct iovec *parts, size_t count, const int *fds,
                       size_t fd_count) {
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(ORDER_FDS * sizeof(int))] = {0};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
  if (fd_count) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
  }
  ssize_t sent;
  do sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

int order_note_send(int socket, order_kind kind, int value, int fd) {
  order_note note = {.kind = kind, .value = value};
  return send_packet(socket, &(struct iovec){&note, sizeof note}, 1, &fd, fd >= 0);
}

int order_folder_send(int socket, const char *path) {
  order_note note = {.kind = ORDER_FOLDER};
  struct iovec parts[2] = {{&note, sizeof note}, {(char *)(uintptr_t)path, strlen(path) + 1}};
  return send_packet(socket, parts, 2, NULL, 0);
}

static char *put_text(char *at, const char *text) {
  size_t len = strlen(text) + 1;
  memcpy(at, text, len);
  return at + len;
}

static size_t texts_len(const spawn_order *order, order_head *head) {
  size_t len = strlen(order->program) + strlen(order->cwd) + strlen(order->scratch) + 3;
  for (char *const *word = order->argv; *word; word++, head->arguments++) len += strlen(*word) + 1;
  for (char *const *one = order->environment; *one; one++, head->variables++)
    len += strlen(*one) + 1;
  return len;
}

static void put_texts(char *at, const spawn_order *order) {
  at = put_text(put_text(put_text(at, order->program), order->cwd), order->scratch);
  for (char *const *word = order->argv; *word; word++) at = put_text(at, *word);
  for (char *const *one = order->environment; *one; one++) at = put_text(at, *one);
}

/* The texts as a file in memory; -1 and errno. */
static int put_apart(const char *texts, size_t len) {
  int fd = memfd_create("order", MFD_CLOEXEC);
  if (fd < 0) return -1;
  for (size_t done = 0; done < len;) {
    ssize_t written = write(fd, texts + done, len - done);
    if (written < 0) {
      close(fd);
      return -1;
    }
    done += (size_t)written;
  }
  return fd;
}

static int send_texts(int socket, const spawn_order *order, order_head *head, char *texts) {
  int fds[ORDER_FDS] = {order->output, order->errors}, apart = -1;
  size_t count = 2;
  struct iovec parts[2] = {{head, sizeof *head}, {texts, head->len}};
  if (head->has_input) fds[count++] = order->input;
  if (head->has_rules) fds[count++] = order->rules;
  if (head->apart) {
    apart = put_apart(texts, head->len);
    if (apart < 0) return errno;
    fds[count++] = apart;
  }
  int why = send_packet(socket, parts, head->apart ? 1 : 2, fds, count);
  if (apart >= 0) close(apart);
  return why;
}

int order_run_send(int socket, const spawn_order *order) {
  char near[ORDER_PACKET - sizeof(order_head)], *far = NULL;
  order_head head = {.kind = ORDER_RUN,
                     .has_input = order->input >= 0,
                     .has_rules = order->rules >= 0,
                     .seal = (uint8_t)order->seal,
                     .processes = order->processes};
  size_t len = texts_len(order, &head);
  if (len > TEXT_BYTES) return E2BIG;
  head.len = (uint32_t)len;
  head.apart = len > sizeof near;
  if (head.apart && !(far = malloc(len))) return ENOMEM;
  put_texts(far ? far : near, order);
  int why = send_texts(socket, order, &head, far ? far : near);
  free(far);
  return why;
}

/* ----------------------------------------------------------------------- receiving */

/* The room for them is aligned, so one more than asked for may fit into it. */
static void take_fd(order_packet *packet, const unsigned char *at) {
  int fd;
  memcpy(&fd, at, sizeof fd);
  if (packet->fd_count < ORDER_FDS)
    packet->fds[packet->fd_count++] = fd;
  else
    close(fd);
}

static void take_fds(order_packet *packet, struct msghdr *message) {
  packet->fd_count = 0;
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) take_fd(packet, CMSG_DATA(head) + i * sizeof(int));
  }
}

void order_receive(int socket, order_packet *packet, bool wait) {
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(ORDER_FDS * sizeof(int))];
  struct iovec part = {packet->bytes, sizeof packet->bytes};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  do packet->len = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  while (packet->len < 0 && errno == EINTR);
  packet->fd_count = 0;
  if (packet->len >= 0) take_fds(packet, &message);
  if (packet->len < 0 && errno == ECONNRESET) packet->len = 0;
}

void order_close_fds(order_packet *packet) {
  for (size_t i = 0; i < packet->fd_count; i++)
    if (packet->fds[i] >= 0) close(packet->fds[i]);
  packet->fd_count = 0;
}

order_note order_note_of(const order_packet *packet) {
  order_note note = {.kind = 0};
  if (packet->len >= (ssize_t)sizeof note) memcpy(&note, packet->bytes, sizeof note);
  return note;
}

/* ------------------------------------------------------------------------- reading */

/* NULL: the texts end before their number is reached. */
static char *next_text(char **at, const char *end) {
  char *text = *at, *stop = text ? memchr(text, 0, (size_t)(end - text)) : NULL;
  *at = stop ? stop + 1 : NULL;
  return stop ? text : NULL;
}

static bool read_list(char **list, size_t count, char **at, const char *end) {
  for (size_t i = 0; i < count; i++)
    if (!(list[i] = next_text(at, end))) return false;
  list[count] = NULL;
  return true;
}

static int make_room(order_reader *self, const order_head *head) {
  size_t wanted = (size_t)head->arguments + head->variables + 2;
  if (head->arguments > head->len || head->variables > head->len) return EINVAL;
  if (wanted <= self->capacity) return 0;
  char **words = realloc(self->words, wanted * sizeof *words);
  if (!words) return ENOMEM;
  self->words = words;
  self->capacity = wanted;
  return 0;
}

static int find_texts(order_reader *self, const order_head *head, order_packet *packet,
                      char **texts) {
  *texts = packet->bytes + sizeof *head;
  if (!head->apart) return (size_t)packet->len == sizeof *head + head->len ? 0 : EINVAL;
  void *mapped = mmap(NULL, head->len, PROT_READ | PROT_WRITE, MAP_PRIVATE,
                      packet->fds[packet->fd_count - 1], 0);
  if (mapped == MAP_FAILED) return errno;
  *texts = self->mapped = mapped;
  self->mapped_len = head->len;
  return 0;
}

static int take_texts(order_reader *self, const order_head *head, char *texts) {
  const char *end = texts + head->len;
  char **environment = self->words + head->arguments + 1;
  self->order.program = next_text(&texts, end);
  self->order.cwd = next_text(&texts, end);
  self->order.scratch = next_text(&texts, end);
  self->order.argv = self->words;
  self->order.environment = environment;
  bool whole = self->order.program && self->order.cwd && self->order.scratch &&
               read_list(self->words, head->arguments, &texts, end) &&
               read_list(environment, head->variables, &texts, end);
  return whole ? 0 : EINVAL;
}

int order_read(order_reader *self, order_packet *packet) {
  order_head head;
  char *texts;
  if (packet->len < (ssize_t)sizeof head) return EINVAL;
  memcpy(&head, packet->bytes, sizeof head);
  if (packet->fd_count != 2u + (head.has_input != 0) + (head.has_rules != 0) + (head.apart != 0))
    return EMFILE; /* the kernel leaves out what does not fit */
  self->order = (spawn_order){.output = packet->fds[0],
                              .errors = packet->fds[1],
                              .input = head.has_input ? packet->fds[2] : -1,
                              .rules = head.has_rules ? packet->fds[head.has_input ? 3 : 2] : -1,
                              .seal = head.seal,
                              .processes = head.processes};
  int why = make_room(self, &head);
  if (!why) why = find_texts(self, &head, packet, &texts);
  return why ? why : take_texts(self, &head, texts);
}

void order_read_end(order_reader *self) {
  if (self->mapped) munmap(self->mapped, self->mapped_len);
  self->mapped = NULL;
}

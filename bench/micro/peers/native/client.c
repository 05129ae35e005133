/*
 * Clients that cost next to nothing: one thread, one connection each.
 *
 *     client PORT MODEL closed CONNECTIONS SECONDS                  one request after the other on each
 *     client PORT MODEL rate CONNECTIONS SECONDS PER_SECOND         requests at fixed times, on whichever is free
 *     client PORT MODEL streams CONNECTIONS SECONDS CHUNKS GAP_US SPREAD
 *     client PORT MODEL hold CONNECTIONS SECONDS                    streams of a chunk a second, all open at once
 *
 * Prints one line of JSON. Times of requests count from when they were due, times of chunks from their sending.
 */
#include "common.h"

enum { MAX_CONNECTIONS = 16384, IN_BYTES = 1 << 18, OPENING = 64, STAMP = 21 };
enum mode { CLOSED, RATE, STREAMS, HOLD };

struct connection {
  int fd, busy, chunked, status, seen;
  size_t length, body_left;
  int64_t due_ns, stamp;
  /* A stamp of which only the beginning is here. */
  char kept[STAMP];
  size_t kept_length;
  char *in;
};

struct times {
  uint32_t *us;
  size_t count, room;
};

static struct connection connections[MAX_CONNECTIONS];
static struct times requests, chunks;
static char request[4096];
static int request_length, connection_count, epoll_fd, in_flight, begun, failed, asked_chunks;
/* Chunks that did not come, and that came before an earlier one. */
static long lost, reordered;
static enum mode mode;

static void note(struct times *times, int64_t ns) {
  if (times->count == times->room) {
    times->room = times->room == 0 ? 1 << 16 : times->room * 2;
    times->us = realloc(times->us, times->room * sizeof *times->us);
  }
  times->us[times->count++] = ns < 0 ? 0 : ns / 1000;
}

static int by_size(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void print_times(const char *name, struct times *times) {
  qsort(times->us, times->count, sizeof *times->us, by_size);
  size_t n = times->count;
  printf("\"%s\":%zu,\"%sP50Us\":%u,\"%sP99Us\":%u,", name, n, name, n == 0 ? 0 : times->us[n / 2], name,
         n == 0 ? 0 : times->us[n * 99 / 100]);
}

static void make_request(const char *model, const char *asked, int stream) {
  char body[2048];
  int size = snprintf(body, sizeof body,
                      "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"%s %0*d\"}],\"max_tokens\":100,"
                      "\"temperature\":0.7,\"stream\":%s}",
                      model, asked, 900, 0, stream ? "true" : "false");
  request_length = snprintf(request, sizeof request,
                            "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: client/1\r\n"
                            "accept: */*\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
                            size, body);
}

static void open_connection(struct connection *connection, int port) {
  struct sockaddr_in at = loopback(port);
  connection->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(connection->fd, (struct sockaddr *)&at, sizeof at) < 0) die("client");
  fcntl(connection->fd, F_SETFL, O_NONBLOCK);
  no_delay(connection->fd);
  connection->in = malloc(IN_BYTES);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, connection->fd, &event);
}

static void begin(struct connection *connection, int64_t due_ns) {
  connection->busy = 1;
  connection->length = connection->status = connection->seen = 0;
  connection->stamp = connection->kept_length = 0;
  connection->due_ns = due_ns;
  in_flight++;
  begun++;
  if (send(connection->fd, request, request_length, MSG_NOSIGNAL) != request_length) die("client: send");
}

static void end(struct connection *connection) {
  int64_t now = now_ns();
  connection->busy = 0;
  in_flight--;
  if (connection->status != 200) failed++;
  if (mode == STREAMS) lost += asked_chunks - connection->seen;
  note(&requests, now - connection->due_ns);
}

static void note_stamp(struct connection *connection, const char *at, int64_t now) {
  int64_t stamp = strtoll(at + 2, NULL, 10);
  connection->seen++;
  if (stamp < connection->stamp) reordered++;
  connection->stamp = stamp;
  note(&chunks, now - stamp);
}

/* The times that chunks carry, also those that the router has cut in two. */
static void note_chunks(struct connection *connection, const char *bytes, size_t length, int64_t now) {
  const char *end = bytes + length, *at = bytes;
  if (connection->kept_length > 0) {
    char joint[2 * STAMP + 1];
    size_t size = connection->kept_length, more = length < STAMP ? length : STAMP;
    memcpy(joint, connection->kept, size);
    memcpy(joint + size, bytes, more);
    size += more;
    joint[size] = 0;
    connection->kept_length = 0;
    if (size >= STAMP && memcmp(joint, " t0", 3) == 0) note_stamp(connection, joint, now);
    else if (size < STAMP) memcpy(connection->kept, joint, connection->kept_length = size);
    if (size < STAMP) return;
  }
  for (const char *found; (found = memmem(at, end - at, " t0", 3)) != NULL && found + STAMP <= end; at = found + STAMP) {
    note_stamp(connection, found, now);
  }
  if (at < end - STAMP + 1) at = end - STAMP + 1;
  for (; at < end; at++) {
    size_t size = end - at;
    if (memcmp(at, " t0", size < 3 ? size : 3) != 0) continue;
    memcpy(connection->kept, at, connection->kept_length = size);
    return;
  }
}

/* Takes the head if it is whole; false while it is not. */
static int take_head(struct connection *connection) {
  size_t head = head_length(connection->in, connection->length);
  if (head == 0) return 0;
  connection->status = atoi(connection->in + 9);
  const char *coding = header(connection->in, head, "\ntransfer-encoding:");
  const char *size = header(connection->in, head, "\ncontent-length:");
  connection->chunked = coding != NULL;
  connection->body_left = size == NULL ? 0 : strtoul(size, NULL, 10);
  connection->length -= head;
  memmove(connection->in, connection->in + head, connection->length);
  return 1;
}

/* Takes whole chunks of the body; true at its end. What is not whole stays for the next read. */
static int take_chunks(struct connection *connection) {
  size_t at = 0;
  int over = 0;
  int64_t now = now_ns();
  while (!over) {
    char *line = memchr(connection->in + at, '\n', connection->length - at);
    if (line == NULL) break;
    size_t size = strtoul(connection->in + at, NULL, 16), from = line + 1 - connection->in;
    if (from + size + 2 > connection->length) break;
    note_chunks(connection, connection->in + from, size, now);
    at = from + size + 2;
    over = size == 0;
  }
  connection->length -= at;
  memmove(connection->in, connection->in + at, connection->length);
  return over;
}

/* Reads what is there; true when the answer has ended. */
static int take(struct connection *connection) {
  ssize_t got = recv(connection->fd, connection->in + connection->length, IN_BYTES - connection->length, 0);
  if (got < 0 && errno == EAGAIN) return 0;
  if (got <= 0) {
    fprintf(stderr, "client: the router closed a connection\n");
    exit(1);
  }
  connection->length += got;
  if (connection->status == 0 && !take_head(connection)) return 0;
  if (connection->chunked) return take_chunks(connection);
  return connection->length >= connection->body_left;
}

static struct connection *free_connection(void) {
  static int last;
  for (int i = 0; i < connection_count; i++) {
    last = (last + 1) % connection_count;
    if (!connections[last].busy) return &connections[last];
  }
  return NULL;
}

/* Begins the requests that are due; gives the time of the next one. */
static int64_t begin_due(int64_t *next_ns, int64_t every_ns, int64_t until_ns) {
  int64_t now = now_ns();
  while (*next_ns <= now && *next_ns < until_ns) {
    struct connection *connection = free_connection();
    if (connection == NULL) return now + SECOND / 1000;
    begin(connection, *next_ns);
    *next_ns += every_ns;
  }
  return *next_ns < until_ns ? *next_ns : until_ns;
}

static void hold(int timer, int64_t until_ns) {
  struct epoll_event events[256];
  int told = 0, next = 0;
  while (now_ns() < until_ns) {
    int open = 0;
    for (int i = 0; i < next; i++) open += connections[i].seen > 0;
    while (next < connection_count && next - open < OPENING) begin(&connections[next++], now_ns());
    if (open == connection_count && !told) {
      told = 1;
      printf("open\n");
      fflush(stdout);
    }
    set_timer(timer, now_ns() + SECOND / 100);
    int ready = epoll_wait(epoll_fd, events, 256, -1);
    for (int i = 0; i < ready; i++) {
      uint64_t expired;
      if (events[i].data.ptr != NULL) take(events[i].data.ptr);
      else if (read(timer, &expired, sizeof expired) < 0) continue;
    }
  }
  if (!told) failed++;
}

static void drive(int timer, int64_t until_ns, int64_t every_ns) {
  struct epoll_event events[256];
  int64_t next_ns = now_ns();
  if (mode != RATE) {
    for (int i = 0; i < connection_count; i++) begin(&connections[i], now_ns());
  }
  while (in_flight > 0 || now_ns() < until_ns) {
    if (mode == RATE) set_timer(timer, begin_due(&next_ns, every_ns, until_ns));
    int ready = epoll_wait(epoll_fd, events, 256, mode == RATE ? -1 : 100);
    for (int i = 0; i < ready; i++) {
      struct connection *connection = events[i].data.ptr;
      uint64_t expired;
      if (connection == NULL) {
        if (read(timer, &expired, sizeof expired) < 0) continue;
      } else if (take(connection)) {
        end(connection);
        if (mode != RATE && now_ns() < until_ns) begin(connection, now_ns());
      }
    }
    if (mode == RATE && now_ns() >= until_ns && in_flight == 0) break;
  }
}

int main(int count, char **words) {
  if (count < 6) return 2;
  const char *name = words[3];
  char asked[128] = "chunks=100000 gap_us=1000000";
  signal(SIGPIPE, SIG_IGN);
  mode = strcmp(name, "closed") == 0 ? CLOSED : strcmp(name, "rate") == 0 ? RATE : strcmp(name, "hold") == 0 ? HOLD : STREAMS;
  connection_count = atoi(words[4]);
  if (mode == STREAMS) asked_chunks = atoi(words[6]);
  if (mode == STREAMS) snprintf(asked, sizeof asked, "chunks=%s gap_us=%s spread=%s", words[6], words[7], words[8]);
  make_request(words[2], asked, mode == STREAMS || mode == HOLD);
  epoll_fd = epoll_create1(0);
  int timer = timer_in(epoll_fd);
  for (int i = 0; i < connection_count; i++) open_connection(&connections[i], atoi(words[1]));
  int64_t started_ns = now_ns(), until_ns = started_ns + (int64_t)(atof(words[5]) * SECOND);
  if (mode == HOLD) hold(timer, until_ns);
  else drive(timer, until_ns, mode == RATE ? (int64_t)(SECOND / atof(words[6])) : 0);
  printf("{");
  print_times("requests", &requests);
  print_times("chunks", &chunks);
  printf("\"begun\":%d,\"failed\":%d,\"lost\":%ld,\"reordered\":%ld,\"seconds\":%.6f}\n", begun, failed, lost, reordered,
         (now_ns() - started_ns) / (double)SECOND);
  return 0;
}

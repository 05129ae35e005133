/*
 * A worker that costs next to nothing: one thread, no allocation for a request.
 *
 *     mock MODEL PREFILL_PORT PORT...
 *
 * The server at the first port prefills: its streams end after one chunk.
 * Answers POST by what the prompt says, so that it survives routers which write the body anew: `chunks=N` of a stream,
 * `gap_us=N` between two (0: as fast as they go), `spread=1` for streams out of step. Without `"stream": true` it
 * answers with a kilobyte of JSON. A chunk holds the time of its sending.
 */
#include "common.h"

enum { MAX_FD = 16384, IN_BYTES = 65536, PHASES = 64 };

struct stream {
  int fd;
  int64_t left, gap_ns, due_ns;
};

struct connection {
  char *in;
  size_t length;
  int listens, prefills;
};

static struct connection connections[MAX_FD];
static struct stream streams[MAX_FD];
static int stream_count, epoll_fd, opened;
static char facts[512], answer[2048], chunk[512], last[1024];
static size_t answer_length, chunk_length, last_length, stamp_at;
static const char stream_head[] =
    "HTTP/1.1 200 OK\r\ndate: Sun, 22 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\n"
    "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

static void make_texts(const char *model) {
  char body[1200], event[400];
  snprintf(facts, sizeof facts,
           "{\"version\":\"0.5.18\",\"model_path\":\"%s\",\"served_model_name\":\"%s\",\"is_generation\":true,"
           "\"dp_size\":1,\"tp_size\":1,\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\","
           "\"owned_by\":\"sglang\",\"max_model_len\":8192}]}",
           model, model, model);
  int text = 700;
  int size = snprintf(body, sizeof body,
                      "{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion\",\"created\":1700000000,"
                      "\"model\":\"%s\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%0*d\"},"
                      "\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":20,"
                      "\"completion_tokens\":100,\"total_tokens\":120}}",
                      model, text, 0);
  answer_length = snprintf(answer, sizeof answer,
                           "HTTP/1.1 200 OK\r\ndate: Sun, 22 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\n"
                           "content-length: %d\r\ncontent-type: application/json\r\n\r\n%s",
                           size, body);
  const char *form = "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\","
                     "\"created\":1700000000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},"
                     "\"logprobs\":null,\"finish_reason\":%s}]}\n\n";
  size = snprintf(event, sizeof event, form, model, " t0000000000000000000", "null");
  chunk_length = snprintf(chunk, sizeof chunk, "%x\r\n%s\r\n", size, event);
  stamp_at = (char *)memmem(chunk, chunk_length, " t0", 3) + 2 - chunk;
  size = snprintf(event, sizeof event, form, model, "", "\"stop\"");
  last_length = snprintf(last, sizeof last, "%x\r\n%s\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", size, event);
}

static void stop_stream(int fd) {
  for (int i = 0; i < stream_count; i++) {
    if (streams[i].fd == fd) {
      streams[i] = streams[--stream_count];
      return;
    }
  }
}

static void drop(int fd) {
  stop_stream(fd);
  free(connections[fd].in);
  connections[fd] = (struct connection){0};
  close(fd);
}

static int number_after(const char *body, size_t length, const char *name) {
  const char *at = memmem(body, length, name, strlen(name));
  return at == NULL ? 0 : atoi(at + strlen(name));
}

static int streams_asked(const char *body, size_t length) {
  return memmem(body, length, "\"stream\":true", 13) != NULL || memmem(body, length, "\"stream\": true", 14) != NULL;
}

/* Sends a stream's next chunk; false when the stream is over. */
static int step(struct stream *stream, int64_t now) {
  char stamp[32];
  snprintf(stamp, sizeof stamp, "%019lld", (long long)now);
  memcpy(chunk + stamp_at, stamp, 19);
  int over = stream->left <= 0;
  ssize_t sent = send(stream->fd, over ? last : chunk, over ? last_length : chunk_length, MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN;
  stream->left--;
  stream->due_ns += stream->gap_ns;
  return !over;
}

static void reply(int fd, const char *head, const char *body, size_t length) {
  if (head[0] == 'G') {
    char text[1024];
    int size = snprintf(text, sizeof text,
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", strlen(facts),
                        facts);
    send(fd, text, size, MSG_NOSIGNAL);
  } else if (streams_asked(body, length)) {
    struct stream *stream = &streams[stream_count++];
    int64_t gap = 1000LL * number_after(body, length, "gap_us=");
    int chunks = connections[fd].prefills ? 1 : number_after(body, length, "chunks=");
    if (connections[fd].prefills) gap = 0;
    int phase = number_after(body, length, "spread=") ? opened++ % PHASES : 0;
    *stream = (struct stream){.fd = fd, .left = chunks, .gap_ns = gap};
    send(fd, stream_head, sizeof stream_head - 1, MSG_NOSIGNAL);
    if (gap > 0 && step(stream, now_ns())) stream->due_ns = (now_ns() / gap + 1) * gap + gap * phase / PHASES;
  } else send(fd, answer, answer_length, MSG_NOSIGNAL);
}

static void take(int fd) {
  struct connection *connection = &connections[fd];
  if (connection->in == NULL) connection->in = malloc(IN_BYTES + 1);
  ssize_t got = recv(fd, connection->in + connection->length, IN_BYTES - connection->length, 0);
  if (got <= 0) {
    if (got == 0 || errno != EAGAIN) drop(fd);
    return;
  }
  connection->length += got;
  connection->in[connection->length] = 0;
  size_t head = head_length(connection->in, connection->length);
  if (head == 0) return;
  const char *said = header(connection->in, head, "\ncontent-length:");
  size_t body = said == NULL ? 0 : strtoul(said, NULL, 10);
  if (connection->length < head + body) return;
  connection->length = 0;
  reply(fd, connection->in, connection->in + head, body);
}

/* Sends what is due; gives the time of the next chunk, 0 for at once, -1 for none. */
static int64_t send_due(void) {
  int64_t now = now_ns(), next = -1;
  for (int i = 0; i < stream_count; i++) {
    struct stream *stream = &streams[i];
    if (stream->due_ns <= now && !step(stream, now)) {
      *stream = streams[--stream_count];
      i--;
      continue;
    }
    int64_t due = stream->gap_ns == 0 ? 0 : stream->due_ns;
    if (next < 0 || due < next) next = due;
  }
  return next;
}

static void listen_at(int port, int prefills) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
  struct sockaddr_in at = loopback(port);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4096) < 0) die("mock");
  connections[fd] = (struct connection){.listens = 1, .prefills = prefills};
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[fd]};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void welcome(int listener) {
  int fd;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    if (fd >= MAX_FD) {
      close(fd);
      continue;
    }
    no_delay(fd);
    connections[fd].prefills = connections[listener].prefills;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[fd]};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
  }
}

int main(int count, char **words) {
  struct epoll_event events[256];
  signal(SIGPIPE, SIG_IGN);
  epoll_fd = epoll_create1(0);
  make_texts(words[1]);
  for (int i = 2; i < count; i++) listen_at(atoi(words[i]), i == 2);
  int timer = timer_in(epoll_fd);
  printf("listening\n");
  fflush(stdout);
  while (1) {
    int64_t next = send_due();
    if (next > 0) set_timer(timer, next);
    int ready = epoll_wait(epoll_fd, events, 256, next == 0 ? 0 : -1);
    for (int i = 0; i < ready; i++) {
      struct connection *connection = events[i].data.ptr;
      if (connection == NULL) {
        uint64_t expired;
        if (read(timer, &expired, sizeof expired) < 0) continue;
      } else if (connection->listens) welcome(connection - connections);
      else take(connection - connections);
    }
  }
}

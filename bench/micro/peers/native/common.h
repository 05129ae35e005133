/* Sockets, time and heads of HTTP messages, as both `mock.c` and `client.c` need them. */
#pragma once
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * SECOND + t.tv_nsec;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void no_delay(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

/* Length of the head with its empty line; 0 while it is not whole. */
static size_t head_length(const char *bytes, size_t length) {
  const char *end = memmem(bytes, length, "\r\n\r\n", 4);
  return end == NULL ? 0 : end + 4 - bytes;
}

/* Value of a header given as "\nname:" in lower case; NULL without it. The head ends with an empty line. */
static const char *header(const char *head, size_t length, const char *name) {
  size_t size = strlen(name);
  for (size_t i = 0; i + size < length; i++) {
    if (head[i] == '\n' && strncasecmp(head + i, name, size) == 0) return head + i + size;
  }
  return NULL;
}

static int timer_in(int epoll) {
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
  return timer;
}

static void set_timer(int timer, int64_t at_ns) {
  if (at_ns < 1) at_ns = 1;
  struct itimerspec when = {.it_value = {at_ns / SECOND, at_ns % SECOND}};
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/*
** replies.c - answers to requests. The unread bytes of a stream are kept in its request until the
** client reads them.
*/
#include "replies.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

/* If a client leaves more than this many bytes of a stream unread, the stream ends. */
enum { STREAM_MOST = 4 << 20 };

Response *text_response(const char *type, const char *text, size_t size) {
  Response *r = mhd.create_response_from_buffer(size, (void *)text, MEMORY_COPY);
  if (r && type && *type) mhd.add_response_header(r, "Content-Type", type);
  return r;
}

int refuse(Server *s, Request *r, int status, const char *why) {
  char text[256];
  int n = snprintf(text, sizeof text, "{\"error\":\"%s\"}", why);
  Response *response = text_response("application/json", text, (size_t)n);
  if (response == NULL) return MHD_NO;
  if (status == 401) mhd.add_response_header(response, "WWW-Authenticate", "Bearer");
  if (status == 429 || status == 503) mhd.add_response_header(response, "Retry-After", "1");
  if (atomic_load(&s->draining) || status == 413 || r->ambiguous)
    mhd.add_response_header(response, "Connection", "close");
  r->status = status;
  atomic_fetch_add(&r->sent, n);
  int ok = mhd.queue_response(r->connection, (unsigned)status, response);
  mhd.destroy_response(response);
  return ok;
}

bool answer(Request *r, int status, Response *response, int64_t size) {
  Server *s = r->server;
  if (response && atomic_load(&s->draining))
    mhd.add_response_header(response, "Connection", "close");
  pthread_mutex_lock(&s->lock);
  bool fine = !r->answered && !r->gone && r->connection && response;
  bool resume = fine && r->suspended;
  Connection *connection = r->connection;
  if (fine) {
    r->answered = true;
    r->response = response;
    r->status = status;
    r->suspended = false;
    if (size > 0) atomic_fetch_add(&r->sent, size);
  }
  pthread_mutex_unlock(&s->lock);
  if (!fine && response) mhd.destroy_response(response);
  if (resume) mhd.resume_connection(connection);
  return fine;
}

ssize_t read_stream(void *cls, uint64_t position, char *out, size_t most) {
  Request *r = cls;
  Server *s = r->server;
  (void)position;
  for (int round = 0;; round++) {
    pthread_mutex_lock(&s->lock);
    size_t n = r->stream_size < most ? r->stream_size : most;
    if (n > 0) {
      memcpy(out, r->stream, n);
      memmove(r->stream, r->stream + n, r->stream_size - n);
      r->stream_size -= n;
    }
    bool ended = n == 0 && r->ended, gone = r->gone;
    bool stay = n == 0 && !ended && !gone && round == 1;
    if (stay) r->suspended = true;
    Connection *connection = r->connection;
    pthread_mutex_unlock(&s->lock);
    if (stay) return 0;
    if (n > 0 || ended || gone) {
      if (round == 1) mhd.resume_connection(connection);
      atomic_fetch_add(&r->sent, (int64_t)n);
      return n > 0 ? (ssize_t)n : gone ? END_WITH_ERROR : END_OF_STREAM;
    }
    /* The connection is suspended before `suspended` is set. In the opposite order, another
    ** thread could resume the connection before it is suspended. */
    mhd.suspend_connection(connection);
  }
}

void release_stream(void *cls) { request_release(cls); }

bool feed(Request *r, const char *text, size_t size, bool ends) {
  Server *s = r->server;
  pthread_mutex_lock(&s->lock);
  bool fine = r->streams && !r->gone && !r->ended && r->connection;
  if (fine && r->stream_size + size > STREAM_MOST) fine = false, r->gone = true;
  if (fine && size > 0) {
    fine = reserve(&r->stream, &r->stream_capacity, r->stream_size, size);
    if (fine) {
      memcpy(r->stream + r->stream_size, text, size);
      r->stream_size += size;
    }
  }
  if (ends && r->streams) r->ended = true;
  bool resume = r->streams && r->suspended;
  if (resume) r->suspended = false;
  Connection *connection = r->connection;
  pthread_mutex_unlock(&s->lock);
  if (resume) mhd.resume_connection(connection);
  return fine;
}

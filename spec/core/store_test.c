/*
** store_test.c - store.h: who asks at a port that another program has.
*/
#include "dist/store.h"

#include <stdatomic.h>
#include <string.h>

#include "core/platform.h"
#include "core/share.h"
#include "core/socket.h"
#include "test.h"

/* A program that takes a number of connections, says `text` on each, and closes them. */
typedef struct Other {
  int listener, port, connections;
  const char *text;
  atomic_uint ended;
} Other;

static void talk(void *context) {
  Other *o = context;
  bool ready;
  for (int taken = 0; taken < o->connections;) {
    tli_socket_poll(&o->listener, 1, &ready, tli_now_ns() + 100000000);
    int socket = tli_socket_accept(o->listener);
    if (socket == TLI_NOSOCKET) continue;
    if (!tli_socket_send(socket, o->text, strlen(o->text), tli_now_ns() + 1000000000))
      tli_error_clear();
    char heard[24]; /* a socket that is closed with bytes unread loses what it has sent */
    if (*o->text && !tli_socket_receive(socket, heard, sizeof heard, tli_now_ns() + 10000000000))
      tli_error_clear();
    tli_socket_close(socket);
    taken++;
  }
  tli_socket_close(o->listener); /* further ones are refused */
  atomic_store(&o->ended, 1);
  tli_word_wake(&o->ended);
}

static void begin(Other *o) {
  o->listener = tli_socket_listen("127.0.0.1", &o->port);
  CHECK(o->listener != TLI_NOSOCKET);
  CHECK(tli_thread_start(talk, o));
}

static void end(Other *o) {
  while (atomic_load(&o->ended) == 0) tli_word_wait(&o->ended, 0, 100000000);
}

static void what_says_something_else_is_no_store(void) {
  const char *texts[] = {"SSH-2.0-OpenSSH_9.2p1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
                         "-ERR\r\n"};
  for (int i = 0; i < 3; i++) {
    Other other = {.connections = 1, .text = texts[i]};
    begin(&other);
    CHECK(tli_store_connect("127.0.0.1", other.port, 60000000000) == NULL);
    CHECK_ERROR(TL_EARG, "it says something else");
    end(&other);
  }
}

static void what_says_nothing_is_no_store(void) {
  int port = 0, listener = tli_socket_listen("127.0.0.1", &port);
  CHECK(listener != TLI_NOSOCKET);
  CHECK(tli_store_connect("127.0.0.1", port, 1000000000) == NULL);
  CHECK_ERROR(TL_EARG, "no answer in time");
  tli_socket_close(listener);
}

/* A store that ends closes its connections, and another one may be about to take its port. */
static void what_goes_is_tried_again(void) {
  Other other = {.connections = 1, .text = ""};
  begin(&other);
  CHECK(tli_store_connect("127.0.0.1", other.port, 300000000) == NULL);
  CHECK_ERROR(TL_EIO, "no connection to 127.0.0.1");
  end(&other);
}

static void a_store_is_one(void) {
  tli_StoreServer *server = tli_store_serve("127.0.0.1", 0);
  CHECK(server != NULL);
  tli_Store *store = tli_store_connect("127.0.0.1", tli_store_server_port(server), 60000000000);
  CHECK(store != NULL);
  CHECK(tli_store_set(store, "key", "value", 5));
  tli_store_close(store);
  tli_store_server_stop(server);
}

int main(void) {
  RUN(what_says_something_else_is_no_store);
  RUN(what_says_nothing_is_no_store);
  RUN(what_goes_is_tried_again);
  RUN(a_store_is_one);
  return test_end();
}

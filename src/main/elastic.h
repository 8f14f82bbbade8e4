/*
** elastic.h - launchers whose number changes while a program runs (tlua run --nnodes 1:4). They
** meet in rounds, by a store that one of them serves: whoever can have its address. A round
** is closed when as many have come as there may be, or enough of them and for a while
** nobody else. It ends when ranks fail, when a launcher is no longer heard of, or when
** another one waits for the next round; all that are left then meet in that.
**
** Where the store has gone with its launcher, one of those that are left serves another at the
** same address, if it is one of its machine's; else they wait there for a new one.
*/
#ifndef TLI_MAIN_ELASTIC_H
#define TLI_MAIN_ELASTIC_H

#include "dist/store.h"

typedef struct tli_Elastic {
  int least, most;           /* launchers */
  const char *host, *secret; /* the secret as tli_store_serve takes it */
  int port;
  int64_t timeout; /* nanoseconds, of meeting */
  /* of the round */
  int64_t round;
  int node, nodes;
  /* inside */
  tli_StoreServer *server; /* owned; NULL where it is elsewhere */
  tli_Store *store;        /* owned; NULL: there is none, or no longer */
  int64_t looked, beat[1024], heard[1024];
} tli_Elastic;

enum { TLI_MOST_NODES = 1024 };

typedef enum tli_ElasticState {
  TLI_ELASTIC_ON,
  TLI_ELASTIC_FAILED, /* ranks elsewhere, or a launcher, or the store */
  TLI_ELASTIC_GROWS   /* another one waits */
} tli_ElasticState;

/* Waits for the next round, in which this launcher is number `node` of `nodes`. */
bool tli_elastic_meet(tli_Elastic *e) TL_MUSTCHECK;
/* To be called often while ranks run. */
tli_ElasticState tli_elastic_look(tli_Elastic *e);
/* Ranks of this launcher have failed. */
void tli_elastic_fail(tli_Elastic *e);
/* This one's ranks have ended well: waits for the others'. Whether all have. */
tli_ElasticState tli_elastic_finish(tli_Elastic *e);
void tli_elastic_close(tli_Elastic *e);

#endif

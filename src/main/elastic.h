/*
** elastic.h - `tlua run --nnodes 1:4`, where the number of launchers may change while a program
** runs. Launchers meet in rounds, and exchange data through a store. The launcher that could bind
** the store's address serves the store. A round closes when the maximum number of launchers has
** joined, or when the minimum has joined and no further launcher joins for a while. A round ends
** when ranks fail, when a launcher stops responding, or when a new launcher waits for the next
** round. The remaining launchers then meet in the next round.
**
** If the launcher that serves the store ends, another launcher on the same machine serves a new
** store at the same address. If there is none, the remaining launchers wait until a store is served
** there again.
*/
#ifndef TLI_MAIN_ELASTIC_H
#define TLI_MAIN_ELASTIC_H

#include "dist/store.h"

typedef struct tli_Elastic {
  int least, most; /* launchers */
  /* the store's host, and the job's secret in the form that tli_store_serve takes */
  const char *host, *secret;
  int port;
  int64_t timeout; /* how long to wait for a round to close, in ns */
  /* number of the current round */
  int64_t round;
  int node, nodes;
  /* inside */
  tli_StoreServer *server; /* the store's server (owned); NULL if another launcher serves */
  tli_Store *store;        /* connection to the store (owned); NULL if not connected */
  int64_t looked, beat[1024], heard[1024];
} tli_Elastic;

enum { TLI_MOST_NODES = 1024 };

typedef enum tli_ElasticState {
  TLI_ELASTIC_ON,
  TLI_ELASTIC_FAILED, /* the store, another launcher, or a rank of another launcher failed */
  TLI_ELASTIC_GROWS   /* another launcher waits for the next round */
} tli_ElasticState;

/* Waits until the next round has closed. Sets e->node, this launcher's number in the round, and
** e->nodes, the number of launchers. */
bool tli_elastic_meet(tli_Elastic *e) TL_MUSTCHECK;
/* Returns the state of the round. Must be called often while ranks run, because it also sends this
** launcher's heartbeat. */
tli_ElasticState tli_elastic_look(tli_Elastic *e);
/* Reports that ranks of this launcher have failed. */
void tli_elastic_fail(tli_Elastic *e);
/* Finishes a round after this launcher's ranks have ended successfully: waits for the ranks of the
** other launchers. Returns TLI_ELASTIC_ON if all have succeeded, or if the store cannot be reached
** any more. */
tli_ElasticState tli_elastic_finish(tli_Elastic *e);
void tli_elastic_close(tli_Elastic *e);

#endif

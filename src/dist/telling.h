/*
** telling.h - what the ranks of a group tell one another by the store, beside their calls: that
** they have come, why the group is of no use any more, and, once something takes too long,
** what each of them waits for. For wires that have no memory in common.
**
** Who has waited for too long says so; the others, who look there now and then, add what they
** wait for, and who has added nothing is missing.
*/
#ifndef TLI_DIST_TELLING_H
#define TLI_DIST_TELLING_H

#include "dist/inside.h"

typedef struct tli_Telling {
  tli_Store *store; /* owned: a connection of the group's */
  char name[200];   /* of the group there */
  tli_Status status;
  bool broken;
  char why[1500];
  bool told;     /* what this rank waits for, since somebody has asked */
  int64_t alone; /* since when the store has gone; 0: it is there */
  /* Called once, when the group has come to be of no use; may be NULL. */
  void (*ended)(tli_Group *g);
} tli_Telling;

bool tli_telling_open(tli_Group *g, tli_Telling *t, tli_Store *store, const char *name)
    TL_MUSTCHECK;
void tli_telling_close(tli_Telling *t);
/* "<group>/<what>", or "<group>/<what>/<rank>" with a rank from 0 on. */
void tli_telling_key(const tli_Telling *t, char key[300], const char *what, int rank);
/* Waits for all ranks; a failure names those that have not come. */
bool tli_telling_meet(tli_Group *g, tli_Telling *t) TL_MUSTCHECK;
/* False, with the reason, where a rank has found the group to be of no use, and otherwise adds
** what this one waits for if somebody has asked. */
bool tli_telling_look(tli_Group *g, tli_Telling *t) TL_MUSTCHECK;
/* This rank has waited for `timeout` nanoseconds, in vain: false, with what all are about. */
bool tli_telling_late(tli_Group *g, tli_Telling *t, tli_Collective kind, int64_t timeout);
/* Records for all why the group is of no use any more, unless somebody has done so: false, with
** the reason that all get. */
bool tli_telling_break(tli_Group *g, tli_Telling *t, const char *why);
/* The same over a connection of its own, so at any time; this rank, too, gets to know when it next
** looks. */
void tli_telling_abort(const tli_Telling *t, const char *why);
/* The same for this rank alone. */
bool tli_telling_end(tli_Group *g, tli_Telling *t, const char *why);
bool tli_telling_broken(const tli_Telling *t);

#endif

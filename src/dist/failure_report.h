/*
** failure_report.h - the reports that the ranks of a group exchange through the store. A rank
** reports that it has joined, why the group has failed and, once a call takes too long, which call
** it waits for. Transports without shared memory use these reports.
**
** A rank that has waited for too long asks for a report. The other ranks read the store now and
** then, see the request and add their own calls. A rank that adds nothing counts as missing.
*/
#ifndef TLI_DIST_FAILURE_REPORT_H
#define TLI_DIST_FAILURE_REPORT_H

#include "dist/inside.h"

typedef struct tli_FailureReport {
  tli_Store *store; /* this group's own connection to the store (owned) */
  char name[200];   /* the group's name in the store */
  tli_Status status;
  bool broken;
  char why[1500];
  bool answered; /* whether this rank has published its status because another rank has asked */
  /* the time when the store was found to have ended; 0 while the store is alive */
  int64_t store_lost_at;
  /* The function to call once when the group has failed, or NULL. */
  void (*ended)(tli_Group *g);
} tli_FailureReport;

bool tli_report_open(tli_Group *g, tli_FailureReport *t, tli_Store *store, const char *name)
    TL_MUSTCHECK;
void tli_report_close(tli_FailureReport *t);
/* Writes the key "<group>/<what>", or "<group>/<what>/<rank>" if rank is at least 0. */
void tli_report_key(const tli_FailureReport *t, char key[300], const char *what, int rank);
/* Waits for all ranks. An error names the ranks that have not joined. */
bool tli_report_join(tli_Group *g, tli_FailureReport *t) TL_MUSTCHECK;
/* Checks the other ranks' reports. Returns false with the reason if a rank has reported a failure.
** Publishes this rank's call if another rank has asked for it. */
bool tli_report_check(tli_Group *g, tli_FailureReport *t) TL_MUSTCHECK;
/* Handles a call of this rank that has waited for `timeout` nanoseconds without success: asks all
** ranks for their calls. Returns false with a message that describes the calls of all ranks. */
bool tli_report_timeout(tli_Group *g, tli_FailureReport *t, tli_Collective kind, int64_t timeout);
/* Publishes for all ranks the reason why the group has failed, unless another rank has already
** published a reason. Returns false; the message is the reason that all ranks get. */
bool tli_report_publish(tli_Group *g, tli_FailureReport *t, const char *why);
/* Publishes a failure like tli_report_publish, but over a new connection, so any thread may call
** this function at any time. This rank, too, notices the failure only when it next reads the
** store. */
void tli_report_abort(const tli_FailureReport *t, const char *why);
/* Ends the group on this rank only, and reports nothing to the other ranks. */
bool tli_report_end(tli_Group *g, tli_FailureReport *t, const char *why);
bool tli_report_failed(const tli_FailureReport *t);

#endif

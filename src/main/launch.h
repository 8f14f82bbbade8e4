/*
** launch.h - `tlua run`: one program as several processes.
*/
#ifndef TLI_LAUNCH_H
#define TLI_LAUNCH_H

/* Runs it; argv[1] is "run". Returns the status to end with: that of the first process that
** has failed, else 0. */
int tli_launch(int argc, char **argv);

/* In a process that was so started: its lines are to be seen as they are written. */
void tli_launch_prepare(void);

#endif

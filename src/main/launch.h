/*
** launch.h - declares `tlua run`, which runs one program as several processes.
*/
#ifndef TLI_LAUNCH_H
#define TLI_LAUNCH_H

/* Runs the command `tlua run`; argv[1] is "run". Returns the exit status: the status of the first
** process that failed, or 0 if none did. */
int tli_launch(int argc, char **argv);

/* Makes stdout line-buffered in a process that `tlua run` has started. */
void tli_launch_prepare(void);

#endif

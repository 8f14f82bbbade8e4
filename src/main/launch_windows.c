/*
** launch_windows.c - implements launch.h on Windows, where `tlua run` is not supported.
*/
#include "main/launch.h"

#include <stdlib.h>

#include "main/script.h"

int tli_launch(int argc, char **argv) {
  (void)argc, (void)argv;
  tli_script_complain("run: programs of several processes are not supported on Windows");
  return EXIT_FAILURE;
}

void tli_launch_prepare(void) {}

/*
** options.h - the command line, as `lua` reads it: options, then a script,
** then the script's arguments.
*/
#ifndef TLI_OPTIONS_H
#define TLI_OPTIONS_H

#include <stdbool.h>

typedef struct tli_Options {
  int script;       /* index of the script in argv; argc if there is none */
  bool chunks;      /* -e was given */
  bool interactive; /* -i */
  bool version;     /* -v or -i: print the version first */
  bool no_env;      /* -E */
  bool help;        /* --help */
  bool profile;     /* --profile, or --html */
  const char *html; /* borrowed; the page to write; NULL: none */
} tli_Options;

/* An option that asks for something to be done before the script runs. */
typedef struct tli_Step {
  char letter;       /* 'e', 'l', 'W' or, for --device, 'd'; 0 after the last one */
  const char *value; /* what -e or -l names, borrowed from argv */
} tli_Step;

/* Reads the options. False, with a message in `problem`, if there is one that
** is not known or lacks its value. */
bool tli_options_parse(int argc, char **argv, tli_Options *options, char problem[128]);

/* The next step at or after *i, which moves past it. Start with *i = 1. */
tli_Step tli_options_step(char **argv, const tli_Options *options, int *i);

/* What --help prints. */
extern const char tli_options_usage[];

#endif

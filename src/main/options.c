/*
** options.c - reads the command line.
**
** The command line is read twice. The first reading covers the whole line before any code runs, so
** that an invalid option is reported before any option takes effect. The second reading executes
** the options that run code, one after another.
*/
#include "main/options.h"

#include <stdio.h>
#include <string.h>

const char tli_options_usage[] =
    "  -e stat     run the string 'stat'\n"
    "  -i          enter interactive mode after running 'script'\n"
    "  -l mod      require the library 'mod' into the global 'mod'\n"
    "  -l g=mod    require the library 'mod' into the global 'g'\n"
    "  -v          show version information\n"
    "  --device d  make tensors on device d, such as sim or cuda:0, unless told otherwise\n"
    "  --torch7    have Torch7's torch, nn, optim, image, paths and xlua as globals\n"
    "  --profile   tell at the end what the script did with its time\n"
    "  --html file with --profile: write it as a page to look at in a browser\n"
    "  -E          ignore environment variables\n"
    "  -W          turn warnings on, which is the default; warn '@off' turns them off\n"
    "  --          stop handling options\n"
    "  -           stop handling options and run stdin\n"
    "Without a script: interactive mode if stdin is a terminal, else run stdin.\n"
    "The globals torch, nn and optim are there already.\n";

/* Returns whether the value of -e or -l is the next argument, that is, whether no text follows the
** letter directly. */
static bool value_is_apart(const char *option) { return option[2] == '\0'; }

static bool is_flag(const char *option, char letter) {
  return option[1] == letter && option[2] == '\0';
}

static bool unknown(const char *option, char problem[128]) {
  snprintf(problem, 128, "unrecognized option '%.80s'", option);
  return false;
}

bool tli_options_parse(int argc, char **argv, tli_Options *options, char problem[128]) {
  *options = (tli_Options){.script = argc};
  for (int i = 1; i < argc; i++) {
    const char *option = argv[i];
    if (option[0] != '-' || option[1] == '\0') { /* this argument is a script, or "-" for stdin */
      options->script = i;
      return true;
    }
    if (strcmp(option, "--") == 0) {
      options->script = i + 1;
      return true;
    }
    if (strcmp(option, "--profile") == 0) {
      options->profile = true;
    } else if (strcmp(option, "--html") == 0 && i + 1 < argc && argv[i + 1][0] != '-') {
      options->html = argv[++i];
      options->profile = true;
    } else if (strcmp(option, "--device") == 0 || strcmp(option, "--html") == 0) {
      if (++i == argc || argv[i][0] == '-') {
        snprintf(problem, 128, "'%s' needs argument", option);
        return false;
      }
    } else if (strcmp(option, "--help") == 0)
      options->help = true;
    else if (is_flag(option, 'v') || strcmp(option, "--version") == 0)
      options->version = true;
    else if (is_flag(option, 'i'))
      options->interactive = options->version = true;
    else if (is_flag(option, 'E'))
      options->no_env = true;
    else if (option[1] == 'e' || option[1] == 'l') {
      options->chunks |= option[1] == 'e';
      if (value_is_apart(option)) {
        i++;
        if (i == argc || argv[i][0] == '-') {
          snprintf(problem, 128, "'%s' needs argument", option);
          return false;
        }
      }
    } else if (!is_flag(option, 'W') && strcmp(option, "--torch7") != 0) {
      return unknown(option, problem);
    }
  }
  return true;
}

tli_Step tli_options_step(char **argv, const tli_Options *options, int *i) {
  while (*i < options->script) {
    const char *option = argv[(*i)++];
    if (strcmp(option, "--device") == 0) return (tli_Step){'d', argv[(*i)++]};
    if (strcmp(option, "--torch7") == 0) return (tli_Step){'t', NULL};
    if (strcmp(option, "--profile") == 0) continue;
    if (strcmp(option, "--html") == 0) {
      ++*i;
      continue;
    }
    if (option[1] == 'W') return (tli_Step){'W', NULL};
    if (option[1] == 'e' || option[1] == 'l') {
      const char *value = value_is_apart(option) ? argv[(*i)++] : option + 2;
      return (tli_Step){option[1], value};
    }
  }
  return (tli_Step){0, NULL};
}

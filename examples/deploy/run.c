/*
** run.c - runs the program of export.lua on a file of digits, in a process without Lua:
**
**   run digits.tlp digits.csv
*/
#include <stdio.h>
#include <tlua.h>

enum { PIXELS = 64, CLASSES = 10, MOST = 4096 };

static float images[MOST][PIXELS];
static int digits[MOST];

/* Reads a file in which each line has 64 pixels from 0 to 16 and the digit. Returns the number
** of lines. */
static int64_t read_digits(const char *path) {
  FILE *file = fopen(path, "r");
  int64_t n = 0;
  for (; file && n < MOST; n++) {
    int pixel = 0, fields = 0;
    for (; fields < PIXELS && fscanf(file, "%d,", &pixel) == 1; fields++)
      images[n][fields] = (float)pixel / 16;
    if (fields < PIXELS || fscanf(file, "%d", &digits[n]) != 1) break;
  }
  if (file) fclose(file);
  return n;
}

/* Returns the digit with the highest score. */
static int best(const float *scores) {
  int at = 0;
  for (int i = 1; i < CLASSES; i++)
    if (scores[i] > scores[at]) at = i;
  return at;
}

int main(int argc, char **argv) {
  static float scores[MOST][CLASSES];
  if (argc != 3) return fprintf(stderr, "usage: run digits.tlp digits.csv\n"), 2;
  int64_t n = read_digits(argv[2]), in_sizes[] = {n, 1, 8, 8}, out_sizes[] = {n, CLASSES};
  tl_Program *program = tl_program_load(argv[1]);
  tl_Tensor *in = tl_tensor_wrap(images, TL_F32, 4, in_sizes, NULL, NULL, NULL);
  tl_Tensor *out = tl_tensor_wrap(scores, TL_F32, 2, out_sizes, NULL, NULL, NULL);
  bool ok = program && in && out && tl_program_run(program, &in, 1, &out, 1);
  int right = 0;
  for (int64_t i = 0; ok && i < n; i++) right += best(scores[i]) == digits[i];
  if (ok)
    printf("%d of %d digits read right\n", right, (int)n);
  else
    fprintf(stderr, "run: %s\n", tl_error());
  tl_tensor_release(in);
  tl_tensor_release(out);
  tl_program_free(program);
  return ok ? 0 : 1;
}

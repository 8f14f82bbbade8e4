/*
** train.c - trains the network of export_step.lua on a file of digits, in a process without Lua,
** counts how many of the remaining digits the network recognises, and saves the training step with
** the trained parameters:
**
**   train digits_step.tlp digits.tlp digits.csv [saved.tlp]
** */
#include <stdio.h>
#include <string.h>
#include <tlua.h>

enum { PIXELS = 64, CLASSES = 10, MOST = 2048, BATCH = 32, EPOCHS = 10 };

static float images[MOST][PIXELS];
/* each class is the digit plus 1, because programs count classes from 1, as Lua does */
static int64_t classes[MOST];

/* Reads a file in which each line has 64 pixels from 0 to 16 and the digit. Returns the number
** of lines. */
static int64_t read_digits(const char *path) {
  FILE *file = fopen(path, "r");
  int64_t n = 0;
  for (; file && n < MOST; n++) {
    int pixel = 0, fields = 0;
    for (; fields < PIXELS && fscanf(file, "%d,", &pixel) == 1; fields++)
      images[n][fields] = (float)pixel / 16;
    if (fields < PIXELS || fscanf(file, "%d", &pixel) != 1) break;
    classes[n] = pixel + 1;
  }
  if (file) fclose(file);
  return n;
}

/* Makes a training step on a batch of BATCH digits, which are chosen from the first n digits.
** Sets *loss. */
static bool step(tl_Program *program, int64_t first, int64_t n, tl_Tensor *loss) {
  static float pixels[BATCH][PIXELS];
  static int64_t digits[BATCH];
  for (int64_t i = 0; i < BATCH; i++) {
    /* the batch has every seventh digit, because adjacent digits may share a writer */
    int64_t at = (first + i * 7) % n;
    memcpy(pixels[i], images[at], sizeof pixels[i]);
    digits[i] = classes[at];
  }
  tl_Tensor *in[] = {
      tl_tensor_wrap(pixels, TL_F32, 4, (int64_t[]){BATCH, 1, 8, 8}, NULL, NULL, NULL),
      tl_tensor_wrap(digits, TL_I64, 1, (int64_t[]){BATCH}, NULL, NULL, NULL)};
  bool ok = in[0] && in[1] && tl_program_step(program, in, 2, &loss, 1);
  tl_tensor_release(in[0]);
  tl_tensor_release(in[1]);
  return ok;
}

/* Counts how many of n digits, from `first` on, the network recognises. Returns -1 on failure. */
static int count_right(tl_Program *network, int64_t first, int64_t n) {
  static float scores[MOST][CLASSES];
  tl_Tensor *in =
      tl_tensor_wrap(images[first], TL_F32, 4, (int64_t[]){n, 1, 8, 8}, NULL, NULL, NULL);
  tl_Tensor *out = tl_tensor_wrap(scores, TL_F32, 2, (int64_t[]){n, CLASSES}, NULL, NULL, NULL);
  bool ok = in && out && tl_program_run(network, &in, 1, &out, 1);
  int right = ok ? 0 : -1;
  for (int64_t i = 0; ok && i < n; i++) {
    int best = 0;
    for (int k = 1; k < CLASSES; k++)
      if (scores[i][k] > scores[i][best]) best = k;
    right += best + 1 == (int)classes[first + i];
  }
  tl_tensor_release(in);
  tl_tensor_release(out);
  return right;
}

int main(int argc, char **argv) {
  if (argc < 4)
    return fprintf(stderr, "usage: train step.tlp network.tlp digits.csv [saved.tlp]\n"), 2;
  int64_t all = read_digits(argv[3]), n = all * 4 / 5;
  tl_Program *program = tl_program_load(argv[1]), *network = tl_program_load(argv[2]);
  float value = 0;
  tl_Tensor *loss = tl_tensor_wrap(&value, TL_F32, 0, NULL, NULL, NULL, NULL);
  bool ok = n >= BATCH && program && network && loss && tl_program_share(network, program);
  for (int epoch = 1; ok && epoch <= EPOCHS; epoch++) {
    for (int64_t i = 0; ok && i + BATCH <= n; i += BATCH) ok = step(program, i, n, loss);
    if (ok) printf("epoch %2d: loss %.4f\n", epoch, (double)value);
  }
  int right = ok ? count_right(network, n, all - n) : -1;
  ok = right >= 0 && (argc < 5 || tl_program_save(program, argv[4]));
  if (ok)
    printf("%d of %d new digits read right\n", right, (int)(all - n));
  else
    fprintf(stderr, "train: %s\n", tl_error());
  tl_tensor_release(loss);
  tl_program_free(network);
  tl_program_free(program);
  return ok ? 0 : 1;
}

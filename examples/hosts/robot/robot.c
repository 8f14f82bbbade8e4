/*
** robot.c - balances a pole on a cart, a thousand times a second, with the controller that
** controller.lua has learnt. There is no Lua in the process:
**
**   tlua examples/hosts/robot/controller.lua --save cart.tlp
**   cc -O2 -o robot examples/hosts/robot/robot.c $(pkg-config --cflags --libs tlua) -lm
**   ./robot cart.tlp 5
**
** The loop simulates the cart, in place of sensors and a motor. The program asks the system for
** SCHED_FIFO and for locked memory, and goes on without them if the system refuses. At the end it
** prints how late the loop woke, how long the controller took, and the largest angle of the pole.
*/
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <tlua.h>

enum { TICK_NS = 1000000, BINS = 12 };

typedef struct Cart {
  /* position in m, velocity in m/s, angle from upright in rad, and angular velocity in rad/s */
  double x, v, angle, turn;
} Cart;

/* Counts durations in bins. Bin 0 has durations below 1 microsecond, bin i those below 2^i, and
** the last bin all longer ones. */
typedef struct Histogram {
  long count[BINS];
  double most;
} Histogram;

static void note(Histogram *h, double us) {
  int bin = 0;
  while (bin < BINS - 1 && us >= (double)(1 << bin)) bin++;
  h->count[bin]++;
  if (us > h->most) h->most = us;
}

static void print(const Histogram *h, const char *title) {
  printf("%s (at most %.0f us)\n", title, h->most);
  for (int i = 0; i < BINS; i++)
    if (h->count[i] > 0)
      printf("  %s %5d us: %ld\n", i < BINS - 1 ? "below" : " from",
             1 << (i < BINS - 1 ? i : i - 1), h->count[i]);
}

/* Moves the cart by one tick, by Euler's method; controller.lua has the same equations. */
static void move(Cart *c, double force) {
  const double gravity = 9.8, mass = 1.1, pole = 0.1, half = 0.5, dt = TICK_NS * 1e-9;
  double s = sin(c->angle), cosine = cos(c->angle);
  double push = (force + pole * half * c->turn * c->turn * s) / mass;
  double bend = (gravity * s - cosine * push) / (half * (4.0 / 3 - pole * cosine * cosine / mass));
  double speed_up = push - pole * half * bend * cosine / mass;
  c->x += c->v * dt;
  c->v += speed_up * dt;
  c->angle += c->turn * dt;
  c->turn += bend * dt;
}

/* Returns a normally distributed random number, by the Box-Muller transform. */
static double normal(void) {
  double u = (rand() + 1.0) / (RAND_MAX + 2.0), v = rand() / (RAND_MAX + 1.0);
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static double microseconds_between(const struct timespec *from, const struct timespec *to) {
  return (double)(to->tv_sec - from->tv_sec) * 1e6 + (double)(to->tv_nsec - from->tv_nsec) * 1e-3;
}

static void ask_for_real_time(void) {
  struct sched_param priority = {.sched_priority = 50};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
    printf("without SCHED_FIFO: %s\n", strerror(errno));
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
    printf("without locked memory: %s\n", strerror(errno));
}

/* Runs the loop. Two tensors take turns as the old and the new state of the controller, so that
** a tick allocates nothing. */
static bool balance(tl_Program *program, double seconds) {
  static float expected[2][4], measured[2], force[1];
  const int64_t four[] = {1, 4}, two[] = {1, 2}, one[] = {1, 1};
  tl_Tensor *state[] = {tl_tensor_wrap(expected[0], TL_F32, 2, four, NULL, NULL, NULL),
                        tl_tensor_wrap(expected[1], TL_F32, 2, four, NULL, NULL, NULL)};
  tl_Tensor *sensors = tl_tensor_wrap(measured, TL_F32, 2, two, NULL, NULL, NULL);
  tl_Tensor *motor = tl_tensor_wrap(force, TL_F32, 2, one, NULL, NULL, NULL);
  bool ok = state[0] && state[1] && sensors && motor;

  Cart cart = {.angle = 0.15};
  expected[0][2] = (float)cart.angle;
  Histogram late = {{0}, 0}, took = {{0}, 0};
  double most_angle = 0, last_angles = 0;
  long ticks = (long)(seconds * 1e9 / TICK_NS);
  struct timespec next, woke, done;
  clock_gettime(CLOCK_MONOTONIC, &next);
  for (long i = 0; ok && i < ticks; i++) {
    next.tv_nsec += TICK_NS;
    if (next.tv_nsec >= 1000000000) next.tv_nsec -= 1000000000, next.tv_sec++;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    clock_gettime(CLOCK_MONOTONIC, &woke);
    measured[0] = (float)(cart.x + 1e-3 * normal());
    measured[1] = (float)(cart.angle + 1e-3 * normal());
    tl_Tensor *in[] = {state[i % 2], sensors}, *out[] = {state[1 - i % 2], motor};
    ok = tl_program_run(program, in, 2, out, 2);
    clock_gettime(CLOCK_MONOTONIC, &done);
    move(&cart, (double)force[0]);
    note(&late, microseconds_between(&next, &woke));
    note(&took, microseconds_between(&woke, &done));
    if (fabs(cart.angle) > most_angle) most_angle = fabs(cart.angle);
    if (i >= ticks - ticks / 4) last_angles += cart.angle * cart.angle;
  }
  if (ok) {
    print(&late, "the loop woke late");
    print(&took, "the controller took");
    printf(
        "the pole leant by %.3f rad at most, by %.4f rad in the last quarter; the cart is at %.2f m\n",
        most_angle, sqrt(last_angles / (double)(ticks / 4)), cart.x);
    puts(most_angle < 0.5 ? "balanced" : "fell");
  }
  tl_tensor_release(state[0]);
  tl_tensor_release(state[1]);
  tl_tensor_release(sensors);
  tl_tensor_release(motor);
  return ok;
}

int main(int argc, char **argv) {
  double seconds = argc == 3 ? atof(argv[2]) : 0;
  if (!(seconds > 0 && seconds < 1e6)) return fprintf(stderr, "usage: robot cart.tlp SECONDS\n"), 2;
  tl_Program *program = tl_program_load(argv[1]);
  bool ok = program != NULL && tl_set_num_threads(1);
  if (ok) {
    ask_for_real_time();
    ok = balance(program, seconds);
  }
  if (!ok) fprintf(stderr, "robot: %s\n", tl_error());
  tl_program_free(program);
  return ok ? 0 : 1;
}

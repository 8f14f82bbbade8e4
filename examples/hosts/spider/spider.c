/*
** spider.c - four-legged creatures in three dimensions learn to walk: ODE simulates their bodies,
** and ../game/walker.lua controls them and learns after each round, in a Lua state of this program.
**
**   spider walker.lua ROUNDS picture.ppm     the picture shows the last frame
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <ode/ode.h>
#include <tlua.h>

enum {
  SPIDERS = 32,
  LEGS = 4,
  JOINTS = 2 * LEGS, /* a hip and a knee for each leg */
  PARTS = 1 + 2 * LEGS,
  SENSES = 12 + JOINTS,
  ROUND = 240, /* frames in a round, which lasts four seconds */
  WIDTH = 800,
  HEIGHT = 300,
  GARBAGE_US = 300
};

typedef struct Spider {
  dBodyID part[PARTS]; /* the trunk, then the thigh and the shin of each leg */
  dGeomID box[PARTS];
  dJointID joint[JOINTS];
} Spider;

static dWorldID world;
static dSpaceID space;
static dGeomID ground;
static dJointGroupID contacts;
static Spider spiders[SPIDERS];
static float senses[SPIDERS][SENSES], joints[SPIDERS][JOINTS], scores[SPIDERS];
static double distances[SPIDERS]; /* how far each creature came on its legs */
static bool fallen[SPIDERS];
static const dReal sizes[PARTS][3] = {{0.8, 0.4, 0.15},   {0.1, 0.1, 0.35},   {0.08, 0.08, 0.35},
                                      {0.1, 0.1, 0.35},   {0.08, 0.08, 0.35}, {0.1, 0.1, 0.35},
                                      {0.08, 0.08, 0.35}, {0.1, 0.1, 0.35},   {0.08, 0.08, 0.35}};

/* ------------------------------------------------------------------------
** Creatures, in metres; x is forward, z is up
** --------------------------------------------------------------------- */

static void add_part(Spider *s, int i, dReal x, dReal y, dReal z, dReal mass) {
  const dReal *size = sizes[i];
  dMass m;
  dMassSetBoxTotal(&m, mass, size[0], size[1], size[2]);
  s->part[i] = dBodyCreate(world);
  dBodySetMass(s->part[i], &m);
  dBodySetPosition(s->part[i], x, y, z);
  s->box[i] = dCreateBox(space, size[0], size[1], size[2]);
  dGeomSetBody(s->box[i], s->part[i]);
}

/* Joins part b to part a by a hinge that swings the leg forwards and back. */
static void add_joint(Spider *s, int i, int a, int b, dReal x, dReal y, dReal z, dReal low,
                      dReal high) {
  s->joint[i] = dJointCreateHinge(world, 0);
  dJointAttach(s->joint[i], s->part[a], s->part[b]);
  dJointSetHingeAnchor(s->joint[i], x, y, z);
  dJointSetHingeAxis(s->joint[i], 0, 1, 0);
  dJointSetHingeParam(s->joint[i], dParamLoStop, low);
  dJointSetHingeParam(s->joint[i], dParamHiStop, high);
  dJointSetHingeParam(s->joint[i], dParamFMax, 40);
}

static void add_spider(Spider *s) {
  add_part(s, 0, 0, 0, 0.78, 4);
  for (int leg = 0; leg < LEGS; leg++) {
    dReal x = leg < 2 ? 0.3 : -0.3, y = leg % 2 ? 0.26 : -0.26;
    int thigh = 1 + 2 * leg;
    add_part(s, thigh, x, y, 0.55, 0.4);
    add_part(s, thigh + 1, x, y, 0.2, 0.3);
    add_joint(s, 2 * leg, 0, thigh, x, y, 0.72, -0.9, 0.9);
    add_joint(s, 2 * leg + 1, thigh, thigh + 1, x, y, 0.375, -1.2, 0.2);
  }
}

static void remove_spider(Spider *s) {
  for (int i = 0; i < JOINTS; i++) dJointDestroy(s->joint[i]);
  for (int i = 0; i < PARTS; i++) {
    dGeomDestroy(s->box[i]);
    dBodyDestroy(s->part[i]);
  }
}

/* Makes contacts between the ground and the bodies. Creatures do not touch one another, since all
** walk on the same spot. */
static void touch(void *unused, dGeomID a, dGeomID b) {
  (void)unused;
  dContact found[4];
  if (a != ground && b != ground) return;
  int n = dCollide(a, b, 4, &found[0].geom, sizeof *found);
  for (int i = 0; i < n; i++) {
    found[i].surface = (dSurfaceParameters){.mode = dContactApprox1, .mu = 1.2};
    dJointAttach(dJointCreateContact(world, contacts, &found[i]), dGeomGetBody(a), dGeomGetBody(b));
  }
}

static void sense(const Spider *s, int frame, float *out) {
  dBodyID trunk = s->part[0];
  const dReal *turned = dBodyGetRotation(trunk), *at = dBodyGetPosition(trunk),
              *speed = dBodyGetLinearVel(trunk), *spin = dBodyGetAngularVel(trunk);
  double beat = 6.283185307179586 * frame / 40;
  /* turned[2] and turned[6] are x and y of the trunk's up direction in world coordinates, and
  ** turned[4] is y of its forward direction */
  const dReal all[12] = {turned[2],   turned[6],   turned[4], at[2] - 0.78, speed[0],  speed[1],
                         spin[0] / 3, spin[1] / 3, spin[2],   speed[2],     sin(beat), cos(beat)};
  for (int i = 0; i < 12; i++) out[i] = (float)all[i];
  for (int i = 0; i < JOINTS; i++) out[12 + i] = (float)dJointGetHingeAngle(s->joint[i]);
}

/* ------------------------------------------------------------------------
** The script
** --------------------------------------------------------------------- */

/* Pushes a tensor that uses `data`, an array of this program, as its memory. Must be called in
** protected mode, because it may raise an error. */
static void push_floats(lua_State *L, float *data, int rows, int columns) {
  const int64_t shape[] = {rows, columns};
  tl_Tensor *t = tl_tensor_wrap(data, TL_F32, columns ? 2 : 1, shape, NULL, NULL, NULL);
  if (t == NULL) luaL_error(L, "%s", tl_error());
  tl_lua_push(L, t);
  tl_tensor_release(t);
}

static int load(lua_State *L) {
  if (luaL_dofile(L, lua_touserdata(L, 1)) != LUA_OK) return lua_error(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, "walker");
  lua_getfield(L, -1, "start");
  push_floats(L, senses[0], SPIDERS, SENSES);
  push_floats(L, joints[0], SPIDERS, JOINTS);
  lua_call(L, 2, 0);
  return 0;
}

static int act(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "walker");
  lua_getfield(L, -1, "act");
  lua_call(L, 0, 0);
  return 0;
}

static int learn(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "walker");
  lua_getfield(L, -1, "learn");
  push_floats(L, scores, SPIDERS, 0);
  lua_call(L, 1, 0);
  return 0;
}

static bool call(lua_State *L, lua_CFunction f, const char *argument) {
  lua_pushcfunction(L, f);
  lua_pushlightuserdata(L, (void *)argument);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return true;
  fprintf(stderr, "spider: %s\n", lua_tostring(L, -1));
  lua_pop(L, 1);
  return false;
}

/* ------------------------------------------------------------------------
** Rounds
** --------------------------------------------------------------------- */

/* Plays one frame: the script decides, and ODE makes two steps. A creature that has fallen stands
** still, and gets no more points. */
static bool play_frame(lua_State *L, int frame, double *spent) {
  for (int i = 0; i < SPIDERS; i++) sense(&spiders[i], frame, senses[i]);
  clock_t before = clock();
  bool ok = call(L, act, NULL);
  tl_gc_step(L, GARBAGE_US);
  *spent += (double)(clock() - before) / CLOCKS_PER_SEC;
  for (int i = 0; i < SPIDERS; i++)
    for (int j = 0; j < JOINTS; j++)
      dJointSetHingeParam(spiders[i].joint[j], dParamVel, fallen[i] ? 0 : 3 * (dReal)joints[i][j]);
  for (int step = 0; step < 2; step++) {
    dSpaceCollide(space, NULL, touch);
    dWorldQuickStep(world, 1.0 / 120);
    dJointGroupEmpty(contacts);
  }
  for (int i = 0; i < SPIDERS; i++) {
    if (fallen[i]) continue;
    fallen[i] = dBodyGetRotation(spiders[i].part[0])[10] < 0.5 ||
                dBodyGetPosition(spiders[i].part[0])[2] < 0.45;
    distances[i] = dBodyGetPosition(spiders[i].part[0])[0];
    scores[i] = (float)(frame / 60.0 + 2 * distances[i]);
  }
  return ok;
}

/* ------------------------------------------------------------------------
** The picture
** --------------------------------------------------------------------- */

static unsigned char picture[HEIGHT][WIDTH][3];

/* Projects a point in world coordinates into the picture, seen from the side and a little from
** above. */
static void project(const dReal *at, double *out) {
  out[0] = 100 + 90 * at[0] + 35 * at[1];
  out[1] = HEIGHT - 60 - 90 * at[2] - 30 * at[1];
}

static void draw_line(const double *a, const double *b, const unsigned char *colour) {
  for (int i = 0; i <= 200; i++) {
    int x = (int)(a[0] + (b[0] - a[0]) * i / 200), y = (int)(a[1] + (b[1] - a[1]) * i / 200);
    if (x >= 0 && x < WIDTH && y >= 0 && y < HEIGHT) memcpy(picture[y][x], colour, 3);
  }
}

/* Draws the edges of a box. An edge connects two corners that differ in one coordinate. */
static void draw_part(const Spider *s, int part, const unsigned char *colour) {
  double corner[8][2];
  for (int c = 0; c < 8; c++) {
    dVector3 at;
    dBodyGetRelPointPos(s->part[part], sizes[part][0] * (c & 1 ? 0.5 : -0.5),
                        sizes[part][1] * (c & 2 ? 0.5 : -0.5),
                        sizes[part][2] * (c & 4 ? 0.5 : -0.5), at);
    project(at, corner[c]);
  }
  for (int c = 0; c < 8; c++)
    for (int bit = 1; bit < 8; bit *= 2)
      if (!(c & bit)) draw_line(corner[c], corner[c | bit], colour);
}

static bool save_picture(const char *path) {
  static const unsigned char first[] = {200, 60, 30}, others[] = {170, 185, 200},
                             grid[] = {215, 215, 205};
  memset(picture, 245, sizeof picture);
  for (int x = 0; x < 9; x++) { /* a line every metre */
    double a[2], b[2];
    project((dReal[]){x, -1, 0}, a);
    project((dReal[]){x, 1, 0}, b);
    draw_line(a, b, grid);
  }
  for (int i = SPIDERS - 1; i >= 0; i--)
    for (int part = 0; part < PARTS; part++) draw_part(&spiders[i], part, i == 0 ? first : others);
  FILE *file = fopen(path, "wb");
  if (file == NULL) return false;
  fprintf(file, "P6\n%d %d\n255\n", WIDTH, HEIGHT);
  bool ok = fwrite(picture, sizeof picture, 1, file) == 1;
  return fclose(file) == 0 && ok;
}

static bool play(lua_State *L, int rounds, const char *path) {
  double spent = 0;
  bool ok = true;
  for (int round = 1; ok && round <= rounds; round++) {
    for (int i = 0; i < SPIDERS; i++) add_spider(&spiders[i]);
    for (int frame = 0; ok && frame < ROUND; frame++) ok = play_frame(L, frame, &spent);
    double farthest = 0;
    for (int i = 0; i < SPIDERS; i++) farthest = distances[i] > farthest ? distances[i] : farthest;
    if (round % 10 == 0 || round == 1)
      printf("round %d: the mean came %.2f m far, the farthest %.2f\n", round, distances[0],
             farthest);
    if (round == rounds) ok = ok && save_picture(path);
    ok = ok && call(L, learn, NULL);
    for (int i = 0; i < SPIDERS; i++) remove_spider(&spiders[i]);
    memset(scores, 0, sizeof scores);
    memset(fallen, 0, sizeof fallen);
  }
  printf("a frame of the script took %.0f us\n", 1e6 * spent / rounds / ROUND);
  return ok;
}

int main(int argc, char **argv) {
  int rounds = argc == 4 ? atoi(argv[2]) : 0;
  if (rounds < 1) return fprintf(stderr, "usage: spider walker.lua ROUNDS picture.ppm\n"), 2;
  dInitODE();
  dRandSetSeed(1);
  world = dWorldCreate();
  space = dHashSpaceCreate(0);
  contacts = dJointGroupCreate(0);
  ground = dCreatePlane(space, 0, 0, 1, 0);
  dWorldSetGravity(world, 0, 0, -9.81);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  bool ok = tl_set_num_threads(1) && tl_lua_open(L);
  if (!ok) fprintf(stderr, "spider: %s\n", tl_error());
  ok = ok && call(L, load, argv[1]);
  lua_gc(L, LUA_GCSTOP);
  ok = ok && play(L, rounds, argv[3]);
  lua_close(L);
  dWorldDestroy(world);
  dSpaceDestroy(space);
  dJointGroupDestroy(contacts);
  dCloseODE();
  return ok ? 0 : 1;
}

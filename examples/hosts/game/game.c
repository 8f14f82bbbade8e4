/*
** game.c - a game whose creatures learn to walk while the game runs. Chipmunk simulates the
** creatures, SDL draws them, and walker.lua controls and trains them in each frame, in a Lua state
** of the game.
**
**   game walker.lua                        in a window, at 60 frames a second
**   game walker.lua FRAMES picture.bmp     without one, as fast as it goes; the last frame is kept
**
** The script may use 2 ms of each frame. To keep this limit, the game stops Lua's garbage collector
** and runs it for a part of these 2 ms (tl_gc_step). If walker.lua is edited and saved while the
** game runs, the game loads the new file.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <SDL.h>
#include <chipmunk/chipmunk.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <tlua.h>

enum {
  CREATURES = 32,
  SENSES = 11,
  JOINTS = 4,
  PARTS = 5,
  ROUND = 360, /* frames in a round, which lasts six seconds */
  WIDTH = 960,
  HEIGHT = 360,
  BUDGET_US = 2000,
  GARBAGE_US = 300
};

typedef struct Creature {
  cpBody *part[PARTS]; /* the trunk, then the thigh and the shin of each leg */
  cpShape *shape[PARTS];
  cpConstraint *motor[JOINTS], *other[2 * JOINTS];
} Creature;

static Creature creatures[CREATURES];
static float senses[CREATURES][SENSES], joints[CREATURES][JOINTS], distances[CREATURES],
    scores[CREATURES];
static bool fallen[CREATURES];
static const cpVect sizes[PARTS] = {{60, 22}, {9, 34}, {9, 34}, {9, 34}, {9, 34}};

/* ------------------------------------------------------------------------
** Creatures
** --------------------------------------------------------------------- */

static void add_part(cpSpace *space, Creature *c, int i, cpVect at, cpFloat mass) {
  cpVect size = sizes[i];
  c->part[i] = cpSpaceAddBody(space, cpBodyNew(mass, cpMomentForBox(mass, size.x, size.y)));
  cpBodySetPosition(c->part[i], at);
  c->shape[i] = cpSpaceAddShape(space, cpBoxShapeNew(c->part[i], size.x, size.y, 1));
  cpShapeSetFriction(c->shape[i], 1);
  cpShapeSetFilter(c->shape[i], cpShapeFilterNew(1, CP_ALL_CATEGORIES, CP_ALL_CATEGORIES));
}

/* Joins part b to part a at a point in world coordinates. */
static void add_joint(cpSpace *space, Creature *c, int i, int a, int b, cpVect at, cpFloat low,
                      cpFloat high) {
  cpBody *upper = c->part[a], *lower = c->part[b];
  c->other[2 * i] = cpSpaceAddConstraint(space, cpPivotJointNew(upper, lower, at));
  c->other[2 * i + 1] = cpSpaceAddConstraint(space, cpRotaryLimitJointNew(upper, lower, low, high));
  c->motor[i] = cpSpaceAddConstraint(space, cpSimpleMotorNew(upper, lower, 0));
  cpConstraintSetMaxForce(c->motor[i], 4e5);
}

static void add_creature(cpSpace *space, Creature *c) {
  add_part(space, c, 0, cpv(0, 92), 3);
  for (int leg = 0; leg < 2; leg++) {
    cpFloat x = leg == 0 ? -18 : 18;
    int thigh = 1 + 2 * leg;
    add_part(space, c, thigh, cpv(x, 64), 0.5);
    add_part(space, c, thigh + 1, cpv(x, 30), 0.5);
    add_joint(space, c, 2 * leg, 0, thigh, cpv(x, 81), -1, 1);
    add_joint(space, c, 2 * leg + 1, thigh, thigh + 1, cpv(x, 47), -1.4, 0.1);
  }
}

static void remove_creature(cpSpace *space, Creature *c) {
  for (int i = 0; i < JOINTS; i++) {
    cpConstraint *all[] = {c->motor[i], c->other[2 * i], c->other[2 * i + 1]};
    for (int k = 0; k < 3; k++) {
      cpSpaceRemoveConstraint(space, all[k]);
      cpConstraintFree(all[k]);
    }
  }
  for (int i = 0; i < PARTS; i++) {
    cpSpaceRemoveShape(space, c->shape[i]);
    cpShapeFree(c->shape[i]);
    cpSpaceRemoveBody(space, c->part[i]);
    cpBodyFree(c->part[i]);
  }
}

static void sense(const Creature *c, int frame, float *out) {
  cpVect at = cpBodyGetPosition(c->part[0]), speed = cpBodyGetVelocity(c->part[0]);
  cpFloat angle = cpBodyGetAngle(c->part[0]), beat = 6.283185307179586 * frame / 45;
  const cpFloat all[SENSES] = {angle,
                               cpBodyGetAngularVelocity(c->part[0]) / 5,
                               speed.x / 200,
                               speed.y / 200,
                               (at.y - 92) / 40,
                               cpBodyGetAngle(c->part[1]) - angle,
                               cpBodyGetAngle(c->part[2]) - cpBodyGetAngle(c->part[1]),
                               cpBodyGetAngle(c->part[3]) - angle,
                               cpBodyGetAngle(c->part[4]) - cpBodyGetAngle(c->part[3]),
                               cpfsin(beat),
                               cpfcos(beat)};
  for (int i = 0; i < SENSES; i++) out[i] = (float)all[i];
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

/* Loads the script that the argument names. If a script was loaded before, passes its weights to
** the new one. */
static int load(lua_State *L) {
  bool again = lua_getfield(L, LUA_REGISTRYINDEX, "walker") == LUA_TTABLE; /* at 2 */
  if (luaL_loadfile(L, luaL_checkstring(L, 1)) != LUA_OK) return lua_error(L);
  lua_call(L, 0, 1);
  lua_getfield(L, 3, "start");
  push_floats(L, senses[0], CREATURES, SENSES);
  push_floats(L, joints[0], CREATURES, JOINTS);
  if (again) lua_getfield(L, 2, "mean");
  lua_call(L, again ? 3 : 2, 0);
  lua_setfield(L, LUA_REGISTRYINDEX, "walker");
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
  push_floats(L, scores, CREATURES, 0);
  lua_call(L, 1, 0);
  return 0;
}

/* Calls one of the C functions above, such as load, in protected mode. If the script raises an
** error, the error is printed and the game goes on. */
static bool call(lua_State *L, lua_CFunction f, const char *argument) {
  lua_pushcfunction(L, f);
  if (argument) lua_pushstring(L, argument);
  if (lua_pcall(L, argument != NULL, 0, 0) == LUA_OK) return true;
  fprintf(stderr, "game: %s\n", lua_tostring(L, -1));
  lua_pop(L, 1);
  return false;
}

static time_t changed(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 ? s.st_mtime : 0;
}

/* ------------------------------------------------------------------------
** The game
** --------------------------------------------------------------------- */

static double microseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void draw_part(SDL_Renderer *r, const Creature *c, int i, cpFloat camera) {
  SDL_Point corners[5];
  for (int k = 0; k < 5; k++) {
    cpVect local =
        cpv(sizes[i].x / 2 * ((k + 1) / 2 % 2 ? 1 : -1), sizes[i].y / 2 * (k / 2 % 2 ? 1 : -1));
    cpVect p = cpBodyLocalToWorld(c->part[i], local);
    corners[k] = (SDL_Point){(int)(p.x - camera), HEIGHT - 60 - (int)p.y};
  }
  SDL_RenderDrawLines(r, corners, 5);
}

static void draw(SDL_Renderer *r, cpFloat camera) {
  SDL_SetRenderDrawColor(r, 245, 245, 240, 255);
  SDL_RenderClear(r);
  SDL_SetRenderDrawColor(r, 150, 150, 140, 255);
  SDL_RenderDrawLine(r, 0, HEIGHT - 60, WIDTH, HEIGHT - 60);
  for (int x = 0; x < 40; x++) { /* a post every 100 units */
    int at = (int)(x * 100 - camera);
    SDL_RenderDrawLine(r, at, HEIGHT - 60, at, HEIGHT - 50);
  }
  for (int i = CREATURES - 1; i >= 0; i--) {
    if (i == 0)
      SDL_SetRenderDrawColor(r, 200, 60, 30, 255);
    else
      SDL_SetRenderDrawColor(r, 170, 185, 200, 255);
    for (int p = 0; p < PARTS; p++) draw_part(r, &creatures[i], p, camera);
  }
  SDL_RenderPresent(r);
}

/* How long the script's calls took, in microseconds, including garbage collection. */
typedef struct Costs {
  double most, sum;
  long calls, over;
} Costs;

/* Calls one of the script's functions, and gives the garbage collector its share of the time. */
static void think(lua_State *L, lua_CFunction f, Costs *costs) {
  double before = microseconds();
  call(L, f, NULL);
  tl_gc_step(L, GARBAGE_US);
  double cost = microseconds() - before;
  costs->sum += cost;
  costs->calls++;
  costs->over += cost > BUDGET_US;
  if (cost > costs->most) costs->most = cost;
}

/* Updates a creature's distance and score. The score also gains a point for each frame in which the
** creature stands. Otherwise creatures would learn to leap and fall. A fallen creature gains
** neither distance nor points. */
static void look_at(int i) {
  const cpBody *trunk = creatures[i].part[0];
  if (fallen[i]) return;
  fallen[i] = cpfabs(cpBodyGetAngle(trunk)) > 1 || cpBodyGetPosition(trunk).y < 45;
  scores[i] += 1 + 4 * ((float)cpBodyGetPosition(trunk).x - distances[i]);
  distances[i] = (float)cpBodyGetPosition(trunk).x;
}

static void play_frame(lua_State *L, cpSpace *space, int frame, Costs *costs) {
  for (int i = 0; i < CREATURES; i++) sense(&creatures[i], frame, senses[i]);
  think(L, act, costs);
  for (int i = 0; i < CREATURES; i++)
    for (int j = 0; j < JOINTS; j++)
      cpSimpleMotorSetRate(creatures[i].motor[j], fallen[i] ? 0 : 8 * (double)joints[i][j]);
  for (int i = 0; i < 3; i++) cpSpaceStep(space, 1.0 / 180);
  for (int i = 0; i < CREATURES; i++) look_at(i);
}

static void end_round(lua_State *L, cpSpace *space, int round, Costs *costs) {
  float farthest = distances[0];
  for (int i = 0; i < CREATURES; i++) {
    if (distances[i] > farthest) farthest = distances[i];
    fallen[i] = false;
    remove_creature(space, &creatures[i]);
    add_creature(space, &creatures[i]);
  }
  if (round % 10 == 0)
    printf("round %d: the mean came %.0f far, the farthest %.0f\n", round, (double)distances[0],
           (double)farthest);
  think(L, learn, costs);
  memset(scores, 0, sizeof scores);
  memset(distances, 0, sizeof distances);
}

static bool wants_to_quit(void) {
  for (SDL_Event e; SDL_PollEvent(&e);)
    if (e.type == SDL_QUIT) return true;
  return false;
}

static void play(lua_State *L, cpSpace *space, SDL_Renderer *r, SDL_Window *window,
                 const char *script, long frames) {
  Costs costs = {0, 0, 0, 0};
  time_t version = changed(script);
  for (long n = 1; frames == 0 || n <= frames; n++) {
    play_frame(L, space, (int)(n % ROUND), &costs);
    if (window || n == frames) draw(r, cpBodyGetPosition(creatures[0].part[0]).x - WIDTH / 2);
    if (n % ROUND == 0 && n != frames) end_round(L, space, (int)(n / ROUND), &costs);
    if (window) {
      SDL_UpdateWindowSurface(window);
      if (wants_to_quit()) break;
      SDL_Delay(14);
    }
    if (n % 60 == 0 && changed(script) != version) {
      version = changed(script);
      call(L, load, script);
    }
  }
  printf("a call of the script took %.0f us, at most %.0f; %ld of %ld took over %d us\n",
         costs.sum / (double)costs.calls, costs.most, costs.over, costs.calls, BUDGET_US);
}

static cpSpace *new_world(void) {
  cpSpace *space = cpSpaceNew();
  cpSpaceSetGravity(space, cpv(0, -900));
  cpShape *ground = cpSegmentShapeNew(cpSpaceGetStaticBody(space), cpv(-1e5, 0), cpv(1e5, 0), 0);
  cpShapeSetFriction(cpSpaceAddShape(space, ground), 1);
  for (int i = 0; i < CREATURES; i++) add_creature(space, &creatures[i]);
  return space;
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 4)
    return fprintf(stderr, "usage: game walker.lua [FRAMES picture.bmp]\n"), 2;
  long frames = argc == 4 ? atol(argv[2]) : 0;
  SDL_Window *window = NULL;
  if (frames == 0) {
    if (SDL_Init(SDL_INIT_VIDEO) != 0) return fprintf(stderr, "game: %s\n", SDL_GetError()), 1;
    window = SDL_CreateWindow("tlua walks", SDL_WINDOWPOS_CENTERED, SDL_WINDOWPOS_CENTERED, WIDTH,
                              HEIGHT, 0);
  }
  SDL_Surface *surface =
      window ? SDL_GetWindowSurface(window)
             : SDL_CreateRGBSurfaceWithFormat(0, WIDTH, HEIGHT, 32, SDL_PIXELFORMAT_RGBA32);
  SDL_Renderer *renderer = surface ? SDL_CreateSoftwareRenderer(surface) : NULL;
  lua_State *L = luaL_newstate();
  if (renderer == NULL || L == NULL) return fprintf(stderr, "game: %s\n", SDL_GetError()), 1;
  luaL_openlibs(L);
  cpSpace *space = new_world();
  bool ok = tl_set_num_threads(1) && tl_lua_open(L);
  if (!ok) fprintf(stderr, "game: %s\n", tl_error());
  /* the first call is slow, so it comes before the timed frames */
  ok = ok && call(L, load, argv[1]) && call(L, act, NULL);
  if (ok) {
    lua_gc(L, LUA_GCSTOP);
    play(L, space, renderer, window, argv[1], frames);
    if (argc == 4) ok = SDL_SaveBMP(surface, argv[3]) == 0;
  }
  lua_close(L);
  for (int i = 0; i < CREATURES; i++) remove_creature(space, &creatures[i]);
  cpSpaceFree(space);
  SDL_DestroyRenderer(renderer);
  if (!window) SDL_FreeSurface(surface);
  SDL_Quit();
  return ok ? 0 : 1;
}

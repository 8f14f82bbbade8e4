/*
** left_out.c - replaces the parts of the library that a build with PROFILE=infer omits. The tables
** of these parts, such as torch.distributed, exist, but reading any field raises an error that says
** that the part is missing. The functions of tlua.h for these parts fail with a message.
*/
#include "core/error.h"
#include "lua/tensor/value.h"

void tli_open_dist(lua_State *L) {
  lua_newtable(L);
  lua_setfield(L, -2, "distributed");
}

void tli_open_profile(lua_State *L) { (void)L; }
void tli_open_notebook(lua_State *L) { (void)L; }
void tli_open_programs(lua_State *L) { (void)L; }

/* ---- programs of torch.export: there are none, since none can be loaded ---- */

static bool no_programs(void) {
  return tli_fail(TL_EARG, "program: torch.export is not in this build (PROFILE=infer)");
}

tl_Program *tl_program_load(const char *path) {
  (void)path, (void)no_programs();
  return NULL;
}

tl_Program *tl_program_read(const void *bytes, size_t size) {
  (void)bytes, (void)size, (void)no_programs();
  return NULL;
}

void tl_program_free(tl_Program *program) { (void)program; }

int tl_program_inputs(const tl_Program *program) {
  (void)program;
  return 0;
}

int tl_program_outputs(const tl_Program *program) {
  (void)program;
  return 0;
}

bool tl_program_input(const tl_Program *program, int i, tl_ProgramInput *out) {
  (void)program, (void)i, (void)out;
  return no_programs();
}

bool tl_program_step(tl_Program *program, tl_Tensor *const *inputs, int ninputs,
                     tl_Tensor **outputs, int noutputs) {
  return tl_program_run(program, inputs, ninputs, outputs, noutputs);
}

bool tl_program_seed(tl_Program *program, uint64_t seed) {
  (void)program, (void)seed;
  return no_programs();
}

bool tl_program_save(tl_Program *program, const char *path) {
  (void)program, (void)path;
  return no_programs();
}

bool tl_program_share(tl_Program *program, tl_Program *from) {
  (void)program, (void)from;
  return no_programs();
}

bool tl_program_run(tl_Program *program, tl_Tensor *const *inputs, int ninputs, tl_Tensor **outputs,
                    int noutputs) {
  (void)program, (void)inputs, (void)ninputs, (void)outputs, (void)noutputs;
  return no_programs();
}

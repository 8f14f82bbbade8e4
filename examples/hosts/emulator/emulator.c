/*
** emulator.c - runs a game for the Game Boy in mGBA, without a screen. The emulator's own Lua 5.4
** runs chase.lua, which presses the keys and learns with tlua.
**
**   emulator chase.lua FRAMES
*/
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mgba/core/core.h>
#include <mgba/core/scripting.h>
#include <mgba/gb/core.h>
#include <mgba/internal/script/lua.h>
#include <mgba/script/context.h>
#include <mgba-util/vfs.h>

/* The game, in machine code. Once in each frame, the player's position (the byte at 0xC000)
** moves by one if left or right is pressed. Every 64 frames the prey (at 0xC001) leaps to
** another position. */
static const unsigned char game[] = {
    0x3E, 0x50, 0xEA, 0x00, 0xC0, 0xEA, 0x01, 0xC0, 0x06, 0x00, /* both begin at 0x50 */
    0xF0, 0x44, 0xFE, 0x90, 0x20, 0xFA,                         /* wait for line 144 */
    0x3E, 0x20, 0xE0, 0x00, 0xF0, 0x00, 0xF0, 0x00,             /* read the direction keys */
    0x21, 0x00, 0xC0,                                           /* address of the player */
    0xCB, 0x47, 0x20, 0x01, 0x34,                               /* right: add one */
    0xCB, 0x4F, 0x20, 0x01, 0x35,                               /* left: subtract one */
    0x04, 0x78, 0xE6, 0x3F, 0x20, 0x0A,                         /* only every 64 frames: */
    0xFA, 0x01, 0xC0, 0xC6, 0x47, 0xCB, 0x07, 0xEA, 0x01, 0xC0, /* the prey leaps */
    0xF0, 0x44, 0xFE, 0x90, 0x28, 0xFA,                         /* wait for line 144's end */
    0x18, 0xCD};                                                /* repeat for the next frame */

static unsigned char cartridge[32768];

static struct VFile *insert_cartridge(void) {
  static const unsigned char entry[] = {0x00, 0xC3, 0x50, 0x01, 0xCE, 0xED, 0x66, 0x66};
  memcpy(cartridge + 0x100, entry, sizeof entry);
  memcpy(cartridge + 0x150, game, sizeof game);
  return VFileFromConstMemory(cartridge, sizeof cartridge);
}

static int play(struct mCore *core, const char *script, long frames) {
  struct mScriptContext context;
  mScriptContextInit(&context);
  mScriptContextAttachStdlib(&context);
  struct mScriptEngineContext *lua = mScriptContextRegisterEngine(&context, mSCRIPT_ENGINE_LUA);
  mScriptContextAttachCore(&context, core);
  struct VFile *file = VFileOpen(script, O_RDONLY);
  bool ok = file && lua->load(lua, script, file) && lua->run(lua);
  if (!ok) fprintf(stderr, "emulator: %s\n", file ? lua->getError(lua) : "there is no such script");
  for (long i = 0; ok && i < frames; i++) {
    core->runFrame(core);
    mScriptContextTriggerCallback(&context, "frame");
    mScriptContextDrainPool(&context);
  }
  if (file) file->close(file);
  mScriptContextDeinit(&context);
  return ok ? 0 : 1;
}

int main(int argc, char **argv) {
  static uint32_t screen[256 * 224];
  if (argc != 3) return fprintf(stderr, "usage: emulator chase.lua FRAMES\n"), 2;
  struct mCore *core = GBCoreCreate();
  if (core == NULL || !core->init(core)) return fprintf(stderr, "emulator: no core\n"), 1;
  mCoreInitConfig(core, NULL);
  core->setVideoBuffer(core, screen, 256);
  if (!core->loadROM(core, insert_cartridge())) return fprintf(stderr, "emulator: no game\n"), 1;
  core->reset(core);
  int status = play(core, argv[1], atol(argv[2]));
  mCoreConfigDeinit(&core->config);
  core->deinit(core);
  return status;
}
